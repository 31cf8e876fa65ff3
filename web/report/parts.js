// The parts of a page about a plan, in order, with their names: [["Summary", section], ...].
import {answer} from "./answer.js";
import {choice} from "./chosen.js";
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
  const found = plan.best.length > 0, layouts = found ? plan.best : plan.smallest ? [plan.smallest] : [];
  const chosen = choice(found ? plan.recommended : 0);
  const list = [["Summary", found ? answer(plan) : nothing(plan)]];
  if (plan.details.today) list.push(["Today", today(plan)]);
  if (found) list.push(["Alternatives", others(plan, chosen)]);
  if (layouts.length) list.push(["Memory", memory(plan, layouts, chosen)]);
  if (found) list.push(["Time", time(plan, layouts, chosen)], ["Timeline", timeline(plan)], ["Pareto", front(plan)], ["Scaling", scaling(plan)]);
  if (layouts.length) list.push(["Search", search(plan)], ["Accuracy", sure(plan)]);
  return list.filter(([, node]) => node);
}
