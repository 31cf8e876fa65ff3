// The search: time against memory of the layouts that were looked at, and what ruled out the others.
import {scaleLinear, scaleLog} from "d3-scale";
import {el, gib, legend, picture, seconds, section, table, tells, whole} from "./tools.js";

const classes = {fits: "p-fits", tight: "p-tight", "does-not-fit": "p-not"};
const verdicts = {fits: "fits", tight: "tight", "does-not-fit": "does not fit"};

function draw(svg, width, rows, best, front, capacity) {
  const left = 52, right = 14, top = 22, height = Math.min(420, Math.max(260, width * 0.45));
  const all = [...rows.map(one => [one[1], one[2]]), ...best.map(one => [one.bytes, one.step])];
  const most = Math.max(capacity * 1.25, ...best.map(one => one.bytes * 1.1));
  const x = scaleLinear().domain([0, most / 2 ** 30]).range([left, width - right]).clamp(true);
  const slowest = Math.max(...all.map(one => one[1])), fastest = Math.min(...all.map(one => one[1]));
  const y = (slowest > 8 * fastest ? scaleLog() : scaleLinear()).domain([fastest * 0.97, slowest * 1.03]).range([top + height, top]);
  const ticks = y.ticks(6).filter((tick, i, list) => list.length < 9 || i % 2 === 0);
  for (const tick of ticks.length > 1 ? ticks : [fastest, slowest]) {
    svg.append("line").attr("class", "axis").attr("x1", left).attr("x2", width - right).attr("y1", y(tick)).attr("y2", y(tick));
    svg.append("text").attr("x", left - 6).attr("y", y(tick) + 4).attr("text-anchor", "end").text(seconds(tick));
  }
  for (const tick of x.ticks(width < 500 ? 3 : 8)) svg.append("text").attr("x", x(tick)).attr("y", top + height + 16).attr("text-anchor", "middle").text(`${tick} GiB`);
  svg.append("text").attr("x", width - right).attr("y", top + height + 32).attr("text-anchor", "end").text(width < 500 ? "memory of the fullest rank" : "memory of the fullest rank (what is larger stands at the right edge)");
  const limit = x(capacity / 2 ** 30);
  svg.append("line").attr("class", "rule").attr("x1", limit).attr("x2", limit).attr("y1", top - 6).attr("y2", top + height);
  svg.append("text").attr("class", "strong").attr("x", limit).attr("y", 12).attr("text-anchor", limit > width / 2 ? "end" : "start").text(`usable: ${gib(capacity)}`);
  for (const [name, bytes, step, fit, timed] of rows) {
    const dot = svg.append("circle").attr("class", timed ? classes[fit] : `${classes[fit]} bound`).attr("cx", x(bytes / 2 ** 30)).attr("cy", y(step)).attr("r", 3);
    tells(dot.node(), () => [name, `${timed ? "" : "at least "}${seconds(step)} a step`, `at least ${gib(bytes)} on its fullest rank: ${verdicts[fit]}`]);
  }
  if (front.length > 1) svg.append("path").attr("class", "front").attr("d", "M" + front.map(one => `${x(one.bytes / 2 ** 30)},${y(one.step)}`).join("L"));
  best.forEach((one, i) => {
    const dot = svg.append("circle").attr("class", "p-best").attr("cx", x(one.bytes / 2 ** 30)).attr("cy", y(one.step)).attr("r", i === 0 ? 7 : 5.5);
    tells(dot.node(), () => [`${i + 1}: ${one.name}`, `${seconds(one.step)} a step`, `${gib(one.bytes)} on its fullest rank`]);
  });
  return top + height + 38;
}

// Only marks that the picture has: colours say whether it fits, rings that the time is a bound.
function marks(rows, front, found) {
  const kinds = Object.keys(classes).filter(fit => rows.some(one => one[3] === fit));
  const drawnAs = fit => rows.some(one => one[3] === fit && one[4]) ? classes[fit] : `${classes[fit]} bound`;
  return legend([["p-best", found ? "the layouts of the table" : "needs least", "dot"], ...kinds.map(fit => [drawnAs(fit), verdicts[fit], "dot"]),
    ...(rows.some(one => !one[4]) ? [["p-bound", "ring: time is a lower bound", "dot"]] : []),
    ...(front.length > 1 ? [["front", "of the table, none is both faster and smaller", "line"]] : [])]);
}

// Every layout of the space stands in one row: refusals are of such as fit, unless nothing does.
function funnel(plan) {
  const of = plan.search, found = plan.best.length > 0;
  const fit = of.evaluated - of.too_large - of.tight - (found ? of.refused : 0);
  const rows = [["never looked at", of.space - of.cut - of.evaluated, of.proven ? "a lower bound of their step time is above the answer" : "the search was stopped before them"],
    ["states too large", of.cut, "weights, gradients and states alone are more than there is"],
    ["too large", of.too_large, "more likely than not to run out of memory"],
    ["tight", of.tight, `chance of out of memory above ${plan.details.risk}`],
    ...(found ? [["refused", of.refused, "by the trainer's own rules, of those that it was asked about"]] : []),
    ["fit", fit, found ? "by their memory; those of the table are the fastest families" : "none"],
    ["in the space", of.space, "together: all that divide the model, the batch and the cluster"]];
  const timed = of.timed ? `Of all of these, the step of ${whole(of.timed)} was timed; of others a lower bound was enough.` : "";
  const refused = found || !of.refused ? "" : `The trainer was asked about those that need least, and refused ${whole(of.refused)}.`;
  return [el("h3", "What ruled out what"), table([["layouts", ""], ["count", "n"], ["why", ""]], rows.map(([name, count, why]) => [name, whole(count), why]), rows.length - 1),
    el("p.small.soft", `${timed} ${refused}`.trim())];
}

export function search(plan) {
  const {details} = plan, of = plan.search, rows = details.considered;
  const layouts = plan.best.length ? plan.best : plan.smallest ? [plan.smallest] : [];
  if (!layouts.length) return null;
  const best = layouts.slice(0, details.layouts.length).map((one, i) => ({name: details.layouts[i].short, front: details.layouts[i].front, step: one.time.step, bytes: one.memory.classes[one.memory.worst].driver}));
  const front = best.filter(one => one.front), capacity = layouts[0].memory.capacity;
  const node = section("search", "The search", ...details.notes.filter(one => one.about === "search" || one.about === "left").map(one => el("p", one.text)),
    rows.length > 1 ? picture("Step time against memory of layouts", (svg, width) => draw(svg, width, rows, best, front, capacity)) : null,
    rows.length > 1 ? marks(rows, front, plan.best.length > 0) : null,
    rows.length > 1 ? el("p.small.soft", `${rows.length < of.evaluated ? `${whole(rows.length)} of ${whole(of.evaluated)} dots are drawn. ` : ""}Dots are judged before the trainer's rules and the allocator are asked: `
      + (!plan.best.length ? "all needed too much." : of.proven ? "what looks faster than layout 1 was refused or did not fit." : "the search was stopped before all of them were.")) : null,
    ...funnel(plan));
  if (details.refusals.length) {
    node.append(el("h3", "Why the trainer refused some"), table([["reason", ""], ["layouts", "n"], ["hint", ""]], details.refusals.map(one => [one.reason, whole(one.layouts), one.hint])));
  }
  return node;
}
