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
// fp8, int8 and fp4 carry scales: an 8-bit state one fp32 per 2,048 or 256 numbers (as
// bitsandbytes and torchao do; 256 here), mxfp8 one byte per 32, nvfp4 one byte per 16.
constexpr Dtype kDtypes[] = {{"none", 0},
                             {"fp32", 4},
                             {"bf16", 2},
                             {"fp16", 2},
                             {"fp8", 1},
                             {"int8", 1 + 4.0 / 256},
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
constexpr std::string_view kOffloads[] = {"optimizer", "activations", "parameters"};
constexpr std::string_view kExpertScores[] = {"before-experts", "in-activation", "at-combine"};
constexpr std::string_view kBuckets[] = {
    "gradient-reduce",       "first-gradient-reduce", "parameter-gather", "prefetch",
    "persistent-parameters", "live-parameters",       "optimizer-step",   "stays-gathered"};

constexpr std::string_view kUses[] = {"never", "opt-in", "by-default", "always"};
constexpr std::string_view kKernels[] = {"flash-attention",
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
constexpr std::string_view kOverlaps[] = {
    "tensor-parallel",  "context-parallel", "gradient-reduce",   "parameter-gather",
    "gather-with-step", "point-to-point",   "expert-all-to-all", "shared-expert"};

template <class Enum, std::size_t size>
std::optional<Enum> named(const std::string_view (&names)[size], std::string_view name) {
  const auto* found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Enum>(found - std::begin(names));
}

template <std::size_t size>
std::vector<std::string> all(const std::string_view (&names)[size]) {
  return {std::begin(names), std::end(names)};
}

}  // namespace

std::string_view name_of(Use use) { return kUses[static_cast<std::size_t>(use)]; }
std::string_view name_of(KernelKind kind) { return kKernels[static_cast<std::size_t>(kind)]; }
std::string_view name_of(OverlapKind kind) { return kOverlaps[static_cast<std::size_t>(kind)]; }

std::optional<Use> use_named(std::string_view name) { return named<Use>(kUses, name); }
std::optional<KernelKind> kernel_named(std::string_view name) {
  return named<KernelKind>(kKernels, name);
}
std::optional<OverlapKind> overlap_named(std::string_view name) {
  return named<OverlapKind>(kOverlaps, name);
}
std::vector<std::string> use_names() { return all(kUses); }
std::vector<std::string> kernel_names() { return all(kKernels); }
std::vector<std::string> overlap_names() { return all(kOverlaps); }

std::span<const std::string_view> dtype_names() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, std::size(kDtypes)> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kDtypes[i].name;
    return names;
  }();
  return kNames;
}
std::span<const std::string_view> group_names() { return kGroups; }
std::span<const std::string_view> offload_names() { return kOffloads; }
std::span<const std::string_view> bucket_names() { return kBuckets; }
std::span<const std::string_view> expert_score_names() { return kExpertScores; }

std::optional<double> dtype_bytes(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.bytes;
  }
  return std::nullopt;
}

}  // namespace trainwright
