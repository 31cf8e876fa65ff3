// The planner, away from the page so that the page stays alive: {id, words, config} in, {id, reply, seconds} out.
importScripts("trainwright.js");

async function load() {
  const [core, data] = await Promise.all([trainwright({progress: line => postMessage({progress: line})}), fetch("data.json").then(one => one.json())]);
  for (const [path, text] of Object.entries(data)) {
    core.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    core.FS.writeFile(path, text);
  }
  return core;
}

const planner = load();
onmessage = async ({data: {id, words, config}}) => {
  const core = await planner;
  if (config !== undefined) core.FS.writeFile("config.json", config);
  const start = performance.now();
  const reply = JSON.parse(core.ccall("trainwright_run", "string", ["string"], [JSON.stringify(words)]));
  postMessage({id, reply, seconds: (performance.now() - start) / 1000});
};
