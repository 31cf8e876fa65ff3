// Memory of every pipeline rank at its peak, stacked by category.
import {scaleLinear} from "d3-scale";
import {MEMORY, inOrder} from "./families.js";
import {LABEL, axis, behind, chooser, el, folded, gib, legend, percent, picture, section, sheet, stack} from "./tools.js";

const during = {forward: "a forward pass", backward: "a backward pass", backward_input: "a backward pass (inputs)", backward_weight: "a backward pass (weights)", step: "the optimizer's step"};

// A rank of several chunks holds a micro-batch once for each that it has passed.
function inFlight(count, chunks) {
  const what = chunks > 1 ? ["chunk of a micro-batch", "chunks of micro-batches"] : ["micro-batch", "micro-batches"];
  return `${count} ${what[count === 1 ? 0 : 1]} in flight`;
}

function moment(peak, chunks) {
  if (!peak) return "";
  const what = during[peak.during] || peak.during;
  return `peak during ${what}${peak.operator ? `, at ${peak.operator}` : ""}${peak.in_flight ? `, ${inFlight(peak.in_flight, chunks)}` : ""}`;
}

// Near the limit where the upper end of the 90 % interval is beyond it.
const verdictOf = (memory, one) => one.driver > memory.capacity ? "over" : one.driver * memory.high / memory.classes[memory.worst].driver > memory.capacity ? "near" : "";

function draw(svg, width, memory, names, formulas) {
  const narrow = width < 500, count = memory.classes.length;
  const left = count === 1 ? 0 : narrow ? 54 : 112, right = LABEL + 12;
  const row = count > 32 ? 10 : count > 12 ? 20 : count > 1 ? 30 : 40, gap = count > 32 ? 1 : 5, top = 22;
  const most = Math.max(memory.capacity, ...memory.classes.map(one => one.driver)) * 1.02;
  const x = scaleLinear().domain([0, most / 2 ** 30]).range([left, width - right]);
  const height = count * (row + gap), limit = x(memory.capacity / 2 ** 30);
  axis(svg, x, top, height, tick => `${tick} GiB`, narrow ? 3 : 8, count === 1);
  const rule = svg.append("line").attr("class", "rule").attr("x1", limit).attr("x2", limit).attr("y1", top - 4).attr("y2", top + height);
  const ends = memory.classes.map(one => x(one.driver / 2 ** 30)), crossed = ends.some(end => behind(end, limit) > end + 5);
  memory.classes.forEach((one, i) => {
    const y = top + i * (row + gap), kind = verdictOf(memory, one);
    if (count > 1 && (count <= 32 || i % 8 === 0)) {
      svg.append("text").attr("class", i === memory.worst ? "strong" : "").attr("x", left - 8).attr("y", y + row / 2 + 4).attr("text-anchor", "end").text(narrow ? `rank ${one.pipeline_rank}` : `pipeline rank ${one.pipeline_rank}`);
    }
    let at = 0;
    stack(svg, bytes => x(bytes / 2 ** 30), y, row, inOrder(MEMORY, one.bytes).map(([category, bytes]) => [`f-${category}`, (at += bytes) - bytes, bytes,
      [`${names[category]} ${gib(bytes)}`, names[category]], `${names[category]}: ${gib(bytes)}`, `${percent(bytes / one.driver)} of pipeline rank ${one.pipeline_rank}`, formulas[category]]), i === memory.worst);
    if (count <= 32) svg.append("text").attr("class", `${i === memory.worst ? "strong" : ""} ${kind}`).attr("x", crossed ? Math.max(ends[i], limit) + 5 : ends[i] + 5).attr("y", y + row / 2 + 4).text(gib(one.driver));
  });
  if (memory.classes.some(one => one.driver > memory.capacity)) rule.raise();  // over the bars that cross it; else below their labels
  svg.append("text").attr("class", "strong").attr("x", Math.min(limit, width - 4)).attr("y", 12).attr("text-anchor", limit > width / 2 ? "end" : "start").text(`usable: ${gib(memory.capacity)}`);
  return top + height + 22;
}

function numbers(memory, names) {
  const kinds = Object.keys(names).filter(kind => memory.classes.some(one => one.bytes[kind] > 0));
  return sheet("memory by category", [["pipeline rank", "n"], ["layers", "n"], ["identical ranks", "n"], ...kinds.map(kind => [names[kind], "n"]), ["peak memory", "n"]],
    memory.classes.map(one => [`${one.pipeline_rank}`, `${one.layers}`, `${one.ranks}`, ...kinds.map(kind => gib(one.bytes[kind] || 0)), gib(one.driver)]), memory.worst);
}

// The categories that make most of the peak.
function largest(memory, names) {
  const worst = memory.classes[memory.worst];
  return Object.entries(worst.bytes).filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]).slice(0, 3)
    .map(([kind, bytes]) => `${names[kind]} ${gib(bytes)}`).join(", ");
}

// One run of the legend for each family.
const keys = (of, names) => legend(Object.keys(Object.fromEntries(of.classes.flatMap(one => inOrder(MEMORY, one.bytes)))).sort((a, b) => PLACE.indexOf(a) - PLACE.indexOf(b)).map(kind => [`f-${kind}`, names[kind]]));
const PLACE = MEMORY.flatMap(([, , kinds]) => kinds);

export function memory(plan, layouts, chosen) {
  const {details} = plan, names = details.names.categories, shown = layouts.slice(0, details.layouts.length);
  const words = el("p"), table = el("div"), legends = el("div"), pick = chooser("Layout", shown.map((_, i) => `${i + 1}: ${details.layouts[i].short}`), chosen.at(), chosen.choose);
  const drawing = picture("Memory of each pipeline rank by category", (svg, width) => draw(svg, width, layouts[chosen.at()].memory, names, details.layouts[chosen.at()].formulas));
  const show = () => {
    const at = chosen.at(), of = layouts[at].memory, worst = of.classes[of.worst];
    words.textContent = `Pipeline rank ${worst.pipeline_rank} has the highest peak, ${gib(worst.driver)} (${moment(worst.peak, details.layouts[at].chunks)}). Most of it: ${largest(of, names)}.`;
    pick.querySelector("select").value = at;
    legends.replaceChildren(keys(of, names));
    table.replaceChildren(folded("Show the numbers", numbers(of, names)));
    drawing.redraw();
  };
  chosen.follow(show);
  const node = section("memory", "Memory", words, shown.length > 1 ? el("div.controls", pick) : null, drawing, legends, el("p.small.soft", "Hover over a part for details. All ranks of a pipeline rank hold the same."), table);
  show();
  return node;
}
