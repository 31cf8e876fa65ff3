// How sure the numbers are: how far such predictions were off, and what is assumed.
import {scaleLinear} from "d3-scale";
import {axis, el, folded, picture, section, table, whole} from "./tools.js";

function draw(svg, width, rows) {
  const left = width < 500 ? 132 : 240, right = 60, row = 20, gap = 6, top = 4;
  const x = scaleLinear().domain([0, Math.max(...rows.map(one => one.error)) * 1.05]).range([left, width - right]);
  const height = rows.length * (row + gap);
  axis(svg, x, top, height, tick => `${tick} %`, width < 500 ? 4 : 8);
  rows.forEach((one, i) => {
    const y = top + i * (row + gap);
    const room = width < 500 ? 19 : 36;
    const name = one.source.length > room ? `${one.source.slice(0, room - 1)}…` : one.source;
    svg.append("text").attr("x", left - 8).attr("y", y + row / 2 + 4).attr("text-anchor", "end").text(name);
    svg.append("rect").attr("class", "gauge-full").attr("x", left).attr("y", y).attr("width", x(one.error) - left).attr("height", row);
    svg.append("text").attr("x", x(one.error) + 5).attr("y", y + row / 2 + 4).text(`${one.error} %`);
  });
  return top + height + 22;
}

export function sure(plan) {
  const {details} = plan, {accuracy} = details;
  if (!accuracy) return null;
  const node = section("sure", "How sure this is", el("p", "Nothing was run: these are predictions. The bars show how far such predictions were off on published runs that had no part in them."));
  if (accuracy.time.length) {
    node.append(el("h3", `Step time, software like this (“${accuracy.stack}”): mean error`),
      picture("Mean error of step times by source", (svg, width) => draw(svg, width, accuracy.time)),
      folded("Show the numbers", table([["published runs", ""], ["runs", "n"], ["mean error", "n"], ["inside the 90 % interval", "n"]], accuracy.time.map(one => [one.source, whole(one.runs), `${one.error} %`, `${one.inside} %`]))));
  } else {
    node.append(el("p", `Step times use the constants of “${accuracy.stack}”, which come from runs of your own or of all software together.`));
  }
  node.append(el("h3", "Memory, all software: mean error"), picture("Mean error of memory by source", (svg, width) => draw(svg, width, accuracy.memory)),
    folded("Show the numbers", table([["published runs", ""], ["runs", "n"], ["mean error", "n"]], accuracy.memory.map(one => [one.source, whole(one.runs), `${one.error} %`]))),
    el("h3", "What is assumed"), el("p", `${details.assumed}.`),
    ...(accuracy.assumed ? [el("p", "Some facts about this trainer's memory are assumed or learned, not read in its source: the interval is wider for it.")] : []),
    ...(accuracy.late ? [el("p", "With this version of PyTorch, memory of collectives comes back late: how late is not known, and the interval is wider for it.")] : []),
    el("p", "One run of your own makes step times better: --measured LAYOUT:step=14.2s."));
  return node;
}
