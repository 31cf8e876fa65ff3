#include "trainwright/search/search.h"

namespace trainwright {
namespace {

Json to_json(const PlannedLayout& plan) {
  Json alike = Json::array();
  for (const PlannedLayout& one : plan.alike) {
    alike.push(Json::object()
                   .add("layout", Json::of(to_text(one.layout)))
                   .add("step", Json::of(one.time.step.value())));
  }
  Json json = Json::object();
  json.add("layout", Json::of(to_text(plan.layout)))
      .add("time", trainwright::to_json(plan.time))
      .add("alike", std::move(alike))
      .add("memory", trainwright::to_json(plan.memory));
  return json;
}

Json to_json(const Refusal& refusal) {
  Json json = Json::object();
  json.add("id", Json::of(refusal.violation.id))
      .add("reason", Json::of(refusal.violation.reason))
      .add("hint", Json::of(refusal.violation.hint))
      .add("source", Json::of(refusal.violation.source))
      .add("layouts", Json::of(refusal.layouts))
      .add("refused", Json::of(refusal.refused));
  return json;
}

}  // namespace

Json to_json(const SearchResult& result) {
  Json best = Json::array();
  for (const PlannedLayout& plan : result.best) best.push(to_json(plan));
  Json json = Json::object();
  json.add("end", Json::of(name_of(result.end)))
      .add("best", std::move(best))
      .add("recommended", Json::of(static_cast<std::int64_t>(result.recommended)));
  Json search = Json::object();
  search.add("space", Json::of(result.space))
      .add("considered", Json::of(result.proven ? result.space : result.evaluated))
      .add("bounded", Json::of(result.bounded))
      .add("cut", Json::of(result.cut))
      .add("evaluated", Json::of(result.evaluated))
      .add("timed", Json::of(result.timed))
      .add("simulated", Json::of(result.simulated))
      .add("tight", Json::of(result.tight))
      .add("too_large", Json::of(result.too_large))
      .add("refused", Json::of(result.refused))
      .add("proven", Json::of(result.proven))
      .add("ranked", Json::of(static_cast<std::int64_t>(result.ranked)));
  if (!result.best.empty()) search.add("bound", Json::of(result.bound.value()));
  search.add("stopped", result.proven ? Json{} : Json::of(name_of(result.stopped)));
  json.add("search", std::move(search));
  if (result.smallest) json.add("smallest", to_json(*result.smallest));
  if (result.refusal) json.add("refusal", to_json(*result.refusal));
  return json;
}

}  // namespace trainwright
