// Files that start a run: to look at, and to save one by one or all together.
import {el, saveFile, section} from "../report/tools.js";

// An archive as POSIX ustar has it.
export function tar(files) {
  const encode = text => new TextEncoder().encode(text), parts = [];
  for (const {path, content} of files) {
    const bytes = encode(content), head = new Uint8Array(512);
    const put = (at, text) => head.set(encode(text), at);
    put(0, path);
    put(100, path.endsWith(".sh") ? "0000755\0" : "0000644\0");
    put(108, "0000000\0" + "0000000\0" + bytes.length.toString(8).padStart(11, "0") + "\0" + "00000000000\0" + "        " + "0");
    put(257, "ustar\0" + "00");
    put(148, head.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0") + "\0 ");
    parts.push(head, bytes, new Uint8Array(-bytes.length & 511));
  }
  return new Blob([...parts, new Uint8Array(1024)], {type: "application/x-tar"});
}

function saver(name, content, text = "Save") {
  const button = el("button", text);
  button.setAttribute("aria-label", `Save ${name}`);
  button.addEventListener("click", () => saveFile(name, content, "text/plain"));
  return button;
}

// To the letter: el() keeps numbers and units together.
function plain(text) {
  const node = el("pre");
  node.textContent = text;
  node.tabIndex = 0;
  return node;
}

export function filesSection(files, told) {
  const node = section("files", "Files that start it", told);
  if (!files.length) return node;
  const all = el("button", "Save all (run.tar)");
  all.addEventListener("click", () => saveFile("run.tar", tar(files), "application/x-tar"));
  const list = el("ul.files");
  for (const {path, content} of files) {
    const name = path.split("/").pop();
    const details = el("details", el("summary", name));
    list.append(el("li", saver(name, content), details));
    details.addEventListener("toggle", () => { if (details.open && !details.querySelector("pre")) details.append(plain(content)); });
  }
  node.append(el("div.controls", all), list);
  return node;
}
