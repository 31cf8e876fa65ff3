#include "trainwright/layout/kinds.h"

namespace trainwright {
std::span<const std::string_view> all_names(RecomputeModule) {
  static constexpr std::string_view kNames[] = {"core-attention",    "norm", "mlp",
                                                "mla-up-projection", "moe",  "moe-activation",
                                                "shared-experts"};
  return kNames;
}

std::string_view usual_word(RecomputeModule, std::string_view word) {
  // --recompute-modules of Megatron-Core 0.12 and later (transformer_config.py).
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"core-attn", "core-attention"},
      {"layernorm", "norm"},
      {"mla-up-proj", "mla-up-projection"},
      {"moe-act", "moe-activation"}};
  for (const auto& [theirs, ours] : kWords) {
    if (same_name(word, theirs)) return ours;
  }
  return word;
}

std::span<const std::string_view> all_names(Switch) {
  static constexpr std::string_view kNames[] = {"overlap-tp",
                                                "overlap-gradient-reduce",
                                                "overlap-parameter-gather",
                                                "overlap-gather-with-step",
                                                "overlap-p2p",
                                                "overlap-ep",
                                                "overlap-shared-experts",
                                                "delay-weight-gradient",
                                                "grouped-gemm",
                                                "compile",
                                                "distribute-saved",
                                                "fp8-parameter-gather",
                                                "graphs",
                                                "part-graphs"};
  return kNames;
}

std::span<const std::string_view> all_names(AdapterDtype) {
  static constexpr std::string_view kNames[] = {"as-trainer", "as-weight", "fp32"};
  return kNames;
}

std::span<const std::string_view> all_names(LoadedAs) {
  static constexpr std::string_view kNames[] = {"as-trainer", "bf16", "fp16", "fp32"};
  return kNames;
}

std::span<const std::string_view> all_names(Axis) {
  static constexpr std::string_view kNames[] = {"tp", "cp", "ep", "dp", "pp"};
  return kNames;
}

std::span<const std::string_view> all_names(Part) {
  static const std::vector<std::string_view> known = [] {
    std::vector<std::string_view> names;
    for (int i = 0; i <= static_cast<int>(Part::Head); ++i) {
      names.push_back(trainwright::name_of(static_cast<Part>(i)));
    }
    return names;
  }();
  return known;
}

std::span<const std::string_view> all_names(GroupKind) {
  static constexpr std::string_view kNames[] = {
      "tp",    "cp",     "dp",        "pp",           "tp-cp",
      "dp-cp", "shard",  "replicate", "model",        "ep",
      "etp",   "etp-ep", "edp",       "expert-shard", "expert-replicate",
      "world"};
  return kNames;
}

}  // namespace trainwright
