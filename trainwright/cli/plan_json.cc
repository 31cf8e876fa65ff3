// What `plan` found, as JSON.
#include <fmt/core.h>

#include <cmath>

#include "trainwright/cli/export.h"
#include "trainwright/cli/plan.h"
#include "trainwright/cli/unspecified_text.h"

namespace trainwright::cli {
namespace {

Json sized_json(const Sized& sized) {
  Json json = Json::object();
  json.add("cluster", Json::of(sized.cluster.name))
      .add("accelerators", Json::of(accelerator_count(sized.cluster)))
      .add("layout", Json::of(to_text(sized.plan.layout)))
      .add("step", Json::of(sized.plan.time.step.value()));
  return json;
}

Json changes_json(const Layout& from, const Layout& to) {
  Json list = Json::array();
  for (const Knob knob : knobs_of(changed_knobs(from, to))) {
    list.push(Json::object()
                  .add("knob", Json::of(name_of(knob)))
                  .add("from", Json::of(value_of(knob, from)))
                  .add("to", Json::of(value_of(knob, to))));
  }
  return list;
}

Json today_json(const Plan& plan) {
  Json changes = Json::array();
  for (const PlannedLayout& of : plan.result.best) {
    changes.push(changes_json(plan.today->layout, of.layout));
  }
  Json json = Json::object();
  json.add("judged", to_json(*plan.today)).add("changes", std::move(changes));
  Json notes = Json::array();
  for (const std::string& note : plan.wanted.from_notes) notes.push(Json::of(note));
  json.add("notes", std::move(notes));
  return json;
}

Json front_json(const std::vector<FrontPoint>& front) {
  Json list = Json::array();
  for (const FrontPoint& point : front) {
    Json json = sized_json(point.sized);
    json.add("free", Json::of(point.free.value()))
        .add("oom", Json::of(point.sized.plan.memory.oom));
    list.push(std::move(json));
  }
  return list;
}

Json names_json(const auto& list) {
  Json array = Json::array();
  for (const auto& name : list) array.push(Json::of(name));
  return array;
}

void add_limits(Json& json, const Wanted& wanted) {
  std::vector<std::string_view> also;
  for (std::size_t i = 0; i < all_names(Also{}).size(); ++i) {
    if (wanted.also.has(static_cast<Also>(i))) also.push_back(all_names(Also{})[i]);
  }
  if (!also.empty()) json.add("also", names_json(also));
  if (!wanted.without_effect.empty()) {
    json.add("without_effect", names_json(wanted.without_effect));
  }
  json.add("from_recipes", names_json(taken_from_recipes(question_of(wanted))));
  json.add("not_looked_at", names_json(not_looked_at(question_of(wanted))));
  if (wanted.limits.empty()) return;
  Json limits = Json::array();
  for (const Limit& limit : wanted.limits) limits.push(Json::of(to_text(limit)));
  json.add("fixed", std::move(limits));
}

Json question_json(const Wanted& wanted) {
  Json json = Json::object();
  json.add("model", Json::of(wanted.model.name))
      .add("cluster", Json::of(wanted.cluster.name))
      .add("trainer",
           Json::of(fmt::format("{}@{}", wanted.trainer.name, to_text(wanted.trainer.version))))
      .add("job", to_json(wanted.job))
      .add("batch", Json::of(wanted.gbs))
      .add("seq", Json::of(wanted.seq))
      .add("precision", Json::of(name_of(wanted.precision)))
      .add("risk", Json::of(wanted.risk));
  if (wanted.constants.expert_load.kind != ExpertLoad::Kind::Balanced) {
    json.add("expert_load", Json::of(wanted.constants.expert_load.name));
  }
  if (wanted.times.measured) json.add("measured", to_json(*wanted.times.measured));
  if (wanted.attention) json.add("attention", Json::of(name_of(*wanted.attention)));
  add_limits(json, wanted);
  return json;
}

Json run_json(const Wanted& wanted, const StepTime& time) {
  const RunCost cost = cost_of(wanted, time);
  Json run = Json::object();
  run.add("tokens", Json::of(*wanted.tokens))
      .add("steps", Json::of(cost.steps))
      .add("days", Json::of(cost.days))
      .add("accelerator_hours", Json::of(cost.hours));
  if (wanted.price) run.add("cost", Json::of(cost.hours * *wanted.price));
  return run;
}

Json more_memory_json(const PlannedLayout& fastest) {
  Json json = Json::object();
  json.add("times", Json::of(kMoreMemory))
      .add("layout", Json::of(to_text(fastest.layout)))
      .add("step", Json::of(fastest.time.step.value()));
  return json;
}

Json riskier_json(const PlannedLayout& fastest) {
  Json json = Json::object();
  json.add("oom", Json::of(fastest.memory.oom))
      .add("layout", Json::of(to_text(fastest.layout)))
      .add("step", Json::of(fastest.time.step.value()));
  return json;
}

// A layout beside the answer.
Json beside_json(const PlannedLayout& of) {
  return Json::object()
      .add("layout", Json::of(to_text(of.layout)))
      .add("step", Json::of(of.time.step.value()))
      .add("driver", Json::of(of.memory.classes[of.memory.worst].driver.value()));
}

// Other batches and numbers of accelerators that divide better.
Json nearby_json(const std::vector<Nearby>& nearby) {
  Json list = Json::array();
  for (const Nearby& of : nearby) {
    list.push(beside_json(of.sized.plan)
                  .add("batch", Json::of(of.gbs))
                  .add("cluster", Json::of(of.sized.cluster.name))
                  .add("tokens_per_second", Json::of(tokens_per_second(of.sized.plan.time))));
  }
  return list;
}

// The recommended layout with each batch of a ramp.
Json ramp_json(const Plan& plan) {
  Json list = Json::array();
  const auto add = [&](std::size_t stage, std::int64_t gbs, const StepTime& time) {
    Json json = Json::object();
    json.add("batch", Json::of(gbs))
        .add("step", Json::of(time.step.value()))
        .add("tokens_per_second", Json::of(tokens_per_second(time)));
    if (const auto seconds = ramp_seconds(plan, stage)) {
      json.add("days", Json::of(*seconds / 86400));
    }
    list.push(std::move(json));
  };
  for (std::size_t i = 0; i < plan.ramp.size(); ++i) add(i, plan.wanted.ramp[i], plan.ramp[i]);
  add(plan.ramp.size(), plan.wanted.gbs, plan.result.best[plan.result.recommended].time);
  return list;
}

// What was not asked, and would be faster or fit.
void add_ways_out(Json& json, const Plan& plan) {
  if (plan.host) json.add("host", to_json(*plan.host));
  if (!plan.unspecified.empty())
    json.add("unspecified", unspecified_json(plan.unspecified, plan.wanted.cluster));
  if (plan.with_offload) {
    Json offload = beside_json(*plan.with_offload);
    if (plan.host_with_offload) offload.add("host", to_json(*plan.host_with_offload));
    json.add("with_offload", std::move(offload));
  }
  if (plan.with_lean_states) {
    json.add("with_lean_states", beside_json(plan.with_lean_states->plan)
                                     .add("job", Json::of(to_text(plan.with_lean_states->job))));
  }
  if (plan.with_lean_gradients) {
    json.add("with_lean_gradients", beside_json(plan.with_lean_gradients->plan));
  }
  if (plan.with_kernels) {
    Json names = Json::array();
    for (const Kernel& kernel : plan.with_kernels->kernels) {
      names.push(Json::of(name_of(kernel.kind)));
    }
    Json kernels = beside_json(plan.with_kernels->plan).add("kernels", std::move(names));
    const std::string& trainer = plan.with_kernels->trainer;
    if (!trainer.empty()) kernels.add("trainer", Json::of(trainer));
    json.add("with_kernels", std::move(kernels));
  }
  if (plan.change) json.add("change", beside_json(*plan.change));
  if (plan.adapters) {
    Json adapters = beside_json(plan.adapters->plan);
    adapters.add("job", Json::of(to_text(plan.adapters->job)));
    if (!plan.adapters->trainer.empty()) {
      adapters.add("trainer", Json::of(plan.adapters->trainer));
    }
    json.add("adapters", std::move(adapters));
  }
}

Json orders_json(const std::vector<OrderedFamily>& orders) {
  Json list = Json::array();
  for (const OrderedFamily& of : orders) {
    const PlannedLayout& plan = of.own.plan;
    Json json = Json::object();
    json.add("of", Json::of(static_cast<std::int64_t>(of.family)))
        .add("layout", Json::of(to_text(plan.layout)))
        .add("step", Json::of(plan.time.step.value()))
        .add("fixed_step", Json::of(of.own.fixed.value()))
        .add("gain", Json::of(gain(of.own)))
        .add("bound", Json::of(of.own.least.value()))
        .add("gap", Json::of(gap(of.own)))
        .add("driver", Json::of(plan.memory.classes[plan.memory.worst].driver.value()))
        .add("oom", Json::of(plan.memory.oom));
    list.push(std::move(json));
  }
  return list;
}

// Layouts that predictions do not tell apart, least worth first; amounts that are not 0.
Json choice_json(const Plan& plan) {
  Json weights = Json::object();
  for (const Preference& of : plan.preferences.list) weights.add(of.name, Json::of(of.weight));
  Json candidates = Json::array();
  for (const Weighed& of : plan.choice) {
    Json amounts = Json::object();
    for (std::size_t i = 0; i < of.amounts.size(); ++i) {
      if (of.amounts[i] != 0) amounts.add(plan.preferences.list[i].name, Json::of(of.amounts[i]));
    }
    candidates.push(Json::object()
                        .add("layout", Json::of(to_text(of.layout)))
                        .add("step", Json::of(of.step.value()))
                        .add("worth", Json::of(of.worth.value()))
                        .add("amounts", std::move(amounts)));
  }
  return Json::object()
      .add("doubt", Json::of(plan.preferences.doubt))
      .add("weights", std::move(weights))
      .add("candidates", std::move(candidates));
}

Json within_json(const Plan& plan) {
  Json json = Json::object();
  json.add("days", Json::of(*plan.wanted.within))
      .add("found", plan.fewest ? sized_json(*plan.fewest) : Json{});
  return json;
}

}  // namespace

RunCost cost_of(const Wanted& wanted, const StepTime& time) {
  RunCost cost;
  cost.steps = std::ceil(*wanted.tokens / static_cast<double>(time.tokens.value()));
  const double seconds = cost.steps * time.step.value() / wanted.goodput;
  cost.days = seconds / 86400;
  cost.hours = seconds / 3600 * static_cast<double>(time.ranks);
  return cost;
}

// The question, what was found, and the larger cluster that fits.
Json plan_json(const Plan& plan) {
  const Wanted& wanted = plan.wanted;
  const SearchResult& result = plan.result;
  Json json = question_json(wanted);
  if (wanted.tokens && !result.best.empty()) {
    json.add("run", run_json(wanted, result.best.front().time));
  }
  const Json found = to_json(result);
  for (const auto& [key, value] : found.members) json.add(key, value);
  if (!plan.choice.empty()) json.add("choice", choice_json(plan));
  if (const auto refused = not_exported(plan); !refused.empty()) {
    json.add("cannot_be_said", to_json(refused));
  }
  if (plan.tight_at) json.add("tight_at", Json::of(*plan.tight_at));
  if (plan.cut_short) json.add("cut_short", Json::of(true));
  if (plan.exportable) json.add("exportable", beside_json(*plan.exportable));
  if (plan.larger) json.add("fits_on", sized_json(*plan.larger));
  if (plan.with_more_memory) {
    json.add("with_more_memory", more_memory_json(*plan.with_more_memory));
  }
  add_ways_out(json, plan);
  if (!plan.ramp.empty()) json.add("ramp", ramp_json(plan));
  if (!plan.nearby_batches.empty()) json.add("nearby_batches", nearby_json(plan.nearby_batches));
  if (!plan.nearby_sizes.empty()) json.add("nearby_sizes", nearby_json(plan.nearby_sizes));
  if (!plan.orders.empty()) json.add("auto", orders_json(plan.orders));
  if (result.riskier) json.add("riskier", riskier_json(*result.riskier));
  if (plan.why_not) json.add("why_not", to_json(*plan.why_not));
  if (plan.why_not_fits) json.add("why_not_fits", to_json(*plan.why_not_fits));
  if (plan.today) json.add("today", today_json(plan));
  if (wanted.within) json.add("within", within_json(plan));
  if (wanted.pareto) json.add("pareto", front_json(plan.front));
  return json;
}

}  // namespace trainwright::cli
