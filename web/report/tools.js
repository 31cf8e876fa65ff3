// Small things that every picture needs. Numbers come from the core; here they get their unit and their place.
import {select} from "d3-selection";

export const gib = bytes => bytes >= 2 ** 40 ? `${(bytes / 2 ** 40).toFixed(2)} TiB` : `${(bytes / 2 ** 30).toFixed(1)} GiB`;
export const seconds = s => s === 0 ? "0 s" : s >= 100 ? `${Math.round(s)} s` : s >= 1 ? `${s.toPrecision(3)} s` : s >= 1e-3 ? `${(s * 1e3).toPrecision(3)} ms` : `${(s * 1e6).toPrecision(3)} µs`;
// Numbers of one column or axis: the same unit and decimals, so many digits of the smallest.
export function alike(values, units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]], digits = 4) {
  const least = Math.min(...values.filter(one => one > 0)), [size, unit] = units.find(([one]) => least >= one) || units[units.length - 1];
  const decimals = Math.min(4, Math.max(0, digits - 1 - Math.floor(Math.log10(least / size))));
  return value => `${(value / size).toLocaleString("en-US", {minimumFractionDigits: decimals, maximumFractionDigits: decimals})} ${unit}`;
}
export function signed(share) {
  const shown = Math.abs(100 * share).toFixed(1);
  return `${shown === "0.0" ? "" : share < 0 ? "−" : "+"}${shown} %`;
}
export const percent = share => `${(100 * share).toFixed(1)} %`;
export const whole = n => Math.round(n).toLocaleString("en-US");

// el("p.soft", "text", child, ...): an element with classes and content.
export function el(what, ...content) {
  const [tag, ...classes] = what.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  for (const one of content) if (one !== null && one !== undefined) node.append(...(typeof one === "string" ? kept(one) : [one]));
  return node;
}

// A number stays on the line of its unit, an option is not broken behind its hyphens, `words` are code.
function kept(text) {
  const words = text.replace(/(\d) (%|s|ms|µs|GiB|TiB|MiB)\b/g, "$1\u00a0$2").replace(/(\d) %/g, "$1\u00a0%").split(/(`[^`]+`|--[a-z-]+)/);
  return words.map((word, i) => {
    if (i % 2 === 0) return word;
    const node = document.createElement(word.startsWith("`") ? "code" : "span");
    node.className = "option";
    node.textContent = word.replaceAll("`", "");
    return node;
  });
}

export function section(id, title, ...content) {
  const node = el("section", el("h2", title), ...content);
  for (const holder of node.querySelectorAll(":scope > .picture")) holder.after(saveButton(holder, holder.dataset.name));
  node.id = id;
  return node;
}

// Redrawn whenever its width changes: draw(svg, width) sets the height by returning it.
export function picture(name, draw) {
  const holder = el("div.picture");
  holder.dataset.name = name;
  let last = 0;
  const redraw = () => {
    const width = Math.floor(holder.clientWidth);
    if (!width) return;
    last = width;
    holder.replaceChildren();
    const svg = select(holder).append("svg").attr("role", "img").attr("aria-label", name);
    const height = draw(svg, width);
    svg.attr("viewBox", `0 0 ${width} ${height}`);
  };
  new ResizeObserver(() => { if (Math.floor(holder.clientWidth) !== last) redraw(); }).observe(holder);
  holder.redraw = redraw;
  return holder;
}

