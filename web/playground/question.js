// A question as the form, the command line and the link have it.
export const NAMES = ["model", "on", "batch", "seq", "trainer", "job", "more", "config"];

// Words of a shell, as far as people type them: blanks part them, quotes hold them together.
export function shellWords(text) {
  return [...text.matchAll(/(?:[^\s"']+|"[^"]*"|'[^']*')+/g)].map(([word]) => word.replace(/"([^"]*)"|'([^']*)'/g, (_, a, b) => a ?? b));
}

export function modelOf(question) {
  return question.config ? "config.json" : question.model;
}

export function planWords(question) {
  const words = ["plan", modelOf(question), "--on", question.on, "--batch", question.batch, "--seq", question.seq];
  for (const name of ["trainer", "job"]) if (question[name]) words.push(`--${name}`, question[name]);
  return [...words, ...shellWords(question.more), "--json", "--report", "plan.html"];
}

export function exportWords(question, layout) {
  const words = ["export", layout, "--model", modelOf(question), "--on", question.on];
  for (const name of ["trainer", "job"]) if (question[name]) words.push(`--${name}`, question[name]);
  const more = shellWords(question.more), at = more.indexOf("--attention");
  if (at >= 0) words.push(...more.slice(at, at + 2));
  return [...words, "--out", "run", "--json"];
}

// A link keeps the question behind its '#', which browsers send to nobody.
export function toFragment(question) {
  const given = NAMES.filter(name => question[name]).map(name => [name, name === "config" ? shortened(question[name]) : question[name]]);
  return "#" + new URLSearchParams(given);
}
export function fromFragment(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  return given.has("on") ? Object.fromEntries(NAMES.map(name => [name, given.get(name) ?? ""])) : null;
}
function shortened(config) {
  try { return JSON.stringify(JSON.parse(config)); } catch { return config; }
}
