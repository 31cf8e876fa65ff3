// What is trained, and whether the hardware and the trainer can do it that way.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/base/text.h"
#include "trainwright/layout/findings.h"
#include "trainwright/layout/kinds.h"

namespace trainwright::detail {
namespace {

// The formats of which the hardware must multiply one.
std::vector<ComputeType> types_for(PrecisionKind kind) {
  switch (kind) {
    case PrecisionKind::Fp32: return {ComputeType::Fp32, ComputeType::Tf32};
    case PrecisionKind::Fp16: return {ComputeType::Fp16};
    case PrecisionKind::Bf16: return {ComputeType::Bf16};
    case PrecisionKind::Fp8Delayed:
    case PrecisionKind::Fp8Tensorwise:
    case PrecisionKind::Fp8Rowwise:
    case PrecisionKind::Fp8Blockwise: return {ComputeType::Fp8};
    // Block scales in hardware came with the units for fp6 and fp4 (OCP Microscaling, 2023).
    case PrecisionKind::Mxfp8: return {ComputeType::Fp6, ComputeType::Fp4};
    case PrecisionKind::Nvfp4: return {ComputeType::Fp4};
  }
  TW_CHECK(false, "no such precision");
}

// What the accelerator multiplies in 8 bits in place of scaled blocks, if the trainer offers it.
std::optional<PrecisionKind> recipe_for(const Accelerator& accelerator, PrecisionKind wanted,
                                        const Trainer& trainer) {
  const bool blocks = wanted == PrecisionKind::Mxfp8 || wanted == PrecisionKind::Nvfp4;
  if (!blocks || !peak(accelerator, ComputeType::Fp8)) return std::nullopt;
  for (const PrecisionFacts& facts : trainer.precisions) {
    if (types_for(facts.kind) == std::vector{ComputeType::Fp8}) return facts.kind;
  }
  return std::nullopt;
}

void check_precision(const Case& c, Findings& findings) {
  for (const Group& group : c.cluster.groups) {
    const auto types = types_for(c.layout.precision);
    const bool able = std::any_of(types.begin(), types.end(), [&](ComputeType type) {
      return peak(group.accelerator, type).has_value();
    });
    if (able) continue;
    std::string hint =
        peak(group.accelerator, ComputeType::Bf16) ? "precision=bf16" : "precision=fp16";
    const auto recipe = recipe_for(group.accelerator, c.layout.precision, c.trainer);
    if (recipe) hint = fmt::format("precision={}, or bf16", name_of(*recipe));
    findings.forbid(
        "precision-in-hardware",
        fmt::format("{} has no unit for {}", group.accelerator.name, name_of(c.layout.precision)),
        std::move(hint));
  }
}

Flags<LayerMatrix> matrices_of(const Model& model) {
  Flags<LayerMatrix> there;
  for (const LayerKind& kind : model.kinds) {
    for (const Weight& weight : layer_weights(model, kind)) {
      if (const auto matrix = layer_matrix(weight.name)) there.insert(*matrix);
    }
  }
  return there;
}

void check_lora(const Job& job, const Model& model, Findings& findings) {
  if (!job.lora) return;
  const Flags<LayerMatrix> there = matrices_of(model);
  for (const std::string& target : job.lora->targets) {
    if ((matrices_named(target).bits & there.bits) != 0) continue;
    findings.forbid(
        "lora-finds-target", fmt::format("no layer of the model has a matrix '{}'", target),
        did_you_mean(target, words_for(there), "the matrices are " + enumerate(names_in(there))));
  }
}

void check_frozen(const Job& job, const Model& model, Findings& findings) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  if (job.frozen_layers < 0 || job.frozen_layers > layers) {
    findings.forbid(
        "frozen-layers-exist",
        fmt::format("{} layers are frozen, the model has {}", job.frozen_layers, layers),
        fmt::format("frozen_layers may be up to {}", layers));
    return;
  }
  // Counting is only worth it when something might be frozen whole.
  const bool all = (!job.frozen.empty() || job.frozen_layers > 0) &&
                   trained_parameters(job, model).trained == Params(0);
  if (all) findings.forbid("something-trains", "every parameter is frozen", "freeze fewer parts");
}

void check_on_and_off(const Case& c, Findings& findings) {
  Flags<Switch> both;
  both.bits = c.layout.on.bits & c.layout.off.bits;
  if (both.empty()) return;
  findings.forbid("on-or-off",
                  fmt::format("{} is asked for and refused", enumerate(names_in(both))),
                  "leave it out of on or of off");
}

}  // namespace

void check_job(const Case& c, Findings& findings) {
  check_precision(c, findings);
  check_named(c.job, c.model, findings);
  check_on_and_off(c, findings);
}

void check_named(const Job& job, const Model& model, Findings& findings) {
  check_lora(job, model, findings);
  check_frozen(job, model, findings);
}

}  // namespace trainwright::detail
