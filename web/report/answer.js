// The decision in one screen: the configuration, whether it fits, what it costs, and how to run it.
import {scaleLinear} from "d3-scale";
import {MEMORY, TIME, grouped} from "./families.js";
import {copyButton, el, folded, gib, legend, percent, picture, seconds, section, stack, whole} from "./tools.js";

export function card(name, big, ...rest) {
  return el("div.card", el("h3", name), el("div.big", big), ...rest);
}

const NEAR = 0.01;  // an OOM probability from which on an answer that fits is near the limit
export const standing = (oom, risk) => oom > risk ? ["bad", "Does not fit"] : oom >= NEAR ? ["warn", "Fits, near the limit"] : ["good", "Fits"];

// One bar of families with its 90 % interval above, and a mark at a limit.
function families(name, groups, text, {low, high, most, limit}) {
  return picture(name, (svg, width) => {
    const x = scaleLinear().domain([0, most]).range([0, width]), top = 12, height = 26;
    svg.append("rect").attr("class", "free").attr("y", top).attr("width", x(limit || most)).attr("height", height);
    let at = 0;
    stack(svg, x, top, height, groups.map(([family, kind, , sum]) => [kind, (at += sum) - sum, sum, [`${family} ${text(sum)}`, text(sum)], family, text(sum)]));
    for (const [x1, x2, y1, y2] of [[low, high, 5, 5], [low, low, 1, 9], [high, high, 1, 9]]) {
      svg.append("line").attr("class", "whisker").attr("x1", Math.min(width - 1, x(x1))).attr("x2", Math.min(width - 1, x(x2))).attr("y1", y1).attr("y2", y2);
    }
    const marks = at > limit ? [[top - 5, top + 3], [top + height - 3, top + height + 5]] : [[top - 2, top + height + 4]];  // not through names on the bar
    for (const [y1, y2] of limit ? marks : []) svg.append("line").attr("class", "limit").attr("x1", x(limit)).attr("x2", x(limit)).attr("y1", y1).attr("y2", y2);
    return top + height + 5;
  });
}
const keys = groups => legend(groups.map(([family, kind]) => [kind, family]));

export function memoryPanel(memory, verdict = "") {
  const worst = memory.classes[memory.worst], groups = grouped(MEMORY, worst.bytes);
  return el("div.card.wide", el("h3", "Peak memory"), el(`div.big${verdict}`, gib(worst.driver), el("span.of", `of ${gib(memory.capacity)} usable`)),
    families("Peak memory by family", groups, gib, {low: memory.low, high: memory.high, most: Math.max(memory.capacity, memory.high) * 1.02, limit: memory.capacity}),
    keys(groups), el("div.small.soft", `90 % interval ${gib(memory.low)} to ${gib(memory.high)}`));
}

function timePanel(time) {
  const groups = grouped(TIME, time.parts), share = s => percent(s / time.step);
  return el("div.card.wide", el("h3", "Step time"), el("div.big", seconds(time.step), el("span.of", "per step")),
    families("Step time by family", groups, share, {low: time.low, high: time.high, most: time.high * 1.02}),
    keys(groups), el("div.small.soft", `90 % interval ${seconds(time.low)} to ${seconds(time.high)}`));
}

// A share of one, as a bar; `mark` is what is allowed of it.
function gauge(share, most, kind, mark) {
  return picture("", (svg, width) => {
    svg.attr("aria-hidden", "true").attr("role", null);
    const x = scaleLinear().domain([0, most]).range([0, width]).clamp(true);
    svg.append("rect").attr("class", "gauge").attr("y", 3).attr("width", width).attr("height", 8).attr("rx", 4);
    if (share > 0) svg.append("rect").attr("class", kind).attr("y", 3).attr("width", Math.max(3, x(share))).attr("height", 8).attr("rx", 4);
    if (mark) svg.append("line").attr("class", "limit").attr("x1", x(mark)).attr("x2", x(mark)).attr("y1", 0).attr("y2", 14);
    return 14;
  });
}

