// The playground's core in node, for tools/check/playground_check.py: a line {"words", "folder"} in, a line with its reply out.
//   node --no-experimental-fetch tools/check/playground_node.js build/playground
// Files of `folder` are put where the question is asked.
const fs = require("fs"), path = require("path"), readline = require("readline");

async function main() {
  const made = path.resolve(process.argv[2]);
  const core = await require(path.join(made, "trainwright.js"))();
  const put = (name, content) => {
    core.FS.mkdirTree(path.posix.dirname(name));
    core.FS.writeFile(name, content);
  };
  for (const [name, text] of Object.entries(JSON.parse(fs.readFileSync(path.join(made, "data.json"))))) put(name, text);
  for await (const line of readline.createInterface({input: process.stdin})) {
    const {words, folder} = JSON.parse(line);
    const place = folder ? `/asked/${path.basename(folder)}` : "/asked";
    core.FS.mkdirTree(place);
    for (const name of folder ? fs.readdirSync(folder) : []) put(`${place}/${name}`, fs.readFileSync(path.join(folder, name)));
    core.FS.chdir(place);
    const start = process.hrtime.bigint();
    const reply = JSON.parse(core.ccall("trainwright_run", "string", ["string"], [JSON.stringify(words)]));
    reply.seconds = Number(process.hrtime.bigint() - start) / 1e9;
    process.stdout.write(JSON.stringify(reply) + "\n");
  }
}
main();
