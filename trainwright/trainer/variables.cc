#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/trainer/kinds.h"
#include "trainwright/trainer/rule.h"

namespace trainwright {
namespace {

constexpr std::array<std::string_view, kVariableCount> kNames = {
    // clang-format off
    "world", "dp", "tp", "pp", "vpp", "cp", "ep", "etp", "dp_shard", "dp_replicate", "stages",
    "zero", "sp", "mbs", "gbs", "seq", "micro_batches", "layers", "hidden", "ffn", "moe_ffn",
    "heads", "kv_heads", "head_dim", "vocab", "experts", "top_k", "shared_experts", "mtp_layers",
    "own_head_dim", "tied_embeddings", "mla", "windows", "expert_bias", "linear_heads", "mamba_heads", "mamba_groups",
    "mamba_beside",
    "first_stage_layers", "last_stage_layers", "least_stage_layers", "count_embedding",
    "count_loss", "vocab_parallel", "mtp_stage", "layers_behind_mtp", "micro_batch_group", "split",
    "schedule", "split_backward", "loss_chunks", "placement", "recompute", "precision", "gradients", "optimizer", "cp_kind", "sharding",
    "dispatcher", "flex_backend", "ulysses", "recompute_layers", "recompute_core_attention", "recompute_norm",
    "recompute_mlp", "recompute_mla_up_projection", "recompute_moe", "recompute_moe_activation",
    "recompute_shared_experts", "distribute_saved", "offload_optimizer", "offload_activations",
    "offload_parameters", "prepared", "base", "overlap_tp", "overlap_gradient_reduce", "overlap_parameter_gather",
    "overlap_gather_with_step", "overlap_p2p", "overlap_ep", "overlap_shared_experts",
    "delay_weight_gradient", "grouped_gemm", "compile", "fp8_parameter_gather", "graphs", "part_graphs", "node_size",
    "blackwell", "cdna4", "capability", "max_connections", "transformer_engine", "cuda",
    // clang-format on
};

constexpr std::string_view kSplits[] = {"even", "uneven", "explicit"};

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
  if (variable == Variable::Schedule) return all_names(ScheduleKind{});
  if (variable == Variable::Placement) return all_names(StagePlacement{});
  if (variable == Variable::Recompute) return all_names(RecomputeKind{});
  if (variable == Variable::Precision) return all_names(PrecisionKind{});
  if (variable == Variable::Gradients) return all_names(GradientDtype{});
  if (variable == Variable::Optimizer) return all_names(OptimizerKind{});
  if (variable == Variable::CpKind) return all_names(CpKind{});
  if (variable == Variable::FrozenBase) return all_names(FrozenBase{});
  if (variable == Variable::Sharding) return all_names(ShardingKind{});
  if (variable == Variable::Dispatcher || variable == Variable::FlexBackend) {
    return all_names(DispatcherKind{});
  }
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
