// Memory of every pipeline rank at its fullest moment, stacked by what it is for.
import {scaleLinear} from "d3-scale";
import {LABEL, axis, behind, chooser, el, folded, gib, legend, percent, picture, section, table, tells} from "./tools.js";

const during = {forward: "a forward pass", backward: "a backward pass", backward_input: "a backward pass (inputs)", backward_weight: "a backward pass (weights)", step: "the optimizer's step"};

// A rank of several chunks holds a micro-batch once for each that it has passed.
function inFlight(count, chunks) {
  const what = chunks > 1 ? ["chunk of a micro-batch", "chunks of micro-batches"] : ["micro-batch", "micro-batches"];
  return `${count} ${what[count === 1 ? 0 : 1]} in flight`;
}

function moment(peak, chunks) {
  if (!peak) return "";
  const what = during[peak.during] || peak.during;
  return `fullest during ${what}${peak.operator ? `, at ${peak.operator}` : ""}${peak.in_flight ? `, ${inFlight(peak.in_flight, chunks)}` : ""}`;
}

function draw(svg, width, memory, names, formulas) {
  const kinds = Object.keys(names);
  const left = width < 500 ? 58 : 110, right = LABEL + 4, count = memory.classes.length;
  const row = count > 32 ? 10 : count > 12 ? 20 : 30, gap = count > 32 ? 1 : 4, top = 20;
  const most = Math.max(memory.capacity, ...memory.classes.map(one => one.driver)) * 1.03;
  const x = scaleLinear().domain([0, most / 2 ** 30]).range([left, width - right]);
  const height = count * (row + gap);
  axis(svg, x, top, height, tick => `${tick} GiB`, width < 500 ? 3 : 8);
  const limit = x(memory.capacity / 2 ** 30);
  const rule = svg.append("line").attr("class", "rule").attr("x1", limit).attr("x2", limit).attr("y1", top - 4).attr("y2", top + height);
  const ends = memory.classes.map(one => x(one.driver / 2 ** 30)), crossed = ends.some(end => behind(end, limit) > end + 5);
  memory.classes.forEach((one, i) => {
    const y = top + i * (row + gap);
    if (count <= 32 || i % 8 === 0) {
      const name = width < 500 ? `rank ${one.pipeline_rank}` : `pipeline rank ${one.pipeline_rank}`;
      svg.append("text").attr("x", left - 8).attr("y", y + row / 2 + 4).attr("text-anchor", "end").text(name);
    }
    let at = 0;
    for (const kind of kinds) {
      const bytes = one.bytes[kind];
      if (!bytes) continue;
      const rect = svg.append("rect").attr("class", `seg f-${kind}`).attr("x", x(at / 2 ** 30)).attr("y", y)
        .attr("width", Math.max(0.5, x((at + bytes) / 2 ** 30) - x(at / 2 ** 30))).attr("height", row);
      tells(rect.node(), () => [`${names[kind]}: ${gib(bytes)}`, `${percent(bytes / one.driver)} of pipeline rank ${one.pipeline_rank}`, formulas[kind]]);
      at += bytes;
    }
    if (count <= 32) svg.append("text").attr("class", i === memory.worst ? "strong" : "").attr("x", crossed ? Math.max(ends[i], limit) + 5 : ends[i] + 5).attr("y", y + row / 2 + 4).text(gib(one.driver));
  });
  if (memory.classes.some(one => one.driver > memory.capacity)) rule.raise();  // over the bars that cross it; else below their labels
  svg.append("text").attr("class", "strong").attr("x", Math.min(limit, width - 4)).attr("y", 12).attr("text-anchor", limit > width / 2 ? "end" : "start").text(`usable: ${gib(memory.capacity)}`);
  return top + height + 22;
}

function numbers(memory, names) {
  const kinds = Object.keys(names).filter(kind => memory.classes.some(one => one.bytes[kind] > 0));
  return table([["pipeline rank", "n"], ["layers", "n"], ["ranks like it", "n"], ...kinds.map(kind => [names[kind], "n"]), ["together", "n"]],
    memory.classes.map(one => [`${one.pipeline_rank}`, `${one.layers}`, `${one.ranks}`, ...kinds.map(kind => gib(one.bytes[kind] || 0)), gib(one.driver)]), memory.worst);
}

// The categories that make most of the fullest rank.
function largest(memory, names) {
  const worst = memory.classes[memory.worst];
  return Object.entries(worst.bytes).filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]).slice(0, 3)
    .map(([kind, bytes]) => `${names[kind]} ${gib(bytes)}`).join(", ");
}

export function memory(plan, layouts, first) {
  const {details} = plan, names = details.names.categories;
  let at = first;
  const words = el("p"), table_ = el("div"), keys = el("div");
  const drawing = picture("Memory of each pipeline rank by category", (svg, width) => draw(svg, width, layouts[at].memory, names, details.layouts[at].formulas));
  const show = () => {
    const of = layouts[at].memory, worst = of.classes[of.worst];
    words.textContent = `Pipeline rank ${worst.pipeline_rank} is the fullest with ${gib(worst.driver)} (${moment(worst.peak, details.layouts[at].chunks)}). Most of it: ${largest(of, names)}.`;
    keys.replaceChildren(legend(Object.entries(names).filter(([kind]) => of.classes.some(one => one.bytes[kind] > 0)).map(([kind, name]) => [`f-${kind}`, name])));
    table_.replaceChildren(folded("Show the numbers", numbers(of, names)));
    drawing.redraw();
  };
  const node = section("memory", "Memory", words,
    layouts.length > 1 ? el("div.controls", chooser("Layout", layouts.map((_, i) => `${i + 1}: ${details.layouts[i].short}`), at, i => { at = i; show(); })) : null,
    drawing, keys, el("p.small.soft", "Point at a part to see how it comes about. All ranks of a pipeline rank hold the same."), table_);
  show();
  return node;
}
