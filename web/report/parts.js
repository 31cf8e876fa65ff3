// The parts of a page about a plan, in order, with their names: [["Answer", section], ...].
import {answer} from "./answer.js";
import {front} from "./front.js";
import {memory} from "./memory.js";
import {nothing} from "./nothing.js";
import {others} from "./others.js";
import {scaling} from "./scaling.js";
import {search} from "./search.js";
import {sure} from "./sure.js";
import {time} from "./time.js";
import {timeline} from "./timeline.js";
import {today} from "./today.js";

export function parts(plan) {
  const layouts = plan.best.length ? plan.best : plan.smallest ? [plan.smallest] : [];
  const list = [["Answer", plan.best.length ? answer(plan) : nothing(plan)]];
  if (plan.details.today) list.push(["Today", today(plan)]);
  if (layouts.length) {
    list.push(["Memory", memory(plan, layouts, plan.best.length ? plan.recommended : 0)]);
    if (plan.best.length) list.push(["Time", time(plan, layouts, plan.recommended)], ["Timeline", timeline(plan)], ["Others", others(plan)], ["Front", front(plan)], ["Scaling", scaling(plan)]);
    list.push(["Search", search(plan)], ["How sure", sure(plan)]);
  }
  return list.filter(([, node]) => node);
}
