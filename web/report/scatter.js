// Step time against peak memory: what was looked at, the layouts of the table by number, the Pareto line among these.
import {scaleLinear, scaleLog} from "d3-scale";
import {el, gib, legend, picture, seconds, tells, whole} from "./tools.js";

const classes = {fits: "p-fits", tight: "p-tight", "does-not-fit": "p-not"};
const verdicts = {fits: "fits", tight: "marginal", "does-not-fit": "does not fit"};
const SLOW = 2.5;  // times the fastest: what takes longer is not drawn

function scales(width, height, left, right, top, rows, best, capacity) {
  const least = Math.min(...rows.map(one => one[1]), ...best.map(one => one.bytes));
  const most = Math.max(capacity * 1.12, ...best.map(one => one.bytes * 1.05));
  const steps = [...rows.map(one => one[2]), ...best.map(one => one.step)], fastest = Math.min(...steps);
  const slowest = Math.max(...best.map(one => one.step * 1.15), Math.min(Math.max(...steps), SLOW * fastest));
  return {
    x: scaleLinear().domain([least < most / 3 ? 0 : least * 0.92 / 2 ** 30, most / 2 ** 30]).range([left, width - right]).clamp(true),
    y: (slowest > 2 * fastest ? scaleLog() : scaleLinear()).domain([fastest * 0.96, slowest * 1.03]).range([top + height, top]).clamp(true),
  };
}

const inside = ({x, y}) => one => one[1] / 2 ** 30 <= x.domain()[1] && one[2] <= y.domain()[1];

function axes(svg, width, {x, y}, left, right, top, height) {
  const ticks = y.ticks(6).filter((tick, i, list) => list.length < 9 || i % 2 === 0);
  for (const tick of ticks.length > 1 ? ticks : y.domain()) {
    svg.append("line").attr("class", "axis").attr("x1", left).attr("x2", width - right).attr("y1", y(tick)).attr("y2", y(tick));
    svg.append("text").attr("x", left - 8).attr("y", y(tick) + 4).attr("text-anchor", "end").text(seconds(tick));
  }
  for (const tick of x.ticks(width < 500 ? 4 : 8)) svg.append("text").attr("x", x(tick)).attr("y", top + height + 18).attr("text-anchor", "middle").text(tick);
  svg.append("text").attr("class", "strong").attr("x", width - right).attr("y", top + height + 36).attr("text-anchor", "end").text("peak memory (GiB)");
  svg.append("text").attr("class", "strong").attr("x", 0).attr("y", 12).text("step time");
}

// Amber from where the interval of memory reaches the limit, red beyond it.
function zones(svg, x, right, capacity, near, top, height) {
  const band = (kind, from, to) => { if (to > from) svg.append("rect").attr("class", kind).attr("x", from).attr("y", top).attr("width", to - from).attr("height", height); };
  band("zone-near", x(near / 2 ** 30), x(capacity / 2 ** 30));
  band("zone-over", x(capacity / 2 ** 30), right);
}

