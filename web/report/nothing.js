// The page when nothing fits: by how much, which bytes, and what would help.
import {commands, hero, memoryPanel, words} from "./answer.js";
import {el, folded, gib, section} from "./tools.js";

export function nothing(plan) {
  const {details} = plan, one = plan.smallest;
  const node = section("answer", "");
  node.querySelector("h2").replaceWith(...hero(plan, one ? "Nothing fits" : "No layout", "bad", one ? "Does not fit" : "Not found"));
  const texts = about => details.notes.filter(note => note.about === about).flatMap(note => note.text.trim().split("\n")).map(line => el("p", line));
  node.append(...texts("nothing"));
  if (!one) {
    node.append(...commands(details.commands));
    return node;
  }
  const {memory} = one, worst = memory.classes[memory.worst], over = worst.driver - memory.capacity;
  node.append(el("p.headline", `The layout that needs least takes ${gib(worst.driver)} of peak memory; ${gib(memory.capacity)} are usable.`
    + (over > 0 ? ` It exceeds capacity by ${gib(over)}.` : ` Its OOM probability is ${details.layouts[0].oom}.`)));
  const most = Object.entries(worst.bytes).sort((a, b) => b[1] - a[1]).filter(([, bytes]) => bytes > worst.driver / 50);
  const ways = details.ways_out.flatMap(way => commands([{does: `${way.does}: fits with ${way.found}`, command: way.command}]));
  node.append(el("div.cards", memoryPanel(memory, ".bad")),
    el("h3", "What would fit"), ...texts("change"), ...(ways.length ? ways : texts("larger")),
    el("h3", "Memory breakdown"), el("ul", ...most.map(([kind, bytes]) => el("li", `${details.names.categories[kind]}: ${gib(bytes)} = ${details.layouts[0].formulas[kind]}`))),
    folded(`Configuration explained: ${details.layouts[0].short}`, el("div", words(details.layouts[0].words), el("p.small.soft", `${details.assumed}.`))));
  return node;
}
