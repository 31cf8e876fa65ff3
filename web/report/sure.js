// How sure the numbers are: how far such predictions were off, and what is assumed.
import {scaleLinear, scaleLog} from "d3-scale";
import {axis, el, folded, picture, section, sheet, whole} from "./tools.js";

// Sources by the names that readers know them by.
const KNOWN = {"aleph-alpha-2023": "Aleph Alpha, A100", bigscience_bloom_prequel: "BLOOM", dgxc_benchmarking: "NVIDIA DGX Cloud recipes", flagperf: "FlagPerf", internevo: "InternEvo",
  korthikanti2022: "Korthikanti et al. 2022", llm_foundry: "llm-foundry", megatron_bridge: "Megatron-Bridge", megatron_golden: "Megatron-LM tests", mlperf: "MLPerf",
  nanotron_playbook: "nanotron playbook", nemo_24_07: "NeMo 24.07", sailor: "Sailor", simumax_b200: "SimuMax, B200", vocab_parallel: "vocabulary parallelism",
  vocab_parallel_artifact: "the same, artifact", vtrain_multi: "vTrain, several nodes", vtrain_single: "vTrain, one node", zbh1_3090: "ZB-H1, RTX 3090", zero_bubble: "zero bubble"};
const known = rows => rows.map(one => ({...one, source: KNOWN[one.source] || one.source}));

// Names stand beside the bars, on a narrow screen above them.
function draw(svg, width, rows) {
  const narrow = width < 500, left = narrow ? 0 : 420, right = 60, bar = narrow ? 12 : 18, row = narrow ? 36 : 24, top = 4;
  const x = scaleLinear().domain([0, Math.max(...rows.map(one => one.error)) * 1.05]).range([left, width - right]);
  const height = rows.length * row;
  axis(svg, x, top, height, tick => `${tick} %`, narrow ? 4 : 6, narrow);
  rows.forEach((one, i) => {
    const y = top + i * row + (narrow ? 17 : 0);
    svg.append("text").attr("x", narrow ? 0 : left - 8).attr("y", narrow ? y - 4 : y + bar / 2 + 4).attr("text-anchor", narrow ? "start" : "end").text(narrow && one.source.length > 50 ? `${one.source.slice(0, 49)}…` : one.source);
    svg.append("rect").attr("class", "gauge-full").attr("x", left).attr("y", y).attr("width", Math.max(1, x(one.error) - left)).attr("height", bar);
    svg.append("text").attr("x", x(one.error) + 5).attr("y", y + bar / 2 + 4).text(`${one.error} %`);
  });
  return top + height + 22;
}

// A dot for each run that ships, at predicted / measured; the line is the median. What is beyond the axis is drawn at its end.
// ends: [what is said left of 1, right of it].
function drawLeft(svg, width, rows, ends) {
  const narrow = width < 500, left = narrow ? 8 : 200, right = 16, row = narrow ? 34 : 22, top = 18, height = rows.length * row;
  const x = scaleLog().domain([0.5, 2]).range([left, width - right]).clamp(true);
  for (const tick of [0.5, 0.7, 1, 1.4, 2]) {
    svg.append("line").attr("class", tick === 1 ? "rule" : "axis").attr("x1", x(tick)).attr("x2", x(tick)).attr("y1", top).attr("y2", top + height);
    svg.append("text").attr("x", x(tick)).attr("y", top + height + 15).attr("text-anchor", "middle").text(tick);
  }
  svg.append("text").attr("x", x(1) - 8).attr("y", 12).attr("text-anchor", "end").text(ends[0]);
  svg.append("text").attr("x", x(1) + 8).attr("y", 12).text(ends[1]);
  rows.forEach((one, i) => {
    const y = top + i * row + (narrow ? 24 : row / 2), middle = x(1 + one.off[one.off.length >> 1] / 100);
    svg.append("text").attr("x", narrow ? left : left - 8).attr("y", narrow ? y - 9 : y + 4).attr("text-anchor", narrow ? "start" : "end").text(one.source);
    for (const off of one.off) svg.append("circle").attr("class", "left").attr("cx", x(1 + off / 100)).attr("cy", y).attr("r", 3);
    svg.append("line").attr("class", "middle").attr("x1", middle).attr("x2", middle).attr("y1", y - 7).attr("y2", y + 7);
  });
  return top + height + 22;
}

function runByRun(what, rows, ends) {
  return [el("h3", `${what}, run by run: predicted / measured`),
    picture(`${what}, run by run: predicted over measured`, (svg, width) => drawLeft(svg, width, rows, ends)),
    el("p", "Dots are published runs, 21 of each source at most, evenly from the lowest to the highest; the line is the median. Internally inconsistent runs are excluded; what is beyond the axis is drawn at its end.")];
}

function times(accuracy) {
  if (!accuracy.time.length) return [el("p", `Step times use the constants of “${accuracy.stack}”, which come from runs of your own or of all software together.`)];
  const runs = known(accuracy.time), left = runs.filter(one => one.off && one.off.length);
  return [el("h3", `Step time, software like this (“${accuracy.stack}”): mean error`),
    picture("Mean error of step times by source", (svg, width) => draw(svg, width, runs)),
    folded("Show the numbers", sheet("accuracy", [["published runs", ""], ["runs", "n"], ["mean error", "n"], ["inside the 90 % interval", "n"]], runs.map(one => [one.source, whole(one.runs), `${one.error} %`, `${one.inside} %`]))),
    ...(left.length ? runByRun("Step time", left, ["predicted too short", "too long"]) : [])];
}

export function sure(plan) {
  const {details} = plan, {accuracy} = details;
  if (!accuracy) return null;
  return section("sure", "Prediction accuracy", el("p", "These are predictions; nothing was run. The bars are the errors of such predictions on published runs that were not used to fit them."),
    ...times(accuracy),
    el("h3", "Memory, all software: mean error"), picture("Mean error of memory by source", (svg, width) => draw(svg, width, accuracy.memory)),
    folded("Show the numbers", sheet("accuracy", [["published runs", ""], ["runs", "n"], ["mean error", "n"]], accuracy.memory.map(one => [one.source, whole(one.runs), `${one.error} %`]))),
    ...(accuracy.memory_runs.length ? runByRun("Memory", known(accuracy.memory_runs), ["predicted too little", "too much"]) : []),
    el("h3", "What is assumed"), el("p", `${details.assumed}.`),
    ...(accuracy.assumed ? [el("p", "Some facts about this framework's memory are assumed or fitted, not verified against its source: the interval is wider.")] : []),
    ...(accuracy.late ? [el("p", "With this version of PyTorch, memory of collectives comes back late: how late is not known, and the interval is wider.")] : []),
    ...(accuracy.doubt ? [el("p", accuracy.doubt)] : []),
    el("p", "One measured step of your own narrows the interval: --measured LAYOUT:step=14.2s."));
}
