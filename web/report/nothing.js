// The page when nothing fits: which bytes, and what would help.
import {commands, words} from "./answer.js";
import {el, gib, section} from "./tools.js";

export function nothing(plan) {
  const {details} = plan, one = plan.smallest;
  const node = section("answer", "");
  const title = one ? "Nothing fits" : "No layout";
  node.querySelector("h2").replaceWith(el("h1", details.title, el("span.chip.bad", title)), el("p.soft", `${details.asked}. ${details.assumed}.`));
  const texts = about => details.notes.filter(note => note.about === about).flatMap(note => note.text.trim().split("\n")).map(line => el("p", line));
  node.append(...texts("nothing"));
  if (one) {
    const {memory} = one, worst = memory.classes[memory.worst];
    const over = worst.driver - memory.capacity;
    node.append(el("p.headline", `The layout that needs least takes ${gib(worst.driver)} on its fullest rank; ${gib(memory.capacity)} are usable.`
      + (over > 0 ? ` That is ${gib(over)} too much.` : ` That is too near: its chance of running out of memory is ${details.layouts[0].oom}.`)));
    const most = Object.entries(worst.bytes).sort((a, b) => b[1] - a[1]).filter(([, bytes]) => bytes > worst.driver / 50);
    node.append(el("div.columns",
      el("div", el("h3", "Where the bytes are"), el("ul", ...most.map(([kind, bytes]) => el("li", `${details.names.categories[kind]}: ${gib(bytes)} = ${details.layouts[0].formulas[kind]}`)))),
      el("div", el("h3", "What would fit"), ...texts("change"), ...(details.ways_out.length ? details.ways_out.flatMap(way => commands([{does: `${way.does}. Fits with ${way.found}`, command: way.command}])) : texts("larger")))),
      el("h3", "The layout in words"), words(details.layouts[0].words));
  } else {
    node.append(...commands(details.commands));
  }
  return node;
}