// The picture with the colours it has here, as a file of its own.
const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "paint-order", "font", "text-anchor"];
function savePicture(holder, name) {
  const svg = holder.querySelector("svg"), copy = svg.cloneNode(true);
  const from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((node, i) => {
    const looks = getComputedStyle(node);
    to[i].setAttribute("style", LOOKS.map(one => `${one}:${looks.getPropertyValue(one)}`).join(";"));
    to[i].removeAttribute("class");
  });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.style.background = getComputedStyle(document.body).backgroundColor;
  saveFile(`${name.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.svg`, new XMLSerializer().serializeToString(copy), "image/svg+xml");
}
export function saveFile(name, text, type) {
  const link = el("a");
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
export function saveButton(holder, name) {
  const button = el("button.save", "Save as SVG");
  button.setAttribute("aria-label", `Save as SVG: ${name}`);
  button.addEventListener("click", () => savePicture(holder, name));
  return button;
}

const tip = document.getElementById("tip");
export function showTip(event, title, ...lines) {
  tip.replaceChildren(el("b", title), ...lines.filter(Boolean).map(line => el("div", line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const y = event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18;
  tip.style.left = `${Math.max(8, x)}px`;
  tip.style.top = `${Math.max(8, y)}px`;
}
export const hideTip = () => { tip.hidden = true; };
addEventListener("scroll", hideTip, {passive: true});
addEventListener("keydown", event => { if (event.key === "Escape") hideTip(); });

// A shape that says something when it is pointed at: says() gives a title and lines.
export function tells(node, says) {
  const show = event => showTip(event, ...says());
  node.addEventListener("pointermove", show);
  node.addEventListener("pointerdown", show);
  node.addEventListener("pointerleave", hideTip);
}

// names: [[class, name, "dot", "line" or nothing for an area], ...]
export function legend(names) {
  const list = el("ul.legend");
  for (const [kind, name, shape] of names) {
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    mark.setAttribute("width", 12);
    mark.setAttribute("height", 12);
    mark.setAttribute("aria-hidden", "true");
    const drawn = select(mark);
    if (shape === "dot") drawn.append("circle").attr("cx", 6).attr("cy", 6).attr("r", 4.5).attr("class", kind);
    else if (shape === "line") drawn.append("line").attr("x2", 12).attr("y1", 6).attr("y2", 6).attr("class", kind);
    else drawn.append("rect").attr("width", 12).attr("height", 12).attr("rx", 2).attr("class", kind);
    list.append(el("li", mark, name));
  }
  return list;
}

export function copyButton(name, label, text) {
  const button = el("button.save", name);
  button.setAttribute("aria-label", label);
  const done = () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = name; }, 1500); };
  const byHand = () => {
    const area = el("textarea");
    area.value = text();
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    done();
  };
  // Pages opened from disk may not write the clipboard the new way.
  button.addEventListener("click", () => { if (navigator.clipboard) navigator.clipboard.writeText(text()).then(done, byHand); else byHand(); });
  return button;
}

const quoted = text => /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
const SIZES = {"µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40};
// "1,234.5 GiB" as a number to sort by; text as it is.
function rank(text) {
  const found = text.replace(/\u00a0/g, " ").replace(/[,<~]/g, "").replace("−", "-").match(/^\+?(-?[\d.]+)(?: ?([A-Za-zµ]+))?/);
  return found ? Number(found[1]) * (SIZES[found[2]] || 1) : text;
}

// A table whose columns sort at a press of their name, and that is copied as CSV.
export function sheet(name, columns, rows, chosen = -1) {
  const node = table(columns, rows, chosen), body = node.tBodies[0], lines = [...body.rows];
  const csv = () => [columns.map(([title]) => title), ...[...body.rows].map(line => [...line.cells].map(cell => cell.textContent.replace(/\u00a0/g, " ")))]
    .map(cells => cells.map(quoted).join(",")).join("\n") + "\n";
  [...node.tHead.rows[0].cells].forEach((head, i) => {
    const button = el("button.sort", columns[i][0]);
    if (columns[i][0]) head.replaceChildren(button);
    button.addEventListener("click", () => {
      const falls = head.getAttribute("aria-sort") === "ascending";
      for (const other of node.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const key = line => rank(line.cells[i].textContent);
      const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
      body.append(...lines.slice().sort((a, b) => (falls ? -1 : 1) * order(key(a), key(b))));
    });
  });
  return el("div.sheet", copyButton("Copy as CSV", `Copy as CSV: ${name}`, csv), node);
}

// columns: [[name, "n" for numbers, "mono" or ""], ...]; on a narrow screen each row is a block.
export function table(columns, rows, chosen = -1) {
  const head = el("tr");
  for (const [name, kind] of columns) head.append(el(kind === "n" ? "th.n" : "th", name));
  const body = el("tbody");
  rows.forEach((row, place) => {
    const line = el(place === chosen ? "tr.chosen" : "tr");
    row.forEach((cell, i) => {
      const td = el(`td${columns[i][1] ? "." + columns[i][1] : ""}${cell === "" ? ".empty" : ""}`, cell);
      td.dataset.name = columns[i][0];
      line.append(td);
    });
    body.append(line);
  });
  return el("table.rows", el("thead", head), body);
}

export function folded(title, content) {
  return el("details", el("summary", title), el("div.scroll", content));
}

// A choice among names; chosen(index) is called when it changes.
export function chooser(label, names, at, chosen) {
  const list = el("select");
  names.forEach((name, i) => {
    const option = el("option", name);
    option.value = i;
    list.append(option);
  });
  list.value = at;
  list.addEventListener("change", () => chosen(Number(list.value)));
  return el("label", label, list);
}

// A stacked bar: pieces [[class, from, length, name, lines for the tip], ...]; the name is written on pieces that hold it.
const LETTER = 6.3;  // pixels of a letter on a bar, on average
export function stack(svg, x, y, height, pieces, named = true) {
  for (const [kind, from, length, name, ...lines] of pieces) {
    const left = x(from), wide = Math.max(0.5, x(from + length) - left);
    const rect = svg.append("rect").attr("class", `seg ${kind}`).attr("x", left).attr("y", y).attr("width", wide).attr("height", height);
    tells(rect.node(), () => lines);
    const label = named && height > 13 ? [].concat(name).find(text => text && text.length * LETTER + 8 < wide) : "";
    if (label) svg.append("text").attr("class", "inside").attr("text-anchor", "middle").attr("pointer-events", "none").attr("x", left + wide / 2).attr("y", y + height / 2 + 4).text(label);
  }
}

// Where a number behind a bar begins: behind a line that would cross it, too.
export const LABEL = 60;  // pixels of "123.4 GiB" and what is before it
export const behind = (end, line) => (end < line && end + LABEL > line ? line : end) + 5;

// Fewer ticks than asked for where their labels would touch.
function apart(scale, text, ticks) {
  const list = scale.ticks(ticks), widest = 7 * Math.max(...list.map(tick => text(tick).length)) + 6;
  return ticks > 2 && list.length > 1 && scale(list[1]) - scale(list[0]) < widest ? apart(scale, text, ticks - 1) : list;
}

// `edge`: the first label may not stand left of the axis.
export function axis(svg, scale, y, height, text, ticks, edge = false) {
  for (const tick of apart(scale, text, ticks)) {
    svg.append("line").attr("class", "axis").attr("x1", scale(tick)).attr("x2", scale(tick)).attr("y1", y).attr("y2", y + height);
    svg.append("text").attr("x", scale(tick)).attr("y", y + height + 15).attr("text-anchor", edge && tick === 0 ? "start" : "middle").text(text(tick));
  }
}
