// The closed sets of names of trainer files.
#include <algorithm>
#include <array>

#include "trainwright/trainer/reading.h"

namespace trainwright {
namespace {

struct Dtype {
  std::string_view name;
  double bytes;
};
// mxfp8 carries a scale of one byte per 32 numbers, nvfp4 one per 16; scales of 8-bit states are an
// optimizer's `block`.
constexpr Dtype kDtypes[] = {{"none", 0},
                             {"fp32", 4},
                             {"bf16", 2},
                             {"fp16", 2},
                             {"fp8", 1},
                             {"int8", 1},
                             {"int16", 2},
                             {"mxfp8", 1 + 1.0 / 32},
                             {"nvfp4", 0.5 + 1.0 / 16}};

constexpr std::string_view kGroups[] = {"world",
                                        "dp",
                                        "dp-cp",
                                        "tp",
                                        "pp",
                                        "cp",
                                        "ep",
                                        "tp-cp",
                                        "tp-ep",
                                        "tp-ep-pp",
                                        "expert-tp",
                                        "expert-dp",
                                        "model-parallel",
                                        "embedding",
                                        "dp-shard",
                                        "dp-replicate",
                                        "sharding",
                                        "sep",
                                        "p2p"};

}  // namespace

std::span<const std::string_view> all_names(Use) {
  static constexpr std::string_view kNames[] = {"never", "opt-in", "by-default", "always"};
  return kNames;
}

std::span<const std::string_view> all_names(KernelKind) {
  static constexpr std::string_view kNames[] = {"flash-attention",
                                                "fused-softmax",
                                                "fused-rope",
                                                "fused-norm",
                                                "fused-gated-activation",
                                                "fused-bias-activation",
                                                "fused-bias-dropout",
                                                "fused-gradient-accumulation",
                                                "grouped-gemm",
                                                "fused-router",
                                                "fused-permute",
                                                "fused-product-gradient"};
  return kNames;
}

std::span<const std::string_view> all_names(OverlapKind) {
  static constexpr std::string_view kNames[] = {
      "tensor-parallel",    "context-parallel", "gradient-reduce",   "parameter-gather",
      "gather-with-step",   "point-to-point",   "expert-all-to-all", "shared-expert",
      "activation-offload", "graphs",           "part-graphs"};
  return kNames;
}

std::span<const std::string_view> all_names(ExpertScores) {
  static constexpr std::string_view kNames[] = {"before-experts", "in-activation", "at-combine",
                                                "as-model"};
  return kNames;
}

std::span<const std::string_view> all_names(ShardingKind) {
  static constexpr std::string_view kNames[] = {"ddp", "zero", "fsdp", "hsdp", "megatron-fsdp"};
  return kNames;
}

std::span<const std::string_view> all_names(PrecisionKind) {
  static constexpr std::string_view kNames[] = {"fp32",          "fp16",           "bf16",
                                                "fp8-delayed",   "fp8-tensorwise", "fp8-rowwise",
                                                "fp8-blockwise", "mxfp8",          "nvfp4"};
  return kNames;
}

std::span<const std::string_view> all_names(GradientDtype) {
  static constexpr std::string_view kNames[] = {"as-trainer", "fp32", "fp16", "bf16"};
  return kNames;
}

std::span<const std::string_view> all_names(CpKind) {
  static constexpr std::string_view kNames[] = {"ring", "all-gather", "ulysses", "ulysses-ring"};
  return kNames;
}

std::span<const std::string_view> all_names(DispatcherKind) {
  static constexpr std::string_view kNames[] = {"all-gather", "all-to-all", "flex",
                                                "deepep",     "hybridep",   "nccl-ep"};
  return kNames;
}

std::span<const std::string_view> all_names(OptimizerKind) {
  static constexpr std::string_view kNames[] = {
      "adamw", "adamw-precision-aware", "adamw-8bit",  "muon",         "adafactor",
      "sgd",   "sgd-no-momentum",       "adamw-fused", "adamw-foreach"};
  return kNames;
}

std::span<const std::string_view> all_names(RecomputeKind) {
  static constexpr std::string_view kNames[] = {
      "none", "selective", "feed-forward", "modules", "op-selective", "every-nth", "block", "full"};
  return kNames;
}

std::span<const std::string_view> all_names(Offload) {
  static constexpr std::string_view kNames[] = {"optimizer", "activations", "parameters"};
  return kNames;
}

std::span<const std::string_view> all_names(FrozenBase) {
  static constexpr std::string_view kNames[] = {"as-weights", "nf4",   "int8",
                                                "fp8",        "mxfp4", "nvfp4"};
  return kNames;
}

std::span<const std::string_view> all_names(Prepared) {
  static constexpr std::string_view kNames[] = {"as-trainer", "no", "peft", "trl"};
  return kNames;
}

std::span<const std::string_view> all_names(GradientLife) {
  static constexpr std::string_view kNames[] = {
      "buffer",   "autograd",    "flattened",          "copied",
      "bucketed", "accumulated", "accumulated-copied", "accumulated-kept"};
  return kNames;
}

std::span<const std::string_view> all_names(BucketPurpose) {
  static constexpr std::string_view kNames[] = {
      "gradient-reduce",       "first-gradient-reduce", "parameter-gather", "prefetch",
      "persistent-parameters", "live-parameters",       "optimizer-step",   "stays-gathered"};
  return kNames;
}

std::span<const std::string_view> all_names(BucketUnit) {
  static constexpr std::string_view kNames[] = {"parameters", "bytes"};
  return kNames;
}

std::span<const std::string_view> dtype_names() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, std::size(kDtypes)> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kDtypes[i].name;
    return names;
  }();
  return kNames;
}
std::span<const std::string_view> group_names() { return kGroups; }

std::optional<double> dtype_bytes(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.bytes;
  }
  return std::nullopt;
}

}  // namespace trainwright
