// Where the time of a step goes, layout by layout on one scale.
import {scaleLinear} from "d3-scale";
import {axis, el, folded, legend, percent, picture, seconds, section, table, tells} from "./tools.js";

const colour = part => part === "context" ? "context_time" : part;

function draw(svg, width, rows, names, marked) {
  const left = 30, right = 58, row = 30, gap = 8, top = 22;
  const x = scaleLinear().domain([0, Math.max(...rows.map(one => one.time.step)) * 1.02]).range([left, width - right]);
  const height = rows.length * (row + gap);
  axis(svg, x, top, height, tick => `${tick} s`, width < 500 ? 4 : 8);
  rows.forEach(({time, place}, i) => {
    const y = top + i * (row + gap);
    svg.append("text").attr("class", place === marked ? "strong" : "").attr("x", left - 8).attr("y", y + row / 2 + 4).attr("text-anchor", "end").text(place + 1);
    let at = 0;
    for (const [part, name] of Object.entries(names)) {
      const length = time.parts[part];
      if (!(length > 0)) continue;
      const rect = svg.append("rect").attr("class", `seg f-${colour(part)}`).attr("x", x(at)).attr("y", y).attr("width", Math.max(0.5, x(at + length) - x(at))).attr("height", row);
      tells(rect.node(), () => [`${name}: ${seconds(length)}`, `${percent(length / time.step)} of layout ${place + 1}'s step`]);
      at += length;
    }
    svg.append("text").attr("class", place === marked ? "strong" : "").attr("x", x(time.step) + 5).attr("y", y + row / 2 + 4).text(seconds(time.step));
    svg.append("line").attr("class", "rule").attr("x1", x(time.bound)).attr("x2", x(time.bound)).attr("y1", y - 3).attr("y2", y + row + 3);
  });
  const bound = rows[0].time.bound;
  svg.append("text").attr("class", "strong").attr("x", x(bound)).attr("y", 12).attr("text-anchor", x(bound) > width / 2 ? "end" : "middle").text("limit of the chips");
  return top + height + 22;
}

export function time(plan, layouts, first) {
  const names = plan.details.names.parts;
  const rows = layouts.map((one, place) => ({time: one.time, place})).slice(0, 10);
  if (first >= rows.length) rows.push({time: layouts[first].time, place: first});
  const of = layouts[first].time;
  const used = Object.entries(names).filter(([part]) => rows.some(one => one.time.parts[part] > one.time.step * 2e-3));
  const parts = Object.entries(of.parts).filter(([, s]) => s > 0).sort((a, b) => b[1] - a[1]);
  const best = parts.slice(0, 3).map(([part, s]) => `${names[part]} ${seconds(s)} (${Math.round(100 * s / of.step)} %)`).join(", ");
  return section("time", "Where the time goes",
    el("p", `A step takes ${seconds(of.step)}. Most of it, on the slowest pipeline rank: ${best}. At the peak of the chips the matrix products alone would take ${seconds(of.bound)}: the dashed line, which no software beats.`),
    picture("Parts of the step time of each layout", (svg, width) => draw(svg, width, rows, Object.fromEntries(used), first)),
    legend(used.map(([part, name]) => [`f-${colour(part)}`, name])),
    el("p.small.soft", `${layouts.length > 1 ? "One bar for each layout of the table below, by its number" : "One bar: the only layout"}. All parts are of the pipeline rank that takes longest; faster ranks wait for it.`),
    folded("Show the numbers", table([["layout", "n"], ["step", "n"], ["limit", "n"], ...used.map(([, name]) => [name, "n"])],
      rows.map(one => [`${one.place + 1}`, seconds(one.time.step), seconds(one.time.bound), ...used.map(([part]) => seconds(one.time.parts[part]))]), first)));
}
