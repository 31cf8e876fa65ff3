#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/trainer/rule.h"

namespace trainwright {
namespace {

constexpr std::array<std::string_view, kVariableCount> kNames = {
    // clang-format off
    "world", "dp", "tp", "pp", "vpp", "cp",
    "ep", "etp", "dp_shard", "dp_replicate", "stages", "zero",
    "sp", "mbs", "gbs", "seq", "micro_batches", "layers",
    "hidden", "ffn", "moe_ffn", "heads", "kv_heads", "head_dim",
    "vocab", "experts", "top_k", "shared_experts", "mtp_layers", "own_head_dim",
    "tied_embeddings", "mla", "first_stage_layers", "last_stage_layers", "least_stage_layers", "count_embedding",
    "count_loss", "micro_batch_group", "split", "schedule", "placement", "recompute",
    "precision", "optimizer", "cp_kind", "sharding", "dispatcher", "recompute_core_attention",
    "recompute_norm", "recompute_mlp", "recompute_mla_up_projection", "recompute_moe", "recompute_moe_activation", "recompute_shared_experts",
    "distribute_saved", "offload_optimizer", "offload_activations", "offload_parameters", "overlap_tp", "overlap_gradient_reduce",
    "overlap_parameter_gather", "overlap_gather_with_step", "overlap_p2p", "overlap_ep", "overlap_shared_experts", "delay_weight_gradient",
    "grouped_gemm", "compile", "fp8_parameter_gather", "node_size", "blackwell", "max_connections",
    // clang-format on
};

constexpr std::string_view kSplits[] = {"even", "uneven", "explicit"};
constexpr std::string_view kRecomputes[] = {"none",         "selective", "feed-forward", "modules",
                                            "op-selective", "every-nth", "block",        "full"};
constexpr std::string_view kPrecisions[] = {
    "fp32", "fp16", "bf16", "fp8-delayed", "fp8-tensorwise", "fp8-blockwise", "mxfp8", "nvfp4"};
constexpr std::string_view kOptimizers[] = {
    "adamw", "adamw-precision-aware", "adamw-8bit", "muon", "adafactor", "sgd"};
constexpr std::string_view kCpKinds[] = {"ring", "all-gather", "ulysses", "ulysses-ring"};
constexpr std::string_view kShardings[] = {"ddp", "zero", "fsdp", "hsdp", "megatron-fsdp"};
constexpr std::string_view kDispatchers[] = {"all-gather", "all-to-all", "flex"};

std::span<const std::string_view> schedule_names() {
  static const std::vector<std::string_view> kKinds = [] {
    std::vector<std::string_view> names;
    for (const KindFacts& facts : all_kinds()) names.push_back(facts.name);
    return names;
  }();
  return kKinds;
}

std::span<const std::string_view> placement_names() {
  static const std::array kPlacements = {name_of(StagePlacement::Single),
                                         name_of(StagePlacement::Loop), name_of(StagePlacement::V)};
  return kPlacements;
}

std::size_t at(Variable variable) { return static_cast<std::size_t>(variable); }

}  // namespace

std::string_view name_of(Variable variable) { return kNames[at(variable)]; }

std::optional<Variable> variable_named(std::string_view name) {
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Variable>(found - kNames.begin());
}

std::span<const std::string_view> symbols(Variable variable) {
  // Every other variable is a number, so this list is not a switch over all of them.
  if (variable == Variable::Split) return kSplits;
  if (variable == Variable::Schedule) return schedule_names();
  if (variable == Variable::Placement) return placement_names();
  if (variable == Variable::Recompute) return kRecomputes;
  if (variable == Variable::Precision) return kPrecisions;
  if (variable == Variable::Optimizer) return kOptimizers;
  if (variable == Variable::CpKind) return kCpKinds;
  if (variable == Variable::Sharding) return kShardings;
  if (variable == Variable::Dispatcher) return kDispatchers;
  return {};
}

void Facts::set(Variable variable, std::int64_t value) {
  values[at(variable)] = value;
  known.set(at(variable));
}

void Facts::set(Variable variable, std::string_view symbol) {
  const auto kinds = symbols(variable);
  const auto found = std::find(kinds.begin(), kinds.end(), symbol);
  TW_CHECK(found != kinds.end(), fmt::format("{} has no kind {}", name_of(variable), symbol));
  set(variable, std::int64_t{found - kinds.begin()});
}

std::optional<std::int64_t> Facts::value(Variable variable) const {
  if (!known.test(at(variable))) return std::nullopt;
  return values[at(variable)];
}

}  // namespace trainwright
