// The pipeline by the clock: a row for each pipeline rank, memory of one of them below.
import {scaleLinear} from "d3-scale";
import {event, select} from "d3-selection";
import {zoom, zoomIdentity} from "d3-zoom";
import {chooser, el, hideTip, legend, picture, saveFile, seconds, section, showTip, whole} from "./tools.js";

const names = {F: "forward", B: "backward", I: "backward of inputs", W: "backward of weights"};
const FIELDS = 5;  // of an action: letter, stage, micro-batch, start, length

function actionsOf(rank) {
  const list = [];
  for (let i = 0; i < rank.actions.length; i += FIELDS) {
    const [kind, stage, batch, start, length] = rank.actions.slice(i, i + FIELDS);
    list.push({kind, stage, batch, start, length});
  }
  return list;
}

// Warm-up is what is before the first backward, cool-down what is behind the last forward; the micro-batches
// that are not drawn belong in the middle of what is between them.
function phasesOf(line) {
  const all = line.ranks.flatMap(actionsOf), forwards = all.filter(one => one.kind === "F"), backwards = all.filter(one => one.kind !== "F");
  const from = Math.min(...backwards.map(one => one.start)), until = Math.max(...forwards.map(one => one.start + one.length));
  const cut = line.left_out > 0 ? (until > from ? (from + until) / 2 : from) : Infinity;
  const steady = until > from ? [["steady", from, until]] : [];
  return {cut, list: [["warm-up", 0, Math.min(from, until)], ...steady, ["cool-down", Math.max(from, until), line.makespan]]};
}

function memoryPath(points, end, x, y) {
  let path = `M${x(0)},${y(0)}`;
  for (let i = 0; i < points.length; i += 2) {
    const until = i + 2 < points.length ? points[i + 2] : end;
    path += `L${x(points[i])},${y(points[i + 1])}L${x(until)},${y(points[i + 1])}`;
  }
  return `${path}L${x(end)},${y(0)}Z`;
}

// Brackets above the ranks, and a break where micro-batches are left out.
function drawPhases(holder, x, {cut, list}, line, {left, right, top, bottom}) {
  holder.selectAll("*").remove();
  for (const [name, from, until] of list) {
    const a = Math.max(left, x(from)), b = Math.min(right, x(until));
    if (b - a < 12) continue;
    holder.append("path").attr("class", "bracket").attr("d", `M${a + 1},${top - 3}V${top - 8}H${b - 1}V${top - 3}`);
    if (b - a > name.length * 7 + 8) holder.append("text").attr("x", (a + b) / 2).attr("y", top - 12).attr("text-anchor", "middle").text(name);
  }
  const at = x(cut);
  if (!(at > left && at < right)) return;
  let zigzag = `M${at - 3},${top - 2}`;
  for (let y = top - 2, side = 1; y < bottom; y += 6, side = -side) zigzag += `L${at + 3 * side},${Math.min(y + 6, bottom)}`;
  holder.append("path").attr("class", "break").attr("d", zigzag);
}

