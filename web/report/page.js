// Reads the data that the program wrote into the page, and lays out its parts.
import {answer} from "./answer.js";
import {memory} from "./memory.js";
import {nothing} from "./nothing.js";
import {others} from "./others.js";
import {scaling} from "./scaling.js";
import {search} from "./search.js";
import {sure} from "./sure.js";
import {time} from "./time.js";
import {timeline} from "./timeline.js";
import {el} from "./tools.js";

const plan = JSON.parse(document.getElementById("data").textContent);
const {details} = plan;
document.title = details.title;
const main = document.querySelector("main"), nav = document.querySelector("nav");

const layouts = plan.best.length ? plan.best : plan.smallest ? [plan.smallest] : [];
const parts = [["Answer", plan.best.length ? answer(plan) : nothing(plan)]];
if (layouts.length) {
  parts.push(["Memory", memory(plan, layouts, plan.best.length ? plan.recommended : 0)]);
  if (plan.best.length) parts.push(["Time", time(plan, layouts, plan.recommended)], ["Timeline", timeline(plan)], ["Others", others(plan)], ["Scaling", scaling(plan)]);
  parts.push(["Search", search(plan)], ["How sure", sure(plan)]);
}
for (const [name, node] of parts) {
  if (!node) continue;
  main.append(node);
  const link = el("a", name);
  link.href = `#${node.id}`;
  nav.append(link);
}
document.querySelector("footer").append(el("p.small.soft", `Made by Trainwright ${details.version} from its own numbers. This file needs no network and sends nothing.`));