function draw(svg, width, {rows, best, capacity, near}, chosen) {
  const left = 58, right = 16, top = 28, height = Math.min(380, Math.max(240, width * 0.36)), limit = capacity / 2 ** 30;
  const {x, y} = scales(width, height, left, right, top, rows, best, capacity);
  zones(svg, x, width - right, capacity, near, top, height);
  axes(svg, width, {x, y}, left, right, top, height);
  svg.append("line").attr("class", "rule").attr("x1", x(limit)).attr("x2", x(limit)).attr("y1", top - 6).attr("y2", top + height);
  svg.append("text").attr("class", "strong").attr("x", x(limit)).attr("y", 12).attr("text-anchor", "end").text(`usable: ${gib(capacity)}`);
  for (const [name, bytes, step, fit, timed] of rows.filter(inside({x, y}))) {
    const dot = svg.append("circle").attr("class", timed ? classes[fit] : `${classes[fit]} bound`).attr("cx", x(bytes / 2 ** 30)).attr("cy", y(step)).attr("r", 3);
    tells(dot.node(), () => [name, `${timed ? "" : "at least "}${seconds(step)}/step`, `at least ${gib(bytes)} peak memory: ${verdicts[fit]}`]);
  }
  const front = best.filter(one => one.front);
  if (front.length > 1) svg.append("path").attr("class", "front").attr("d", "M" + front.map(one => `${x(one.bytes / 2 ** 30)},${y(one.step)}`).join("L"));
  const at = chosen ? chosen.at() : 0;
  // The fastest is drawn on top of what lies below it, the chosen one on top of all.
  [...best.keys()].reverse().sort((a, b) => (a === at) - (b === at)).forEach(i => {
    const one = best[i], mark = svg.append("g");
    mark.append("circle").attr("class", i === at ? "p-best chosen" : "p-best").attr("cx", x(one.bytes / 2 ** 30)).attr("cy", y(one.step)).attr("r", i === at ? 11 : 9);
    mark.append("text").attr("class", "inside").attr("text-anchor", "middle").attr("x", x(one.bytes / 2 ** 30)).attr("y", y(one.step) + 4).text(i + 1);
    tells(mark.node(), () => [`${i + 1}: ${one.name}`, `${seconds(one.step)}/step`, `${gib(one.bytes)} peak memory, OOM probability ${one.oom}`]);
    if (chosen) mark.attr("class", "pressed").on("click", () => chosen.choose(i));
  });
  return top + height + 42;
}

// Only marks that the figure has: colours say whether it fits, rings that the time is a bound.
function marks(rows, front, found) {
  const kinds = Object.keys(classes).filter(fit => rows.some(one => one[3] === fit));
  const drawnAs = fit => rows.some(one => one[3] === fit && one[4]) ? classes[fit] : `${classes[fit]} bound`;
  return legend([["p-best", found ? "the layouts of the table, by number" : "needs least", "dot"], ...kinds.map(fit => [drawnAs(fit), `searched: ${verdicts[fit]}`, "dot"]),
    ...(rows.some(one => !one[4]) ? [["p-bound", "ring: time is a lower bound", "dot"]] : []),
    ...(front.length > 1 ? [["front", "Pareto line: of the table, none is both faster and smaller", "line"]] : []),
    ["zone-near", "90 % interval of memory reaches the limit"], ["zone-over", "beyond the limit"]]);
}

export function scatter(plan, layouts, chosen) {
  const {details} = plan, rows = details.considered, of = plan.search;
  const best = layouts.slice(0, details.layouts.length).map((one, i) => ({name: details.layouts[i].short, front: details.layouts[i].front, oom: details.layouts[i].oom, step: one.time.step, bytes: one.memory.classes[one.memory.worst].driver}));
  if (rows.length + best.length < 2) return [];
  const {memory} = layouts[plan.best.length ? plan.recommended : 0], worst = memory.classes[memory.worst].driver;
  const data = {rows, best, capacity: memory.capacity, near: memory.capacity * worst / memory.high};
  const drawing = picture("Step time against peak memory of layouts", (svg, width) => draw(svg, width, data, plan.best.length ? chosen : null));
  if (chosen) chosen.follow(() => drawing.redraw());
  return [drawing, marks(rows, best.filter(one => one.front), plan.best.length > 0),
    rows.length ? el("p.small.soft", `${rows.length < of.evaluated ? `A sample of ${whole(rows.length)} of ${whole(of.evaluated)} evaluated layouts, without what is far slower or larger. ` : ""}Small dots are judged before the framework's rules and the allocator are asked: `
      + (!plan.best.length ? "all needed too much." : of.proven ? "what looks faster than layout 1 was rejected or did not fit." : "the search was stopped before all of them were.")
    ) : null].filter(Boolean);
}
