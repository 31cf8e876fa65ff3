// What is run today (--from), and what the best changes of it would give.
import {scaleLinear} from "d3-scale";
import {LABEL, behind, el, gib, legend, percent, picture, seconds, section, sheet, tells} from "./tools.js";

const most = 8;  // changes that are drawn; the table below has all

// Two bars a row: the step on one scale, peak memory on another, whose line is what is usable.
function draw(svg, width, rows, capacity) {
  const narrow = width < 640, name = narrow ? 0 : 300, row = narrow ? 50 : 30, bar = 16, top = 30, gap = 14;
  const half = (width - name - gap) / 2;
  const x = scaleLinear().domain([0, Math.max(...rows.map(one => one.step)) * 1.02]).range([name, name + half - LABEL]);
  const start = name + half + gap;
  const b = scaleLinear().domain([0, Math.max(capacity, ...rows.map(one => one.driver)) * 1.02]).range([start, width - LABEL]);
  svg.append("text").attr("class", "strong").attr("x", name).attr("y", 12).text("step");
  svg.append("text").attr("class", "strong").attr("x", start).attr("y", 12).text(narrow ? `of ${gib(capacity)} usable` : `peak memory; usable: ${gib(capacity)}`);
  rows.forEach((one, i) => {
    const y = top + i * row + (narrow ? 18 : 0), today = i === 0;
    svg.append("text").attr("class", today ? "strong" : "").attr("x", narrow ? 0 : name - 8).attr("y", narrow ? y - 5 : y + 12).attr("text-anchor", narrow ? "start" : "end").text(one.name.length > 46 ? `${one.name.slice(0, 45)}…` : one.name);
    const step = svg.append("rect").attr("class", today ? "g-idle" : "g-compute").attr("x", name).attr("y", y).attr("width", x(one.step) - name).attr("height", bar);
    const held = svg.append("rect").attr("class", today ? "g-idle" : "g-states").attr("x", start).attr("y", y).attr("width", b(one.driver) - start).attr("height", bar);
    for (const node of [step.node(), held.node()]) tells(node, () => [one.name, `${seconds(one.step)}/step`, `${gib(one.driver)} peak memory, OOM probability ${one.oom}`]);
    svg.append("text").attr("class", today ? "strong" : "").attr("x", behind(x(one.step), x(rows[0].step))).attr("y", y + 12).text(seconds(one.step));
    for (const line of [x(rows[0].step), b(capacity)]) svg.append("line").attr("class", "rule").attr("x1", line).attr("x2", line).attr("y1", y - 3).attr("y2", y + bar + 3);
    svg.append("text").attr("class", today ? "strong" : "").attr("x", behind(b(one.driver), b(capacity))).attr("y", y + 12).text(gib(one.driver));
  });
  return top + rows.length * row;
}

const peak = memory => memory.classes[memory.worst].driver;

function compared(plan) {
  const {details} = plan, {today: of} = details, {judged} = plan.today;
  const changes = plan.best.slice(0, of.changes.length).map((one, i) => ({name: of.changes[i], step: one.time.step, mfu: one.time.mfu, driver: peak(one.memory), oom: details.layouts[i].oom}));
  const now = {name: "current", step: judged.time.step, mfu: judged.time.mfu, driver: peak(judged.memory), oom: of.oom};
  const gain = 1 - changes[0].step / now.step;
  const against = one => one === now ? "" : `${one.step < now.step ? "−" : "+"}${percent(Math.abs(one.step / now.step - 1))}`;
  return [el("p.headline", gain > 0 ? `The best change, ${changes[0].name}, saves ${percent(gain)} of the step.` : "No change of at most two parameters is faster."),
    picture("Step time and memory of the current configuration and of its best changes", (svg, width) => draw(svg, width, [now, ...changes.slice(0, most)], judged.memory.capacity)),
    legend([["g-idle", "current"], ["g-compute", "step time after the change"], ["g-states", "peak memory after it"], ["rule", "current step time; usable memory", "line"]]),
    sheet("changes", [["change", "mono"], ["step", "n"], ["against current", "n"], ["MFU", "n"], ["peak memory", "n"], ["P(OOM)", "n"]],
      [now, ...changes].map(one => [one.name, seconds(one.step), against(one), percent(one.mfu), gib(one.driver), one.oom]), 0)];
}

export function today(plan) {
  const {today: of} = plan.details;
  return section("today", "Current configuration", el("p", of.says), ...of.notes.map(one => el("p.small.soft", one)),
    ...(plan.today.judged.time && plan.best.length ? compared(plan) : []));
}
