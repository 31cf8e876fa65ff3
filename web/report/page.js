// Reads the data that the program wrote into the page, and lays out its parts.
import {parts} from "./parts.js";
import {el} from "./tools.js";
import {tuning} from "./tuning.js";

const plan = JSON.parse(document.getElementById("data").textContent);
const {details} = plan;
document.title = details.title;
const main = document.querySelector("main"), nav = document.querySelector("nav");
for (const [name, node] of plan.trials ? tuning(plan) : parts(plan)) {
  main.append(node);
  const link = el("a", name);
  link.href = `#${node.id}`;
  nav.append(link);
}
const made = plan.made_by ? ` ${plan.made_by.version} with data ${plan.made_by.data}` : "";
document.querySelector("footer").append(el("p.small.soft", `Made by Trainwright${made}. This file needs no network and sends nothing.`));