function draw(svg, width, line, state) {
  const left = width < 500 ? 34 : 60, right = 8, row = line.ranks.length > 10 ? 17 : 24, gap = 2, top = 26, track = 96;
  const base = scaleLinear().domain([0, line.makespan]).range([left, width - right]);
  const rows = line.ranks.length * (row + gap), below = top + rows + 46;
  const clip = `clip-${Math.random().toString(36).slice(2)}`;
  svg.append("clipPath").attr("id", clip).append("rect").attr("x", left).attr("width", width - left - right).attr("height", below + track + 4);
  line.ranks.forEach((rank, i) => {
    svg.append("rect").attr("class", "idle").attr("x", left).attr("y", top + i * (row + gap)).attr("width", width - left - right).attr("height", row);
    svg.append("text").attr("class", i === state.rank ? "strong" : "").attr("x", left - 6).attr("y", top + i * (row + gap) + row / 2 + 4).attr("text-anchor", "end").text(width < 500 ? rank.rank : `rank ${rank.rank}`);
  });
  const body = svg.append("g").attr("clip-path", `url(#${clip})`);
  const data = line.ranks.flatMap((rank, i) => actionsOf(rank).map(action => ({...action, row: i, rank: rank.rank})));
  const rects = body.selectAll("rect").data(data).enter().append("rect").attr("class", one => `f-${one.kind}`).attr("y", one => top + one.row * (row + gap)).attr("height", row);
  const labels = body.append("g").attr("pointer-events", "none");
  const shown = line.ranks[state.rank];
  const most = Math.max(line.capacity, shown.peak) * 1.05;
  const y = scaleLinear().domain([0, most]).range([below + track, below]);
  const live = body.append("path").attr("class", "live");
  const ticks = svg.append("g"), brackets = svg.append("g"), phases = phasesOf(line);
  for (const [mib, name] of [[line.capacity, "usable"], [shown.peak, "peak"]]) {
    svg.append("line").attr("class", name === "usable" ? "rule" : "axis").attr("x1", left).attr("x2", width - right).attr("y1", y(mib)).attr("y2", y(mib));
  }
  svg.append("text").attr("class", "strong").attr("x", left).attr("y", below - 8).text(width < 500 ? `rank ${shown.rank}: usable ${(line.capacity / 1024).toFixed(1)}, peak ${(shown.peak / 1024).toFixed(1)} GiB`
    : `memory of pipeline rank ${shown.rank}: usable ${(line.capacity / 1024).toFixed(1)} GiB (dashed), peak ${(shown.peak / 1024).toFixed(1)} GiB (line)`);
  const redraw = x => {
    rects.attr("x", one => x(one.start)).attr("width", one => Math.max(0.4, x(one.start + one.length) - x(one.start) - 0.4));
    live.attr("d", memoryPath(shown.memory, line.makespan, x, y));
    const visible = data.filter(one => x(one.start + one.length) - x(one.start) > 15 && x(one.start + one.length) > left && x(one.start) < width);
    const texts = labels.selectAll("text").data(visible.length > 900 ? [] : visible, one => `${one.row}-${one.start}`);
    texts.exit().remove();
    texts.enter().append("text").attr("text-anchor", "middle").attr("class", "inside").text(one => one.batch).merge(texts)
      .attr("x", one => (x(one.start) + x(one.start + one.length)) / 2).attr("y", one => top + one.row * (row + gap) + row / 2 + 3.5);
    drawPhases(brackets, x, phases, line, {left, right: width - right, top, bottom: top + rows});
    ticks.selectAll("*").remove();
    const marks = x.ticks(width < 500 ? 4 : 8), [size, unit] = line.makespan >= 1e6 ? [1e6, "s"] : [1e3, "ms"];
    const decimals = Math.max(0, -Math.floor(Math.log10((marks[1] - marks[0]) / size) + 1e-9));
    for (const tick of marks) {
      if (x(tick) < left || x(tick) > width - right) continue;
      ticks.append("text").attr("x", x(tick)).attr("y", top + rows + 14).attr("text-anchor", "middle").text(`${((tick > phases.cut ? tick + line.left_out : tick) / size).toFixed(decimals)} ${unit}`);
    }
  };
  const zooms = zoom().scaleExtent([1, Math.max(8, data.length / line.ranks.length / 4)]).extent([[left, 0], [width - right, 1]]).translateExtent([[left, 0], [width - right, 1]])
    .filter(() => event.type !== "wheel" || event.ctrlKey || event.metaKey || event.shiftKey)
    .on("zoom", () => { hideTip(); redraw(event.transform.rescaleX(base)); state.transform = event.transform; });
  svg.attr("class", "zoomed").attr("tabindex", 0).call(zooms).call(zooms.transform, state.transform || zoomIdentity);
  state.zoomBy = by => svg.call(zooms.scaleBy, by);
  state.whole = () => svg.call(zooms.transform, zoomIdentity);
  svg.on("keydown", () => {
    const keys = {"+": () => state.zoomBy(1.5), "=": () => state.zoomBy(1.5), "-": () => state.zoomBy(1 / 1.5), "0": state.whole,
      ArrowLeft: () => svg.call(zooms.translateBy, 60 / state.transform.k, 0), ArrowRight: () => svg.call(zooms.translateBy, -60 / state.transform.k, 0)};
    if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
  });
  svg.on("pointermove", () => {
    const one = select(event.target).datum();
    if (!one || one.kind === undefined) { hideTip(); return; }
    showTip(event, `${names[one.kind]}, micro-batch ${one.batch}`, `stage ${one.stage} on pipeline rank ${one.rank}`, `${seconds(one.length / 1e6)}, from ${seconds(one.start / 1e6)}`);
  }).on("pointerleave", hideTip).on("click", () => {
    const one = select(event.target).datum();
    if (one && one.row !== undefined && one.row !== state.rank) state.choose(one.row);
  });
  return below + track + 6;
}