function cards(plan, one, detail) {
  const {time, memory} = one, [kind] = standing(memory.oom, plan.risk);
  const holder = el("div.cards", timePanel(time), memoryPanel(memory),
    card("Throughput", whole(time.tokens_per_second_per_rank), el("div.small.soft", "tokens/s/device")),
    card("Model FLOPs utilization (MFU)", percent(time.mfu), gauge(time.mfu, 1, "gauge-full"), el("div.small.soft", "of the device's peak")),
    card("OOM probability", el(`span.${kind}`, detail.oom), gauge(memory.oom, Math.max(0.1, 2 * plan.risk), `gauge-${kind}`, plan.risk),
      el("div.small.soft", `up to ${plan.details.risk} counts as fitting`)));
  if (plan.run) {
    const cost = plan.run.cost ? `, ${whole(plan.run.cost)} at the given price` : "";
    holder.append(card("Whole run, layout 1", `${plan.run.days < 100 ? plan.run.days.toFixed(1) : whole(plan.run.days)} days`,
      el("div.small.soft", `${whole(plan.run.steps)} steps, ${whole(plan.run.accelerator_hours)} device-hours${cost}`)));
  }
  return holder;
}

// Lines end behind a comma or a blank, inside a word only where it is longer than a line.
function breakable(command) {
  const code = el("code");
  for (const word of command.match(/[^ ,]*[ ,]?/g)) {
    if (word) code.append(el("span", word.trimEnd()), word.endsWith(" ") ? " " : "");
  }
  return code;
}

const line = (does, command) => el("div.line", breakable(command), copyButton("Copy", `Copy: ${does}`, () => command));
export function commands(list) {
  return list.map(({does, command}) => el("div.command", el("div.small.soft", does[0].toUpperCase() + does.slice(1)), line(does, command)));
}

export function words(list) {
  const node = el("dl.words");
  for (const {entry, says} of list) node.append(el("dt", entry), el("dd", says));
  return node;
}

// The question above, the configuration large, and the verdict beside it.
export function hero(plan, config, kind, verdict) {
  const {details} = plan;
  return [el("p.eyebrow", el(`span.chip.${kind}`, verdict), details.title, el("span.soft", ` · ${details.asked}`)),
    el("h1", ...config.split(" ").flatMap((word, i) => [i ? " " : "", el("span.word", word)]))];
}

// What the trainer has no setting for, so that `export` refuses the layout.
const unsayable = plan => (plan.cannot_be_said || []).map(one => el("p.warn", `Export cannot write ${one.what}: ${one.why}`));

export function answer(plan) {
  const {details} = plan, one = plan.best[plan.recommended], detail = details.layouts[plan.recommended];
  const note = (...about) => details.notes.filter(text => about.includes(text.about)).map(text => text.text);
  const node = section("answer", "");
  const [kind, verdict] = details.tight ? ["warn", "Marginal"] : standing(one.memory.oom, plan.risk);
  node.querySelector("h2").replaceWith(...hero(plan, detail.short, kind, verdict));
  node.append(...note("recommended").map(text => el("p", text.split(" Layout string:")[0])),
    el("div.command", el("div.small.soft", "Layout string"), line("the layout string", detail.settings)),
    ...note("tight").map(text => el("p.warn", text)),
    ...(details.offloads ? [el("p.warn", "Nothing fits without CPU offload.")] : []),
    cards(plan, one, detail), ...unsayable(plan),
    ...note("measured", "experts", "within").map(text => el("p", text)),
    el("h3", "Next steps"), el("div.columns", ...commands(details.commands.slice(0, 2))),
    folded("Configuration explained", el("div", el("p", detail.headline), words(detail.words),
      el("p.small.soft", `${details.assumed}.${details.shared ? ` All layouts with ${details.shared}.` : ""}`))));
  return node;
}
