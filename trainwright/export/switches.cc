// From a plan to settings: what is switched on and off, offloading, loss, connections.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/export/say.h"

namespace trainwright::detail {
const std::string* switch_offer(const Trainer& trainer, Switch what) {
  const auto setting = [](const auto* offer) {
    return offer == nullptr || offer->setting.empty() ? nullptr : &offer->setting;
  };
  if (const auto kind = overlap_of(what)) return setting(find_kind(trainer.overlaps, *kind));
  if (what != Switch::GroupedGemm) return nullptr;
  return setting(find_kernel(trainer, KernelKind::GroupedGemm));
}

std::string switch_key(Switch what) {
  std::string key(name_of(what));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

namespace {

// Whether any stage recomputes the whole expert layer.
bool has_moe_again(const Layout& layout) {
  const auto runs = [](const Recompute& of) { return modules_of(of).has(RecomputeModule::Moe); };
  return runs(layout.recompute) ||
         std::any_of(layout.recompute_by_stage.begin(), layout.recompute_by_stage.end(), runs);
}

// Silence leaves a switch as it is; only a change of it is said.
void say_switch(Speech& speech, Switch what) {
  const Layout& layout = speech.plan.layout;
  const bool on = layout.on.has(what);
  if (const std::string unasked = switch_key(what) + ".unasked";
      !on && has_setting(speech, unasked)) {
    return say(speech, {.key = unasked, .value = std::string(name_of(what))});
  }
  if (!on && !layout.off.has(what)) return;
  Layout silent = layout;
  silent.on = {};
  silent.off = {};
  const bool usually = asks(silent, what, speech.plan.trainer);
  if (on == usually) return;
  const std::string key = switch_key(what);
  if (!on) {
    return say(speech, {.key = key + ".off", .value = std::string(name_of(what)), .unsay = {}});
  }
  // A key of its own goes before the offer's, and one for experts before both; but where the whole
  // expert layer is recomputed, graphs of parts hold nothing of it.
  const bool own = has_setting(speech, key);
  const bool outside = what == Switch::PartGraphs && has_moe_again(layout);
  const bool experts =
      !outside && has_experts(speech.plan.model) && has_setting(speech, key + ".experts");
  const std::string precision(name_of(layout.precision));
  const bool by_precision = has_setting(speech, key + '.' + precision);
  say(speech, {.key = key,
               .value = experts        ? "experts"
                        : by_precision ? precision
                                       : "on",
               .offer = own ? nullptr : switch_offer(speech.plan.trainer, what)});
}

void say_offloading(Speech& speech) {
  const Plan& plan = speech.plan;
  for (const Offload what : all_of<Offload>()) {
    if (!plan.layout.offload.has(what)) continue;
    const auto* offer = find_kind(plan.trainer.offloads, what);
    say(speech, {.key = "offload",
                 .value = std::string(name_of(what)),
                 .offer = offer == nullptr ? nullptr : &offer->setting,
                 .why = "held in host memory",
                 .unsay = [what](Layout& near) {
                   near.offload.bits &= ~(1U << static_cast<unsigned>(what));
                 }});
  }
}

void say_loss(Speech& speech) {
  const Plan& plan = speech.plan;
  if (plan.layout.loss.empty()) return;
  Layout silent = plan.layout;
  silent.loss.clear();
  const std::size_t asked = running_loss(plan.layout, plan.trainer);
  const auto& losses = plan.trainer.losses;
  say(speech, {.key = "loss",
               .value = plan.layout.loss,
               .offer = asked < losses.size() ? &losses[asked].setting : nullptr,
               .needed = running_loss(silent, plan.trainer) != asked,
               .why = asked < losses.size() && losses[asked].chunks == 1
                          ? "logits are made whole, not in chunks"
                          : "",
               .unsay = [](Layout& near) { near.loss.clear(); }});
}

// Megatron wants one connection where kernels of several streams must start in order, and more of
// them with FSDP.
void say_connections(Speech& speech) {
  const Layout& layout = speech.plan.layout;
  auto connections = layout.max_connections;
  const bool ordered = layout.tp > 1 || layout.cp > 1;
  const bool fsdp = layout.sharding != ShardingKind::Ddp && layout.sharding != ShardingKind::Zero;
  if (!connections && ordered && !fsdp && has_setting(speech, "max_connections")) connections = 1;
  if (!connections) return;
  const std::string number = std::to_string(*connections);
  say(speech, {.key = "max_connections",
               .value = number,
               .filling = {.number = number, .usual = number},
               .why = *connections == 1 ? "collectives start before the products they overlap" : "",
               .unsay = [](Layout& near) { near.max_connections.reset(); }});
}

}  // namespace

void say_switches(Speech& speech) {
  for (const Switch what : all_of<Switch>()) say_switch(speech, what);
  say_offloading(speech);
  say_loss(speech);
  say_connections(speech);
}

}  // namespace trainwright::detail
