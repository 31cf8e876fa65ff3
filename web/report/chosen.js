// Which layout the page shows: a choice in one part is seen in all of them.
export function choice(first) {
  const followers = [];
  let at = first;
  return {
    at: () => at,
    follow(act) { followers.push(act); },
    choose(i) {
      at = i;
      for (const act of followers) act(i);
    },
  };
}
