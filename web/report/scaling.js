// The same step on fewer and more accelerators.
import {scaleLog} from "d3-scale";
import {el, folded, percent, picture, seconds, section, sheet, tells, whole} from "./tools.js";

const rate = n => n >= 1e6 ? `${(n / 1e6).toPrecision(3)} M` : n >= 1e3 ? `${(n / 1e3).toPrecision(3)} k` : whole(n);

function draw(svg, width, rows, here) {
  const left = 66, right = width < 500 ? 30 : 60, top = 30, height = Math.min(300, Math.max(200, width * 0.35));
  const first = rows[0], last = rows[rows.length - 1];
  const ideal = n => first.tokens_per_second * n / first.accelerators;
  const x = scaleLog().base(2).domain([first.accelerators, last.accelerators]).range([left + 14, width - right]);
  const y = scaleLog().domain([first.tokens_per_second * 0.75, Math.max(ideal(last.accelerators), ...rows.map(one => one.tokens_per_second)) * 1.1]).range([top + height, top]);
  for (const one of rows) {
    svg.append("line").attr("class", "axis").attr("x1", left).attr("x2", width - right).attr("y1", y(one.tokens_per_second)).attr("y2", y(one.tokens_per_second));
    svg.append("text").attr("x", left - 6).attr("y", y(one.tokens_per_second) + 4).attr("text-anchor", "end").text(rate(one.tokens_per_second));
    svg.append("text").attr("x", x(one.accelerators)).attr("y", top + height + 18).attr("text-anchor", "middle").text(whole(one.accelerators));
  }
  svg.append("text").attr("x", width - right).attr("y", top + height + 34).attr("text-anchor", "end").text("devices");
  svg.append("text").attr("x", left - 6).attr("y", 12).attr("text-anchor", "end").text("tokens/s");
  svg.append("line").attr("class", "rule").attr("x1", x(first.accelerators)).attr("y1", y(first.tokens_per_second)).attr("x2", x(last.accelerators)).attr("y2", y(ideal(last.accelerators)));
  const end = Math.min(y(ideal(last.accelerators)), y(last.tokens_per_second));  // more accelerators may gain more than their share
  svg.append("text").attr("class", "strong").attr("x", x(last.accelerators)).attr("y", end - 8).attr("text-anchor", "end").text("if nothing were lost");
  svg.append("path").attr("class", "curve").attr("d", "M" + rows.map(one => `${x(one.accelerators)},${y(one.tokens_per_second)}`).join("L"));
  for (const one of rows) {
    const dot = svg.append("circle").attr("class", "p-best").attr("cx", x(one.accelerators)).attr("cy", y(one.tokens_per_second)).attr("r", one.accelerators === here ? 7 : 5);
    tells(dot.node(), () => [`${whole(one.accelerators)} devices: ${seconds(one.step)}/step`, one.short, `MFU ${percent(one.mfu)}`]);
    svg.append("text").attr("class", one.accelerators === here ? "strong" : "").attr("x", x(one.accelerators) + (one === last ? 0 : 4)).attr("y", y(one.tokens_per_second) + 21)
      .attr("text-anchor", one === last ? "middle" : "start").text(seconds(one.step));
  }
  return top + height + 40;
}

export function scaling(plan) {
  const {points: rows, says} = plan.details.scaling;
  if (!says) return null;
  if (rows.length < 2) return section("scaling", "Scaling", el("p", says));
  const here = plan.best[0].time.ranks;
  const lost = rows[rows.length - 1], first = rows[0];
  const kept = lost.tokens_per_second / lost.accelerators / (first.tokens_per_second / first.accelerators);
  return section("scaling", "Scaling",
    el("p", `${says} On ${whole(lost.accelerators)} devices each does ${percent(kept)} of the work that it does on ${whole(first.accelerators)}.`),
    picture("Tokens per second by number of devices", (svg, width) => draw(svg, width, rows, here)),
    folded("Show the numbers", sheet("scaling", [["devices", "n"], ["layout", "mono"], ["step", "n"], ["tokens/s", "n"], ["MFU", "n"]],
      rows.map(one => [whole(one.accelerators), one.short, seconds(one.step), whole(one.tokens_per_second), percent(one.mfu)]), rows.findIndex(one => one.accelerators === here))));
}
