// What is trained, and whether the hardware and the trainer can do it that way.
#include <fmt/format.h>

#include <algorithm>
#include <set>

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
    case PrecisionKind::Fp8Blockwise: return {ComputeType::Fp8};
    // Block scales in hardware came with the units for fp6 and fp4 (OCP Microscaling, 2023).
    case PrecisionKind::Mxfp8: return {ComputeType::Fp6, ComputeType::Fp4};
    case PrecisionKind::Nvfp4: return {ComputeType::Fp4};
  }
  TW_CHECK(false, "no such precision");
}

void check_precision(const Case& c, Findings& findings) {
  for (const Group& group : c.cluster.groups) {
    const auto types = types_for(c.layout.precision);
    const bool able = std::any_of(types.begin(), types.end(), [&](ComputeType type) {
      return peak(group.accelerator, type).has_value();
    });
    if (able) continue;
    findings.forbid(
        "precision-in-hardware",
        fmt::format("{} has no unit for {}", group.accelerator.name, name_of(c.layout.precision)),
        peak(group.accelerator, ComputeType::Bf16) ? "precision=bf16" : "precision=fp16");
  }
}

void check_lora(const Case& c, Findings& findings) {
  if (!c.job.lora) return;
  std::set<std::string> names;
  for (const LayerKind& kind : c.model.kinds) {
    for (const Weight& weight : layer_weights(c.model, kind)) {
      if (weight.use == WeightUse::Matrix) names.emplace(weight.name);
    }
  }
  const std::vector<std::string> known(names.begin(), names.end());
  for (const std::string& target : c.job.lora->targets) {
    if (names.contains(target)) continue;
    findings.forbid("lora-finds-target",
                    fmt::format("no layer of the model has a matrix '{}'", target),
                    did_you_mean(target, known, "the matrices are " + enumerate(known)));
  }
}

void check_frozen(const Case& c, Findings& findings) {
  const auto layers = static_cast<std::int64_t>(c.model.layers.size());
  if (c.job.frozen_layers < 0 || c.job.frozen_layers > layers) {
    findings.forbid(
        "frozen-layers-exist",
        fmt::format("{} layers are frozen, the model has {}", c.job.frozen_layers, layers),
        fmt::format("frozen_layers may be up to {}", layers));
  }
  // Counting is only worth it when something might be frozen whole.
  const bool all = !c.job.lora && (!c.job.frozen.empty() || c.job.frozen_layers > 0) &&
                   trained_parameters(c.job, c.model).trained == Params(0);
  if (all) findings.forbid("something-trains", "every parameter is frozen", "freeze fewer parts");
}

void check_switches(const Case& c, Findings& findings) {
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
  check_lora(c, findings);
  check_frozen(c, findings);
  check_switches(c, findings);
}

}  // namespace trainwright::detail
