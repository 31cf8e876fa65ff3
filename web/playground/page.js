// The form, the worker that answers it, and the answer: the parts of the report, and files to start a run with.
import {parts} from "../report/parts.js";
import {el, saveFile, section} from "../report/tools.js";
import {filesSection} from "./files.js";
import {NAMES, exportWords, fromFragment, planWords, toFragment} from "./question.js";

const FIRST = {model: "llama-3.1-8b", on: "8xH100", batch: "128", seq: "8192", trainer: "", job: "", more: "", config: ""};
const at = selector => document.querySelector(selector);
const form = at("form"), state = at("#state"), found = at("#found"), faults = at("#faults"), nav = at("nav");

// The worker answers one question after the other; to stop it is to end it.
let worker, asked = new Map(), count = 0;
function start() {
  worker = new Worker("worker.js");
  worker.onmessage = ({data}) => {
    if (data.progress !== undefined) return say(data.progress ? `Searching: ${data.progress}` : "Drawing ...");
    asked.get(data.id).done(data);
    asked.delete(data.id);
  };
  worker.onerror = fault => {
    for (const one of asked.values()) one.failed(new Error(fault.message || "the planner could not be loaded"));
    asked.clear();
  };
}
function ask(words, config) {
  return new Promise((done, failed) => {
    asked.set(++count, {done, failed});
    worker.postMessage({id: count, words, ...(config ? {config} : {})});
  });
}

const say = text => { state.textContent = text; };
function busy(is) {
  at(".go").disabled = is;
  at("#stop").hidden = !is;
}

// A fault at its field as well, where its place is one.
function placeOf(where) {
  const named = where.match(/^--(on|batch|seq|trainer|job)\b/);
  if (named) return named[1];
  const question = current();
  for (const name of ["on", "trainer", "job", "batch", "seq"]) if (question[name] && where.includes(`'${question[name]}'`)) return name;
  if (where.startsWith("config.json")) return "config";
  return question.model && where === question.model ? "model" : null;
}
function showFaults(list) {
  for (const field of form.elements) field.removeAttribute("aria-invalid");
  faults.replaceChildren(...list.map(({where, what, hint}) => el("li", where ? el("code", where) : null, el("div", what), hint ? el("div.small.soft", `Hint: ${hint}`) : null)));
  for (const {where} of list) {
    const name = placeOf(where);
    if (name) form.elements[name].setAttribute("aria-invalid", "true");
    if (name === "config") at("#paste").open = true;
  }
}

const current = () => Object.fromEntries(NAMES.map(name => [name, form.elements[name].value.trim()]));
function fill(question) {
  for (const name of NAMES) {
    const field = form.elements[name];
    // A link may ask for what no list here has.
    if (field.tagName === "SELECT" && ![...field.options].some(one => one.value === question[name])) field.append(new Option(question[name], question[name]));
    field.value = question[name];
  }
  at("#paste").open = question.config !== "";
}

function missing(question) {
  const needed = {on: "Cluster", batch: "Global batch size", seq: "Sequence length"};
  const list = Object.entries(needed).filter(([name]) => !question[name]).map(([name, title]) => ({where: `--${name}`, what: `'${title}' is empty`, hint: ""}));
  if (!question.model && !question.config) list.unshift({where: "", what: "'Model' is empty", hint: "a name of the list, or your own config.json"});
  return list;
}

// Links of the page's parts may not touch what stands behind '#': it is the question.
function listParts(list) {
  nav.replaceChildren(...list.map(([name, node]) => {
    const link = el("a", name);
    link.href = `#${node.id}`;
    link.addEventListener("click", event => {
      event.preventDefault();
      node.scrollIntoView();
    });
    return link;
  }));
}

async function exported(question, plan) {
  const {settings} = plan.details.layouts[plan.recommended];
  const {reply} = await ask(exportWords(question, settings), question.config);
  const answer = JSON.parse(reply.out);
  if (reply.exit === 0) return filesSection(reply.files, el("p", `Layout #${plan.recommended + 1} for ${answer.target}.`));
  const told = answer.error ? answer.error.map(one => [one.where, one.what, one.hint].filter(Boolean).join(": "))
    : answer.cannot_be_said ? [...answer.cannot_be_said.map(one => `${one.what}: ${one.why}`), ...(answer.nearest ? [`Nearest layout with settings: ${answer.nearest}`] : [])]
      : answer.violations.map(one => one.reason);
  return filesSection([], el("div", el("p", "This layout cannot be exported."), ...told.map(text => el("p.small.soft", text))));
}

