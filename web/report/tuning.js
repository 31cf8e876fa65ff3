// Trials that were run: over time, against their predictions, and what they taught about the others.
import {scaleLinear} from "d3-scale";
import {card, commands, hero} from "./answer.js";
import {axis, el, folded, legend, percent, picture, seconds, section, sheet, tells} from "./tools.js";

const duration = s => s < 120 ? seconds(s) : s < 7200 ? `${(s / 60).toPrecision(3)} min` : `${(s / 3600).toPrecision(3)} h`;
const ran = one => one.end === "ok";
const dot = (svg, kind, x, y, r = 5) => svg.append("circle").attr("class", kind).attr("cx", x).attr("cy", y).attr("r", r);
const label = (svg, x, y, text, anchor = "middle") => svg.append("text").attr("x", x).attr("y", y).attr("text-anchor", anchor).text(text);

function steps(svg, y, left, right) {
  for (const tick of y.ticks(5)) {
    svg.append("line").attr("class", "axis").attr("x1", left).attr("x2", right).attr("y1", y(tick)).attr("y2", y(tick));
    label(svg, left - 6, y(tick) + 4, seconds(tick), "end");
  }
}

// A bar as long as the trial took, at the height of its step; without a step at the top.
function overTime(svg, width, trials, most) {
  const left = 60, right = width - 14, top = 40, height = Math.min(320, Math.max(200, width * 0.35));
  let clock = 0;
  const placed = trials.map(one => ({...one, from: clock, to: clock += one.took_seconds ?? 0}));
  const good = placed.filter(ran).map(one => one.step_seconds);
  const x = scaleLinear().domain([0, clock || 1]).range([left, right]);
  const y = scaleLinear().domain([Math.min(...good, most) * 0.95, Math.max(...good, most) * 1.03]).nice().range([top + height, top]);
  steps(svg, y, left, right);
  for (const tick of x.ticks(width < 500 ? 3 : 7)) label(svg, x(tick), top + height + 16, duration(tick));
  label(svg, right, top + height + 32, "time spent in trials", "end");
  label(svg, left - 6, 12, "step", "end");
  let best = Infinity;
  const line = [];
  for (const one of placed) {
    const at = ran(one) ? y(one.step_seconds) : 22, kind = ran(one) ? "p-fits" : one.end === "out-of-memory" ? "p-not" : "p-tight";
    const bar = svg.append("rect").attr("class", kind).attr("x", x(one.from)).attr("y", at - 3).attr("width", Math.max(3, x(one.to) - x(one.from) - 1)).attr("height", 6);
    tells(bar.node(), () => [`trial ${one.trial}: ${one.end ?? one.state}`, one.layout, ran(one) ? `${seconds(one.step_seconds)} a step` : one.cause, one.why]);
    label(svg, (x(one.from) + x(one.to)) / 2, at - 7, `${one.trial}`);
    if (ran(one) && one.step_seconds < best) {
      if (best < Infinity) line.push([one.to, best]);
      line.push([one.to, best = one.step_seconds]);
    }
  }
  if (line.length) svg.append("path").attr("class", "curve").attr("d", "M" + [...line, [clock, best]].map(([t, s]) => `${x(t)},${y(s)}`).join("L"));
  return top + height + 38;
}

function against(svg, width, rows) {
  const left = 60, right = width - 14, top = 10, height = Math.min(420, Math.max(240, width * 0.45));
  const all = rows.flatMap(one => [one.before, one.then, one.measured]);
  const domain = [Math.min(...all) * 0.95, Math.max(...all) * 1.05];
  const x = scaleLinear().domain(domain).range([left, right]), y = scaleLinear().domain(domain).range([top + height, top]);
  steps(svg, y, left, right);
  for (const tick of x.ticks(width < 500 ? 3 : 7)) label(svg, x(tick), top + height + 16, seconds(tick));
  label(svg, right, top + height + 32, "predicted", "end");
  svg.append("line").attr("class", "rule").attr("x1", x(domain[0])).attr("y1", y(domain[0])).attr("x2", x(domain[1])).attr("y2", y(domain[1]));
  for (const one of rows) {
    svg.append("line").attr("class", "axis").attr("x1", x(one.before)).attr("x2", x(one.then)).attr("y1", y(one.measured)).attr("y2", y(one.measured));
    dot(svg, "p-tight bound", x(one.before), y(one.measured));
    tells(dot(svg, "p-best", x(one.then), y(one.measured)).node(), () => [`trial ${one.trial}`, one.layout, `measured ${seconds(one.measured)}`,
      `predicted ${seconds(one.before)} before any trial, ${seconds(one.then)} when it was chosen`]);
  }
  return top + height + 38;
}

