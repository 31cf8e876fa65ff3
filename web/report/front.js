// What --pareto found: step time against free memory, a line for each number of accelerators.
import {scaleLinear, scaleLog} from "d3-scale";
import {axis, el, gib, legend, picture, seconds, section, sheet, tells, whole} from "./tools.js";

const colours = ["g-states", "g-communication", "g-kept", "g-compute"];

function draw(svg, width, rows, sizes) {
  const left = 60, right = 20, top = 26, height = Math.min(320, Math.max(220, width * 0.35));
  const x = scaleLinear().domain([0, Math.max(...rows.map(one => one.free)) / 2 ** 30 * 1.05]).range([left, width - right]);
  const steps = rows.map(one => one.step);
  const y = scaleLog().domain([Math.min(...steps) * 0.9, Math.max(...steps) * 1.1]).range([top + height, top]);
  axis(svg, x, top, height, tick => `${tick} GiB`, width < 500 ? 3 : 8);
  const ticks = y.ticks(6).filter((tick, i, list) => list.length < 9 || i % 2 === 0);
  for (const tick of ticks.length > 1 ? ticks : y.domain()) {
    svg.append("line").attr("class", "axis").attr("x1", left).attr("x2", width - right).attr("y1", y(tick)).attr("y2", y(tick));
    svg.append("text").attr("x", left - 6).attr("y", y(tick) + 4).attr("text-anchor", "end").text(seconds(tick));
  }
  svg.append("text").attr("x", left - 6).attr("y", 12).attr("text-anchor", "end").text("step");
  svg.append("text").attr("x", width - right).attr("y", top + height + 32).attr("text-anchor", "end").text("free memory");
  sizes.forEach((size, i) => {
    const of = rows.filter(one => one.accelerators === size).sort((a, b) => a.free - b.free);
    if (of.length > 1) svg.append("path").attr("class", "joined").attr("d", "M" + of.map(one => `${x(one.free / 2 ** 30)},${y(one.step)}`).join("L"));
    for (const one of of) {
      const dot = svg.append("circle").attr("class", colours[i % colours.length]).attr("cx", x(one.free / 2 ** 30)).attr("cy", y(one.step)).attr("r", 5.5);
      tells(dot.node(), () => [`${one.cluster}: ${seconds(one.step)}/step`, one.short, `${gib(one.free)} free, OOM probability ${one.oom}`]);
    }
  });
  return top + height + 38;
}

export function front(plan) {
  const rows = plan.details.pareto;
  if (!rows) return null;
  const sizes = [...new Set(rows.map(one => one.accelerators))].sort((a, b) => b - a);
  return section("front", "Pareto frontier",
    el("p", "No other layout is faster with at least as much memory free on no more devices."),
    picture("Step time against free memory by number of devices", (svg, width) => draw(svg, width, rows, sizes)),
    legend(sizes.map((size, i) => [colours[i % colours.length], `${whole(size)} devices`, "dot"])),
    sheet("Pareto frontier", [["cluster", ""], ["layout", "mono"], ["step", "n"], ["tokens/s/device", "n"], ["free", "n"], ["OOM", "n"]],
      rows.map(one => [one.cluster, one.short, seconds(one.step), whole(one.tokens_per_second_per_rank), gib(one.free), one.oom])));
}