// As ui.perfetto.dev and chrome://tracing read it.
function trace(line) {
  const events = line.ranks.flatMap(rank => [{name: "thread_name", ph: "M", pid: 0, tid: rank.rank, args: {name: `pipeline rank ${rank.rank}`}},
    ...actionsOf(rank).map(one => ({name: `${one.kind}${one.batch}`, cat: names[one.kind], ph: "X", pid: 0, tid: rank.rank, ts: one.start, dur: one.length, args: {stage: one.stage, micro_batch: one.batch}}))]);
  return JSON.stringify({traceEvents: events, displayTimeUnit: "ms"});
}

function says(line) {
  const part = line.micro_batches_drawn < line.micro_batches ? ` Drawn are ${whole(line.micro_batches_drawn)} of ${whole(line.micro_batches)} micro-batches${line.left_out ? `: at the break the steady part repeats for ${seconds(line.left_out / 1e6)} more` : ""}${line.fills_on ? ", and memory grows with each" : ""}.` : "";
  const ranks = line.ranks.length < line.pipeline_ranks ? ` ${line.ranks.length} of ${line.pipeline_ranks} pipeline ranks are shown.` : "";
  return `${line.schedule}: ${line.what}. With it a step takes ${seconds(line.step)}, peak memory is ${(line.driver / 2 ** 30).toFixed(1)} GiB (OOM probability ${line.oom}). Over the whole step the mean pipeline rank is idle for ${line.idle} of the pipeline's time ("Step time breakdown" is of the slowest rank, which waits least).${part}${ranks}`;
}

export function timeline(plan) {
  const lines = plan.details.timelines || [];
  if (!lines.length) return null;
  let line = lines[0];
  const highest = () => line.ranks.reduce((best, one, i) => one.peak > line.ranks[best].peak ? i : best, 0);
  const state = {rank: highest(), transform: zoomIdentity};
  const words = el("p"), keys = el("div"), ranks = el("span");
  const drawing = picture("Actions of every pipeline rank over time", (svg, width) => draw(svg, width, line, state));
  const show = () => {
    words.textContent = says(line);
    const kinds = [...new Set(line.ranks.flatMap(rank => actionsOf(rank).map(one => one.kind)))];
    keys.replaceChildren(legend([...kinds.map(kind => [`f-${kind}`, names[kind]]), ["idle", "idle"], ["live", "memory while micro-batches are in flight"], ...(line.left_out > 0 ? [["break-key", "break: micro-batches not drawn"]] : [])]));
    ranks.replaceChildren(chooser("Memory of pipeline rank", line.ranks.map(rank => rank.rank), state.rank, i => state.choose(i)));
    drawing.redraw();
  };
  state.choose = i => { state.rank = i; show(); };
  const button = (name, label, act) => {
    const node = el("button", name);
    node.setAttribute("aria-label", label);
    node.addEventListener("click", act);
    return node;
  };
  const buttons = lines.length > 1 ? lines.map((one, i) => {
    const node = el("button", `${one.schedule}${one.chunks > 1 ? ` x${one.chunks}` : ""}: ${seconds(one.step)}${{tight: ", marginal", "does-not-fit": ", does not fit"}[one.fit] || ""}`);
    node.setAttribute("aria-pressed", i === 0);
    node.addEventListener("click", () => {
      line = one;
      state.rank = highest();
      state.transform = zoomIdentity;
      buttons.forEach(other => other.setAttribute("aria-pressed", other === node));
      show();
    });
    return node;
  }) : [];
  const node = section("timeline", "The pipeline's timeline", words, buttons.length ? el("div.controls", ...buttons) : null,
    el("div.controls", button("+", "Zoom in", () => state.zoomBy(2)), button("−", "Zoom out", () => state.zoomBy(0.5)), button("Whole step", "Show the whole step", () => state.whole()), ranks,
      button("Save as trace", "Save as a trace for ui.perfetto.dev", () => saveFile("timeline.json", trace(line), "application/json"))),
    drawing, keys, el("p.small.soft", "Numbers are micro-batches. Drag to move; Ctrl and wheel, two fingers, or + and − zoom. Memory leaves out what operators need for a moment."));
  show();
  return node;
}
