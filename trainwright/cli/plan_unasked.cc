// Sentences about what was not asked: more memory, a higher risk, offloading, leaner states, other
// losses, adapters.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan.h"
#include "trainwright/cli/time_text.h"

namespace trainwright::cli {
namespace {

// "24.1 GiB, 5.1 s a step"
std::string size_text(const PlannedLayout& of) {
  return fmt::format("{}, {} a step", to_text(of.memory.classes[of.memory.worst].driver),
                     seconds_text(of.time.step));
}

}  // namespace

std::string assumed_text(const Wanted& wanted) {
  Layout layout;
  layout.sharding = ShardingKind::Zero;
  layout.zero = 1;
  layout.precision = wanted.precision;
  if (wanted.from) layout.gradients = wanted.from->gradients;
  for (const Limit& limit : wanted.limits) {
    if (limit.key == "gradients") layout.gradients = *named<GradientDtype>(limit.kind);
  }
  const std::vector<std::string> recipes = taken_from_recipes(question_of(wanted));
  if (std::find(recipes.begin(), recipes.end(), "bf16-gradients") != recipes.end()) {
    layout.gradients = GradientDtype::Bf16;
  }
  return assumed_text(wanted.trainer, layout, wanted.job, wanted.attention) +
         (wanted.words.tuned.empty() ? "; an ordinary run (--tuned: a vendor's own recipe)"
                                     : "; a vendor's own recipe, tuned for its machine");
}

// What more memory would be worth.
std::string limit_text(const Plan& plan) {
  const PlannedLayout &first = plan.result.best.front(), &other = *plan.with_more_memory;
  if (other.time.step >= first.time.step) {
    return "Memory does not limit the choice: no layout is faster with twice as much.";
  }
  constexpr double kHardly = 0.01;
  const double gain = 1 - other.time.step / first.time.step;
  return fmt::format("Memory {} the choice: with twice as much, {} would take {}, {} less.",
                     gain < kHardly ? "hardly limits" : "limits",
                     short_text(other.layout, plan.wanted), seconds_text(other.time.step),
                     percent(gain));
}

// What was not searched, since layouts fit without.
std::string offload_text(const Plan& plan) {
  const PlannedLayout &first = plan.result.best.front(), &other = *plan.with_offload;
  std::string text =
      fmt::format("Not searched, since layouts fit without: offloading. {} would take {}, {} less",
                  short_text(other.layout, plan.wanted), seconds_text(other.time.step),
                  percent(1 - other.time.step / first.time.step));
  if (plan.host_with_offload)
    text += fmt::format("; host memory: {}", to_text(*plan.host_with_offload));
  return text + fmt::format(". --fix offload={} lists such layouts.",
                            value_of(Knob::Offload, other.layout));
}

// That train with other numbers, so that nobody gets them unasked.
std::string lean_states_text(const Plan& plan) {
  const LeanStates& lean = *plan.with_lean_states;
  const std::string layout = short_text(lean.plan.layout, plan.wanted);
  const std::string job = job_text(lean.job);
  if (plan.result.best.empty() || plan.tight_at) {
    return fmt::format("Optimizer states in fewer bits would fit: --job {}: {} ({}).", job, layout,
                       size_text(lean.plan));
  }
  return fmt::format(
      "Not searched, since it changes numerics: optimizer states in fewer bits. --job {}: "
      "{} would take {}, {} less.",
      job, layout, seconds_text(lean.plan.time.step),
      percent(1 - lean.plan.time.step / plan.result.best.front().time.step));
}

std::string lean_gradients_text(const Plan& plan) {
  const LeanGradients& lean = *plan.with_lean_gradients;
  const std::string layout = short_text(lean.plan.layout, plan.wanted);
  const std::string limit = to_text(lean.limit);
  if (plan.result.best.empty() || plan.tight_at) {
    return fmt::format("Gradients in bf16 would fit: --fix {}: {} ({}).", limit, layout,
                       size_text(lean.plan));
  }
  return fmt::format(
      "Not searched, since it changes numerics: gradients in bf16. --fix {}: {} would "
      "take {}, {} less.",
      limit, layout, seconds_text(lean.plan.time.step),
      percent(1 - lean.plan.time.step / plan.result.best.front().time.step));
}

std::string change_text(const Plan& plan) {
  const Layout &from = *nearly_fits(plan), &to = plan.change->layout;
  const std::string what =
      change_to(to_text(from), to, layout_context(plan.wanted.cluster, plan.wanted.trainer));
  std::string text =
      fmt::format("Not searched, but fits: the same with {} ({}).", what, size_text(*plan.change));
  if (what.starts_with("loss=") && what.find(',') == std::string::npos)
    text += fmt::format(" --fix {} searches such layouts.", what);
  return text;
}

std::string adapters_text(const Plan& plan) {
  const Adapters& of = *plan.adapters;
  return fmt::format("Adapters {}would fit: --job {}{}: {} ({}).",
                     of.job.lora->base == FrozenBase::AsWeights ? "" : "over weights in four bits ",
                     job_text(of.job), of.trainer.empty() ? "" : " --trainer " + of.trainer,
                     short_text(of.plan.layout, plan.wanted), size_text(of.plan));
}

std::string riskier_text(const Plan& plan) {
  const PlannedLayout& other = *plan.result.riskier;
  std::string text = fmt::format(
      "At a higher risk, an OOM probability of {}, {} would take {}", chance_text(other.memory.oom),
      short_text(other.layout, plan.wanted), seconds_text(other.time.step));
  if (plan.result.best.empty()) return text + ".";
  const Seconds first = plan.result.best.front().time.step;
  return text + fmt::format(", {} less.", percent(1 - other.time.step / first));
}

}  // namespace trainwright::cli
