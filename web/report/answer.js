// The answer in one screen.
import {scaleLinear} from "d3-scale";
import {el, gib, percent, picture, seconds, section, whole} from "./tools.js";

export function card(name, big, ...rest) {
  return el("div.card", el("h3", name), el("div.big", big), ...rest);
}

// A bar with an interval on it, and a mark where the limit is.
function interval(low, at, high, most, limit) {
  return picture("", (svg, width) => {
    svg.attr("aria-hidden", "true").attr("role", null);
    const x = scaleLinear().domain([0, most]).range([0, width]);
    svg.append("rect").attr("class", "gauge").attr("y", 5).attr("width", width).attr("height", 8).attr("rx", 4);
    svg.append("rect").attr("class", limit && at > limit ? "gauge-over" : "gauge-full").attr("y", 5).attr("width", Math.min(width, x(at))).attr("height", 8).attr("rx", 4);
    svg.append("line").attr("stroke", "var(--ink)").attr("stroke-width", 2).attr("x1", x(low)).attr("x2", Math.min(width, x(high))).attr("y1", 9).attr("y2", 9);
    for (const end of [low, high]) {
      svg.append("line").attr("stroke", "var(--ink)").attr("stroke-width", 2).attr("x1", Math.min(width - 1, x(end))).attr("x2", Math.min(width - 1, x(end))).attr("y1", 4).attr("y2", 14);
    }
    if (limit) svg.append("line").attr("stroke", "var(--bad)").attr("stroke-width", 2).attr("x1", x(limit)).attr("x2", x(limit)).attr("y1", 0).attr("y2", 18);
    return 18;
  });
}

function cards(plan, one, detail) {
  const {time, memory} = one;
  const worst = memory.classes[memory.worst];
  const holder = el("div.cards",
    card("Step time", seconds(time.step), interval(time.low, time.step, time.high, time.high * 1.05),
      el("div.small.soft", `90 % interval ${seconds(time.low)} to ${seconds(time.high)}`)),
    card("Model FLOPs utilization (MFU)", percent(time.mfu), el("div.small.soft", `${whole(time.tokens_per_second_per_rank)} tokens/s per accelerator`)),
    card("Fullest rank", gib(worst.driver), interval(memory.low, worst.driver, memory.high, Math.max(memory.capacity, memory.high) * 1.02, memory.capacity),
      el("div.small.soft", `of ${gib(memory.capacity)} usable; 90 % interval ${gib(memory.low)} to ${gib(memory.high)}`)),
    card("Chance of out of memory", detail.oom, el("div.small.soft", `up to ${plan.details.risk} counts as fitting`)));
  if (plan.run) {
    const cost = plan.run.cost ? `; ${whole(plan.run.cost)} at the given price` : "";
    holder.append(card("Whole run, layout 1", `${plan.run.days.toFixed(1)} days`,
      el("div.small.soft", `${whole(plan.run.steps)} steps, ${whole(plan.run.accelerator_hours)} accelerator-hours${cost}`)));
    holder.lastChild.classList.add("wide");
  }
  return holder;
}

function copied(button, text) {
  const done = () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500); };
  const byHand = () => {
    const area = el("textarea", text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    done();
  };
  // Pages opened from disk may not write the clipboard the new way.
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, byHand); else byHand();
}

// Lines end behind a comma or a blank, inside a word only where it is longer than a line.
function breakable(command) {
  const code = el("code");
  for (const word of command.match(/[^ ,]*[ ,]?/g)) {
    if (word) code.append(el("span", word.trimEnd()), word.endsWith(" ") ? " " : "");
  }
  return code;
}

export function commands(list) {
  return list.map(({does, command}) => {
    const button = el("button", "Copy");
    button.setAttribute("aria-label", `Copy the command: ${does}`);
    button.addEventListener("click", () => copied(button, command));
    return el("div.command", el("div.small.soft", does[0].toUpperCase() + does.slice(1)), el("div.line", breakable(command), button));
  });
}

export function words(list) {
  const node = el("dl.words");
  for (const {entry, says} of list) node.append(el("dt", entry), el("dd", says));
  return node;
}

// What the trainer has no setting for, so that `export` refuses the layout.
const unsayable = plan => (plan.cannot_be_said || []).map(one => el("p.warn", `Export cannot write ${one.what}: ${one.why}`));

const note = (plan, about) => plan.details.notes.filter(one => one.about === about).map(one => one.text);

export function answer(plan) {
  const {details} = plan;
  const one = plan.best[plan.recommended], detail = details.layouts[plan.recommended];
  const node = section("answer", "", el("p.headline", detail.headline), cards(plan, one, detail),
    ...note(plan, "tight").map(text => el("p.warn", text)),
    details.offloads ? el("p.warn", "Nothing fits without offloading to the host.") : null,
    el("div.columns",
      el("div", el("h3", "The layout in words"), words(detail.words)),
      el("div", el("h3", "Go on from here"), ...unsayable(plan), ...commands(details.commands))));
  const place = plan.recommended ? `layout ${plan.recommended + 1}, recommended` : "layout 1";
  node.querySelector("h2").replaceWith(el("h1", details.title, details.tight ? el("span.chip.warn", "Tight") : el("span.chip.good", "Fits")), el("p.soft", `${details.asked}; ${place}. ${details.assumed}.${details.recipes ? ` As published recipes have it, where it is legal: ${details.recipes}.` : ""}`));
  for (const text of [...note(plan, "measured"), ...note(plan, "experts"), ...note(plan, "within")]) node.append(el("p", text));
  return node;
}
