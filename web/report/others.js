// The layouts that were found, and what one change of the recommended one would do.
import {el, gib, percent, section, seconds, table} from "./tools.js";

function found(plan) {
  const {details} = plan;
  return table([["no.", "n"], ["layout", "mono"], ["step", "n"], ["MFU", "n"], ["fullest rank", "n"], ["OOM", "n"], ["against 1", ""]],
    plan.best.map((one, i) => [`${i + 1}`, details.layouts[i].short, seconds(one.time.step), percent(one.time.mfu), gib(one.memory.classes[one.memory.worst].driver),
      details.layouts[i].oom, i === 0 ? (plan.recommended === 0 ? "recommended" : "fastest") :
        `${i === plan.recommended ? "recommended; " : ""}+${details.layouts[i].longer}: ${details.layouts[i].differs}`]), plan.recommended);
}

function changes(list) {
  return table([["change", "mono"], ["step", "n"], ["fullest rank", "n"], ["OOM", "n"], ["why", ""]],
    list.map(one => [one.change, one.step === undefined ? "" : `${one.longer < 0 ? "" : "+"}${(100 * one.longer).toFixed(1)} %`, one.driver === undefined ? "" : gib(one.driver), one.oom || "", one.why]));
}

// What --why-not asked about, beside layout 1.
function whyNot(asked) {
  const title = el("h3", `Why not ${asked.short}?`);
  if (asked.refused) return [title, table([["why it is refused", ""], ["hint", ""]], asked.refused.map(one => [one.reason, one.hint]))];
  const rows = asked.rows.map(([what, ...rest]) => [what.startsWith(" ") ? `– ${what.trim()}` : what, ...rest]);
  return [title, el("p", asked.verdict), table([["", ""], ["layout 1", "n"], ["the other", "n"], ["difference", "n"]], rows)];
}

export function others(plan) {
  const notes = plan.details.notes.filter(one => ["recommended", "runner-up", "memory", "offload", "states", "host", "order", "risk", "run"].includes(one.about));
  const node = section("others", "Why not the others", ...notes.map(one => el("p", one.text)), found(plan));
  if (plan.details.why_not) node.append(...whyNot(plan.details.why_not));
  if (plan.details.neighbours.length) {
    node.append(el("h3", `One change of layout ${plan.recommended + 1}`), el("p.small.soft", "The same accelerators; data parallelism takes what is left."), changes(plan.details.neighbours));
  }
  return node;
}
