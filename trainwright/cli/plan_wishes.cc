// What a page shows of --from, --pareto and --why-not.
#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan_details.h"

namespace trainwright::cli {
namespace {

Json texts_json(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push(Json::of(text));
  return list;
}

}  // namespace

Json today_details(const Plan& plan) {
  std::vector<std::string> changes;
  for (const PlannedLayout& of : plan.result.best) {
    if (changes.size() == kMostDetailed) break;
    changes.push_back(changes_text(plan.today->layout, of.layout));
  }
  Json json = Json::object();
  json.add("says", Json::of(today_text(plan)))
      .add("short", Json::of(short_text(plan.today->layout, plan.wanted)))
      .add("notes", texts_json(plan.wanted.from_notes))
      .add("changes", texts_json(changes));
  if (plan.today->memory) {
    json.add("oom", Json::of(chance_text(plan.today->memory->oom)))
        .add("fit", Json::of(name_of(fit_of(plan.today->memory->oom, plan.wanted.risk))));
  }
  return json;
}

Json pareto_details(const Plan& plan) {
  Json list = Json::array();
  for (const FrontPoint& point : plan.front) {
    const PlannedLayout& of = point.sized.plan;
    Json json = Json::object();
    json.add("cluster", Json::of(point.sized.cluster.name))
        .add("accelerators", Json::of(accelerator_count(point.sized.cluster)))
        .add("short", Json::of(short_text(of.layout, plan.wanted)))
        .add("step", Json::of(of.time.step.value()))
        .add("tokens_per_second_per_rank", Json::of(tokens_per_second_per_rank(of.time)))
        .add("free", Json::of(point.free.value()))
        .add("oom", Json::of(chance_text(of.memory.oom)));
    list.push(std::move(json));
  }
  return list;
}

Json why_not_details(const Plan& plan) {
  const Judged& other = *plan.why_not;
  Json json = Json::object();
  json.add("short", Json::of(short_text(other.layout, plan.wanted)));
  if (!other.refused.empty()) {
    Json reasons = Json::array();
    for (const LayoutViolation& one : other.refused) {
      reasons.push(
          Json::object().add("reason", Json::of(one.reason)).add("hint", Json::of(one.hint)));
    }
    return json.add("refused", std::move(reasons));
  }
  const PlannedLayout& first = plan.result.best.front();
  const Compared found =
      compared({first.layout, {}, first.time, first.memory}, other, plan.wanted.risk);
  Json rows = Json::array();
  for (const std::vector<std::string>& row : found.rows) rows.push(texts_json(row));
  const std::string fits = why_not_fits_text(plan);
  return json.add("rows", std::move(rows))
      .add("verdict", Json::of(found.verdict + (fits.empty() ? "" : " " + fits)));
}

}  // namespace trainwright::cli