// Intervals by now, the prediction before any trial, and what was measured.
function beliefs(svg, width, rows) {
  const narrow = width < 640, left = narrow ? 0 : 430, row = narrow ? 38 : 26, right = width - 20, top = 4;
  const all = rows.flatMap(one => [one.low_seconds, one.high_seconds, one.predicted_seconds, one.measured ?? one.low_seconds]);
  const x = scaleLinear().domain([Math.min(...all) * 0.97, Math.max(...all) * 1.02]).range([left + 10, right]);
  axis(svg, x, top, rows.length * row, seconds, narrow ? 3 : 6);
  rows.forEach((one, i) => {
    const y = top + i * row + (narrow ? 26 : row / 2);
    const name = narrow && one.layout.length > 46 ? `${one.layout.slice(0, 45)}…` : one.layout.length > 58 ? `${one.layout.slice(0, 57)}…` : one.layout;
    label(svg, narrow ? 0 : left, narrow ? y - 10 : y + 4, name, narrow ? "start" : "end");
    const bar = svg.append("rect").attr("class", "gauge-full").attr("x", x(one.low_seconds)).attr("y", y - 3).attr("width", Math.max(2, x(one.high_seconds) - x(one.low_seconds))).attr("height", 6);
    tells(bar.node(), () => [one.layout, `expected ${seconds(one.expected_seconds)} (${seconds(one.low_seconds)} to ${seconds(one.high_seconds)})`, `before any trial ${seconds(one.predicted_seconds)}`,
      one.measured ? `measured ${seconds(one.measured)}` : "not tried", `OOM probability ${percent(one.oom)}`]);
    dot(svg, "p-tight bound", x(one.predicted_seconds), y, 4.5);
    if (one.measured) dot(svg, "p-best", x(one.measured), y);
  });
  return top + rows.length * row + 24;
}

function answer(tuned, good) {
  const {details, best} = tuned, node = section("answer", "");
  node.querySelector("h2").replaceWith(...hero(tuned, best ? best.layout : "No trial ran to its end", best ? "good" : "bad", best ? tuned.stopped || "goes on" : "nothing ran"));
  const spent = tuned.trials.reduce((sum, one) => sum + (one.took_seconds ?? 0), 0);
  if (best) {
    node.append(el("div.cards",
      card("Fastest measured", seconds(best.step_seconds), el("div.small.soft", `trial ${best.trial}; predicted ${seconds(best.predicted_seconds)}`)),
      card("First that ran", seconds(good[0].step_seconds), el("div.small.soft", `${percent(1 - best.step_seconds / good[0].step_seconds)} gained since`)),
      card("Trials", `${tuned.trials.length}`, el("div.small.soft", `${good.length} ran to their end`)),
      card("Time in trials", duration(spent), el("div.small.soft", `${details.node_hours} node-hours`))));
  }
  node.append(el("p", tuned.stopped ? `Stopped: ${tuned.why}.` : `Next: ${tuned.next}. ${tuned.why}.`), el("h3", "Next steps"), ...commands(details.commands));
  return node;
}

export function tuning(tuned) {
  const {trials, candidates} = tuned, good = trials.filter(ran);
  const of = new Map(candidates.map(one => [one.layout, one]));
  const rows = good.filter(one => of.has(one.layout)).map(one => ({trial: one.trial, layout: one.layout, measured: one.step_seconds, then: one.predicted_seconds, before: of.get(one.layout).predicted_seconds}));
  const measured = new Map(good.map(one => [one.layout, one.step_seconds]));
  const known = candidates.map(one => ({...one, measured: measured.get(one.layout)})).sort((a, b) => a.expected_seconds - b.expected_seconds);
  const shown = known.filter((one, i) => i < 16 || one.measured);
  const list = [["Summary", answer(tuned, good)],
    ["Trials", trials.length ? section("trials", "Trials over time",
      good.length ? picture("Measured steps over the time of the trials", (svg, width) => overTime(svg, width, trials, good[0].step_seconds)) : null,
      good.length ? legend([["p-fits", "ran"], ["p-not", "out of memory"], ["p-tight", "ended otherwise"], ["gauge-full", "best so far"]]) : null,
      sheet("trials", [["trial", "n"], ["layout", "mono"], ["end", ""], ["predicted", "n"], ["measured", "n"], ["took", "n"], ["why, and what came of it", ""]],
        trials.map(one => [`${one.trial}`, one.layout, one.end ?? one.state, seconds(one.predicted_seconds), ran(one) ? seconds(one.step_seconds) : "", one.took_seconds ? duration(one.took_seconds) : "",
          `${one.why}. ${one.cause ?? ""}`]), tuned.best ? trials.findIndex(one => one.trial === tuned.best.trial) : -1)) : null],
    ["Predicted", rows.length ? section("predicted", "Predicted against measured", picture("Predicted against measured steps", (svg, width) => against(svg, width, rows)),
      legend([["p-tight bound", "as predicted before any trial"], ["p-best", "as predicted when it was chosen"]]), el("p.small.soft", "Dashed: predicted = measured."),
      folded("Show the numbers", sheet("predicted and measured", [["trial", "n"], ["layout", "mono"], ["before any trial", "n"], ["when chosen", "n"], ["measured", "n"]],
        rows.map(one => [`${one.trial}`, one.layout, seconds(one.before), seconds(one.then), seconds(one.measured)])))) : null],
    ["Learned", section("learned", "Updated predictions", ...tuned.details.notes.map(text => el("p", text)),
      picture("Updated predictions of step times", (svg, width) => beliefs(svg, width, shown)),
      legend([["gauge-full", "90 % interval now"], ["p-tight bound", "predicted before any trial"], ["p-best", "measured"]]),
      shown.length < known.length ? el("p.small.soft", `The fastest ${shown.length} of ${known.length} layouts by updated predictions.`) : null,
      folded("Show the numbers", sheet("layouts", [["layout", "mono"], ["before", "n"], ["now", "n"], ["90 % interval", "n"], ["OOM", "n"]],
        known.map(one => [one.layout, seconds(one.predicted_seconds), seconds(one.expected_seconds), `${seconds(one.low_seconds)} to ${seconds(one.high_seconds)}`, percent(one.oom)]))))]];
  return list.filter(([, node]) => node);
}
