// Where the time of a step goes, and which parts make the other layouts faster or slower.
import {scaleLinear} from "d3-scale";
import {TIME, grouped, inOrder, shade} from "./families.js";
import {alike, axis, el, folded, legend, percent, picture, seconds, section, sheet, signed, stack, tells} from "./tools.js";

function draw(svg, width, time, names) {
  const top = 24, height = 40, x = scaleLinear().domain([0, time.step]).range([0, width - 1]);
  axis(svg, x, top, height + 4, alike([time.step], undefined, 3), width < 500 ? 3 : 8, true);
  let at = 0;
  stack(svg, x, top, height, inOrder(TIME, time.parts).map(([part, length]) => [shade(TIME, part), (at += length) - length, length,
    [`${names[part]} ${percent(length / time.step)}`, names[part], percent(length / time.step)], `${names[part]}: ${seconds(length)}`, `${percent(length / time.step)} of the step`]));
  const bound = x(time.bound);
  svg.append("line").attr("class", "rule").attr("x1", bound).attr("x2", bound).attr("y1", top - 6).attr("y2", top + height + 6);
  svg.append("text").attr("class", "strong").attr("x", Math.min(Math.max(bound, 100), width - 100)).attr("y", 12).attr("text-anchor", "middle").text(`compute lower bound: ${seconds(time.bound)}`);
  return top + height + 24;
}

// Parts that take longer than in the chosen layout to the right, shorter ones to the left; the diamond is the sum.
function drawDifferences(svg, width, rows, names) {
  const narrow = width < 640, left = narrow ? 26 : 34, right = 64, row = 22, gap = 8, top = 8;
  const sums = rows.map(one => one.parts.reduce(([less, more], [, by]) => by < 0 ? [less + by, more] : [less, more + by], [0, 0]));
  const x = scaleLinear().domain([Math.min(...sums.map(one => one[0])) * 1.02, Math.max(...sums.map(one => one[1])) * 1.02 || 1e-9]).range([left, width - right]);
  const height = rows.length * (row + gap);
  const text = alike([Math.max(...sums.map(([less, more]) => more - less))], undefined, 3);
  axis(svg, x, top, height, one => one === 0 ? "0" : `${one > 0 ? "+" : "−"}${text(Math.abs(one))}`, narrow ? 3 : 8);
  rows.forEach((one, i) => {
    const y = top + i * (row + gap), ends = {less: 0, more: 0};
    svg.append("text").attr("x", left - 8).attr("y", y + row / 2 + 4).attr("text-anchor", "end").text(`#${one.place + 1}`);
    for (const [part, by] of one.parts) {
      const side = by < 0 ? "less" : "more", from = by < 0 ? (ends.less += by) : (ends.more += by) - by;
      const rect = svg.append("rect").attr("class", `seg ${shade(TIME, part)}`).attr("x", x(from)).attr("y", y).attr("width", Math.max(0.5, x(from + Math.abs(by)) - x(from))).attr("height", row);
      tells(rect.node(), () => [`${names[part]}: ${by < 0 ? "−" : "+"}${seconds(Math.abs(by))}`, `layout ${one.place + 1}: ${one.short}`, side === "less" ? "shorter here" : "longer here"]);
    }
    const middle = x(one.more), h = y + row / 2;
    svg.append("path").attr("class", "net").attr("d", `M${middle - 6},${h}L${middle},${h - 7}L${middle + 6},${h}L${middle},${h + 7}Z`);
    svg.append("text").attr("class", "strong").attr("x", x(Math.max(ends.more, one.more)) + 11).attr("y", h + 4).text(signed(one.share));
  });
  const zero = x(0);
  svg.append("line").attr("class", "zero").attr("x1", zero).attr("x2", zero).attr("y1", top - 4).attr("y2", top + height);
  return top + height + 22;
}

function differences(plan, layouts, at) {
  const base = layouts[at].time;
  return layouts.slice(0, 10).map(({time}, place) => ({place, short: plan.details.layouts[place].short, more: time.step - base.step, share: time.step / base.step - 1,
    parts: TIME.flatMap(([, , keys]) => keys).map(part => [part, (time.parts[part] || 0) - (base.parts[part] || 0)]).filter(([, by]) => Math.abs(by) > base.step * 5e-4)})).filter(one => one.place !== at);
}

function numbers(plan, layouts, names) {
  const rows = layouts.slice(0, plan.details.layouts.length).map(one => one.time);
  const used = Object.keys(names).filter(part => rows.some(time => time.parts[part] > time.step * 2e-3)), step = alike(rows.map(time => time.step));
  return sheet("parts of the step", [["layout", "n"], ["step", "n"], ["lower bound", "n"], ...used.map(part => [names[part], "n"])],
    rows.map((time, i) => [`${i + 1}`, step(time.step), step(time.bound), ...used.map(part => step(time.parts[part]))]), plan.recommended);
}

export function time(plan, layouts, chosen) {
  const {names} = plan.details, words = el("p"), keys = el("div"), more = el("div"), title = el("h3");
  const drawing = picture("Parts of the step time", (svg, width) => draw(svg, width, layouts[chosen.at()].time, names.parts));
  const others = picture("Differences of step time by part", (svg, width) => drawDifferences(svg, width, differences(plan, layouts, chosen.at()), names.parts));
  const show = () => {
    const at = chosen.at(), of = layouts[at].time, groups = grouped(TIME, of.parts);
    words.textContent = `Layout ${at + 1} takes ${seconds(of.step)} per step: ${groups.map(([family, , , sum]) => `${family.toLowerCase()} ${percent(sum / of.step)}`).join(", ")}. The dashed line is the GEMMs alone at the peak of the device.`;
    keys.replaceChildren(legend(inOrder(TIME, of.parts).filter(([, s]) => s > of.step * 2e-3).map(([part, s]) => [shade(TIME, part), `${names.parts[part]} ${seconds(s)}`])));
    title.textContent = `What makes the others slower or faster than layout ${at + 1}`;
    drawing.redraw();
    others.redraw();
  };
  chosen.follow(show);
  if (layouts.length > 1) more.append(title, others, el("p.small.soft", "Bars are the parts that differ, to the right what takes longer; the diamond is the difference of the whole step."));
  const node = section("time", "Step time breakdown", words, drawing, keys, el("p.small.soft", "All parts are of the pipeline rank that takes longest; faster ranks wait for it."), more, folded("Show the numbers", numbers(plan, layouts, names.parts)));
  show();
  return node;
}
