// Fused kernels that a trainer has and runs only if asked: what all of them would be worth.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan.h"
#include "trainwright/cli/time_text.h"

namespace trainwright::cli {
namespace {

constexpr double kWorthTelling = 0.01;  // of a step

// Those that change how a layer is run and not what it computes.
bool is_of_layers(KernelKind kind) {
  switch (kind) {
    case KernelKind::FlashAttention:
    case KernelKind::FusedRope:
    case KernelKind::FusedNorm:
    case KernelKind::FusedGatedActivation:
    case KernelKind::FusedBiasActivation:
    case KernelKind::FusedBiasDropout:
    case KernelKind::FusedGradientAccumulation: return true;
    case KernelKind::FusedSoftmax:
    case KernelKind::GroupedGemm:
    case KernelKind::FusedRouter:
    case KernelKind::FusedPermute:
    case KernelKind::FusedProductGradient: break;
  }
  return false;
}

bool is_left_out(const Kernel& kernel, const Wanted& wanted) {
  const bool settled = kernel.kind == KernelKind::FlashAttention && wanted.attention.has_value();
  return kernel.use == Use::OptIn && is_of_layers(kernel.kind) && !settled;
}

// What --trainer takes to run them; empty where the user's own file describes the trainer.
std::string trainer_with(const Wanted& wanted, const std::vector<Kernel>& kernels) {
  const std::string& words = wanted.words.trainer;
  if (words.find('{') != std::string::npos || words.ends_with(".json")) return {};
  std::vector<std::string> on;
  for (const Kernel& kernel : kernels)
    on.push_back(fmt::format("\"{}\": true", name_of(kernel.kind)));
  return fmt::format(R"({{"based_on": "{}@{}", "kernels": {{{}}}}})", wanted.trainer.name,
                     to_text(wanted.trainer.version), join(on, ", "));
}

}  // namespace

Result<std::optional<OptInKernels>> opt_in_kernels(const Plan& plan, const SearchQuestion& asked) {
  const Wanted& wanted = plan.wanted;
  std::vector<Kernel> kernels;
  Wanted other = wanted;
  for (Kernel& kernel : other.trainer.kernels) {
    if (!is_left_out(kernel, wanted)) continue;
    kernel.use = Use::ByDefault;
    kernels.push_back(kernel);
  }
  if (kernels.empty() || wanted.from) return std::nullopt;
  other.attention =
      TW_TRY(attention_on(other.cluster, other.trainer, other.model, wanted.attention));
  SearchQuestion question = question_of(other);
  question.most = 1;
  question.find_smallest = false;
  question.offload = asked.offload;
  question.stop = asked.stop;
  SearchResult result = TW_TRY(search(question));
  if (result.best.empty()) return std::nullopt;
  PlannedLayout& found = result.best.front();
  const bool fits = !plan.result.best.empty() && !plan.tight_at;
  if (fits && found.time.step > plan.result.best.front().time.step * (1 - kWorthTelling)) {
    return std::nullopt;
  }
  std::string trainer = trainer_with(wanted, kernels);
  return OptInKernels{std::move(kernels), std::move(trainer), std::move(found)};
}

namespace {

// "fused-norm and fused-rope (use_liger_kernel=true)": by setting, in their order.
std::string settings_text(const std::vector<Kernel>& kernels) {
  std::vector<std::string> parts;
  for (auto from = kernels.begin(); from != kernels.end();) {
    const auto until = std::find_if(
        from, kernels.end(), [&](const Kernel& kernel) { return kernel.setting != from->setting; });
    std::vector<std::string> names;
    for (auto one = from; one != until; ++one) names.emplace_back(name_of(one->kind));
    parts.push_back(fmt::format("{} ({})", enumerate(names), from->setting));
    from = until;
  }
  return join(parts, ", ");
}

}  // namespace

std::string kernels_text(const Plan& plan) {
  const OptInKernels& of = *plan.with_kernels;
  const bool fits = !plan.result.best.empty() && !plan.tight_at;
  const std::string gain =
      fits ? fmt::format("{}, {} less", seconds_text(of.plan.time.step),
                         percent(1 - of.plan.time.step / plan.result.best.front().time.step))
           : fmt::format("{} and fit", seconds_text(of.plan.time.step));
  std::string text = fmt::format(
      "Fused kernels that are off by default in {}: {}. With {} {} would take {}.",
      plan.wanted.trainer.title, settings_text(of.kernels),
      of.kernels.size() == 1 ? "it," : "them,", short_text(of.plan.layout, plan.wanted), gain);
  if (!of.trainer.empty()) text += fmt::format(" To plan so (opt-in): --trainer '{}'.", of.trainer);
  return text;
}

}  // namespace trainwright::cli
