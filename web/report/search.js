// The search: how many layouts there were, what ruled them out, and what was not searched.
import {commands} from "./answer.js";
import {scatter} from "./scatter.js";
import {el, section, table, whole} from "./tools.js";

// Every layout of the space is in one row, by its memory; what the framework rejects is told below.
function funnel(plan) {
  const of = plan.search, found = plan.best.length > 0;
  const fit = of.evaluated - of.too_large - of.tight;
  const rows = [["pruned", of.space - of.cut - of.evaluated, of.proven ? "a lower bound of their step time is above the answer (branch and bound)" : "the search was stopped before them"],
    ["model states too large", of.cut, "weights, gradients and optimizer states alone exceed capacity"],
    ["does not fit", of.too_large, "more likely than not to run out of memory"],
    ["marginal", of.tight, `OOM probability above ${plan.details.risk}`],
    ["fits", fit, found ? "by their memory; those of the table are the fastest families" : "none"],
    ["search space", of.space, "total: all that divide the model, the batch and the cluster"]];
  const timed = of.timed ? `Of all of these, the step of ${whole(of.timed)} was timed; for the others a lower bound was enough.` : "";
  const refused = of.refused ? `By the framework's own rules ${whole(of.refused)} were rejected, of ${found ? "those that it was asked about" : "those that need least"}.` : "";
  return [el("h3", "Search funnel"), table([["layouts", ""], ["count", "n"], ["why", ""]], rows.map(([name, count, why]) => [name, whole(count), why]), rows.length - 1),
    el("p.small.soft", `${timed} ${refused}`.trim())];
}

export function search(plan) {
  const {details} = plan;
  if (!plan.best.length && !plan.smallest) return null;
  const node = section("search", "The search", ...details.notes.filter(one => one.about === "search" || one.about === "left").map(one => el("p", one.text)),
    ...(plan.best.length ? [] : scatter(plan, [plan.smallest])), ...funnel(plan));
  if (details.refusals.length) {
    node.append(el("h3", "Why the framework rejected some"), table([["reason", ""], ["layouts", "n"], ["hint", ""]], details.refusals.map(one => [one.reason, whole(one.layouts), one.hint])));
  }
  if (plan.best.length) node.append(...commands(details.commands.slice(2)));
  return node;
}
