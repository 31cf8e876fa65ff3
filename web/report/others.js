// The layouts that were found: step time against memory, the table, and what one change of the recommended one would do.
import {scatter} from "./scatter.js";
import {alike, el, gib, percent, seconds, section, sheet, signed, table} from "./tools.js";

// The parts of a step that differ most.
function differences(time, base, names) {
  const by = Object.keys(names).map(part => [names[part], (time.parts[part] || 0) - (base.parts[part] || 0)]).filter(([, s]) => Math.abs(s) > base.step / 1e3);
  return by.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 3).map(([name, s]) => `${name} ${s < 0 ? "−" : "+"}${seconds(Math.abs(s))}`).join(", ");
}

function found(plan, chosen) {
  const {details} = plan, base = plan.best[plan.recommended], shown = plan.best.slice(0, details.layouts.length);
  const step = alike(shown.map(one => one.time.step));
  const trade = i => i === plan.recommended ? "recommended" : [i === 0 ? "fastest" : "", differences(shown[i].time, base.time, details.names.parts)].filter(Boolean).join(": ");
  const node = sheet("layouts", [["no.", "n"], ["layout", "mono"], ["step", "n"], [`vs ${plan.recommended + 1}`, "n"], ["MFU", "n"], ["peak memory", "n"], ["P(OOM)", "n"], [`what differs from ${plan.recommended + 1}`, ""]],
    shown.map((one, i) => [`${i + 1}`, details.layouts[i].short, step(one.time.step), i === plan.recommended ? "–" : signed(one.time.step / base.time.step - 1), percent(one.time.mfu),
      gib(one.memory.classes[one.memory.worst].driver), details.layouts[i].oom, trade(i)]), plan.recommended);
  node.classList.add("layouts");
  const lines = [...node.querySelector("tbody").rows];
  lines.forEach((line, i) => {
    const button = el("button.pick", `${i + 1}`);
    button.setAttribute("aria-label", `Show layout ${i + 1} in the figures`);
    line.cells[0].replaceChildren(button);
    line.addEventListener("click", () => chosen.choose(i));
  });
  const mark = at => lines.forEach((line, i) => { line.classList.toggle("shown", i === at); line.cells[0].firstChild.setAttribute("aria-pressed", i === at); });
  chosen.follow(mark);
  mark(chosen.at());
  return node;
}

// What the framework runs before what it rejects.
function changes(all) {
  const list = [...all.filter(one => one.step !== undefined), ...all.filter(one => one.step === undefined)];
  return sheet("one change", [["change", "mono"], ["step", "n"], ["peak memory", "n"], ["P(OOM)", "n"], ["why", ""]],
    list.map(one => [one.change, one.step === undefined ? "" : signed(one.longer), one.driver === undefined ? "" : gib(one.driver), one.oom || "", one.why]));
}

// What --why-not asked about, beside layout 1.
function whyNot(asked) {
  const title = el("h3", `Why not ${asked.short}?`);
  if (asked.refused) return [title, table([["why it is rejected", ""], ["hint", ""]], asked.refused.map(one => [one.reason, one.hint]))];
  const rows = asked.rows.map(([what, ...rest]) => [what.startsWith(" ") ? `– ${what.trim()}` : what, ...rest]);
  return [title, el("p", asked.verdict), table([["", ""], ["layout 1", "n"], ["the other", "n"], ["difference", "n"]], rows)];
}

export function others(plan, chosen) {
  const notes = about => plan.details.notes.filter(one => about.includes(one.about)).map(one => el("p", one.text));
  const node = section("others", "Alternatives", ...scatter(plan, plan.best, chosen), found(plan, chosen),
    el("p.small.soft", "Choose a row or a numbered dot: memory and time below show that layout."),
    ...notes(["runner-up", "memory", "offload", "states", "gradients", "kernels", "host", "order", "risk", "run"]));
  if (plan.details.why_not) node.append(...whyNot(plan.details.why_not));
  if (plan.details.neighbours.length) {
    node.append(el("h3", `One change of layout ${plan.recommended + 1}`), el("p.small.soft", "The same devices; data parallelism takes what is left."), changes(plan.details.neighbours));
  }
  return node;
}