async function show(question, reply) {
  const plan = JSON.parse(reply.out);
  const list = parts(plan);
  if (plan.best.length) list.splice(1, 0, ["Files", await exported(question, plan)]);
  const page = reply.files.find(one => one.path === "plan.html");
  const save = el("button", "Save as a page");
  save.addEventListener("click", () => saveFile("plan.html", page.content, "text/html"));
  found.replaceChildren(...list.map(([, node]) => node), el("div.controls", save));
  document.title = `${plan.details.title} - Trainwright`;
  listParts([["Plan", at("#ask")], ...list]);
}

async function plan() {
  const question = current();
  const empty = missing(question);
  showFaults(empty);
  if (empty.length) return;
  history.replaceState(null, "", toFragment(question));
  busy(true);
  say("Searching ...");
  try {
    const {reply, seconds} = await ask(planWords(question), question.config);
    if (reply.exit > 1) {
      const error = reply.out.startsWith("{") ? JSON.parse(reply.out).error : [{where: "", what: reply.err, hint: ""}];
      showFaults(error);
      say(`${error.length} ${error.length === 1 ? "error" : "errors"}`);
      found.replaceChildren();
      listParts([]);
    } else {
      await show(question, reply);
      say(`Planned in ${seconds.toFixed(1)} s.`);
    }
  } catch (fault) {
    if (fault !== STOPPED) showFaults([{where: "this page", what: fault.message, hint: "this is a bug; please report it"}]);
    say(fault === STOPPED ? "Stopped." : "");
  }
  busy(false);
}

const STOPPED = new Error("stopped");
function stop() {
  worker.terminate();
  const ended = asked;
  asked = new Map();
  start();
  for (const one of ended.values()) one.failed(STOPPED);
}

function options(node, list) {
  node.append(...list.map(([value, text]) => new Option(text ?? value, value)));
}
const size = count => count >= 1e12 ? `${(count / 1e12).toPrecision(3)} T` : count >= 1e9 ? `${(count / 1e9).toPrecision(3)} B` : `${(count / 1e6).toPrecision(3)} M`;
async function fillLists() {
  const listed = async what => JSON.parse((await ask(["list", what, "--json"])).reply.out)[what];
  options(at("#models"), (await listed("models")).map(one => [one.name, `${one.name}, ${size(one.parameters)} parameters`]));
  const accelerators = await listed("accelerators"), clusters = await listed("clusters");
  options(at("#clusters"), [...clusters.map(one => [one.name]), ...accelerators.flatMap(one => [[`8x${one.name}`], [`64x${one.name}`]])]);
  const trainers = await listed("trainers");
  options(form.elements.trainer, trainers.map(one => [`${one.name}@${one.to}`, `${one.name} ${one.to}`]));
}

form.addEventListener("submit", event => { event.preventDefault(); plan(); });
at("#stop").addEventListener("click", stop);
at("#link").addEventListener("click", async () => {
  const link = new URL(toFragment(current()), location.href).href;
  history.replaceState(null, "", link);
  try {
    await navigator.clipboard.writeText(link);
    say("Link copied.");
  } catch {
    say("The address of this page is now the link.");
  }
});
addEventListener("hashchange", () => {
  const question = fromFragment(location.hash);
  if (question) { fill(question); plan(); }
});
at("footer").append(el("p.small.soft", "Trainwright's core as WebAssembly: the same answers as the program. Calibration, real trials and logs need the program."));

async function begin() {
  start();
  const linked = fromFragment(location.hash);
  try {
    await fillLists();
  } catch (fault) {
    showFaults([{where: "this page", what: fault.message, hint: "it must come from a web server, not from disk"}]);
    return say("");
  }
  fill(linked ?? FIRST);
  busy(false);
  say("Ready.");
  if (linked) plan();
}
begin();
