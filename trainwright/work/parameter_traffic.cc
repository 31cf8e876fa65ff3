// What data parallelism moves: gradients summed over the ranks that hold the same weights, weights
// gathered from the ranks that share them.
#include <algorithm>
#include <cmath>

#include "trainwright/work/work.h"

namespace trainwright {
namespace {

Bytes times(Params count, double bytes) {
  return Bytes(std::llround(static_cast<double>(count.value()) * bytes));
}

// How weights and gradients travel under a layout.
struct Plan {
  bool shards = false;           // states over dp: reduce-scatter and gather instead of all-reduce
  bool gathers_forward = false;  // weights before each forward pass; else once after the step
  bool gathers_backward = false;
  bool by_unit = false;  // a call per layer
  bool reduce_every_micro_batch = false;
};

// ZeRO-2 and ZeRO-3 hold no whole gradient, so every micro-batch reduces; PyTorch's FSDP does so
// too unless a pipeline holds the gradients of all micro-batches (torchtitan). Without resharding
// after forward (zero 2) the weights are gathered once a step.
Plan plan_of(const Layout& layout) {
  const bool fsdp = layout.sharding == ShardingKind::Fsdp ||
                    layout.sharding == ShardingKind::Hsdp ||
                    layout.sharding == ShardingKind::MegatronFsdp;
  Plan plan;
  plan.shards = layout.zero >= 1 || fsdp;
  plan.by_unit = fsdp || layout.zero == 3;
  plan.gathers_forward = layout.zero == 3;
  plan.gathers_backward = layout.zero == 3;
  plan.reduce_every_micro_batch = layout.zero >= 2 && (!fsdp || layout.pp == 1);
  return plan;
}

struct Weights {
  Params count;
  Params low_precision;
  GroupKind all = GroupKind::DpCp;
  bool expert = false;
};

// Bytes per number of a gathered weight: in fp8 if asked for and taken.
Bytes gathered_bytes(const Weights& weights, const Layout& layout, const Recipe& recipe) {
  const double whole = static_cast<double>(byte_size(recipe.weight));
  if (!layout.on.has(Switch::Fp8ParameterGather)) return times(weights.count, whole);
  return times(weights.low_precision, 1) + times(weights.count - weights.low_precision, whole);
}

void add_traffic(std::vector<ParameterTraffic>& list, const Weights& weights, std::int64_t units,
                 const Layout& layout, const Recipe& recipe, const ParameterBytes& bytes) {
  if (weights.count == Params(0)) return;
  const Plan plan = plan_of(layout);
  const std::int64_t calls = plan.by_unit ? units : 1;
  const Bytes gradients = times(weights.count, bytes.gradient);
  // Experts are copied over edp as a whole; the replicas of a sharded state are a part of it.
  const bool replicas = plan.shards && layout.dp_replicate > 1 && !weights.expert;
  const GroupKind shard = weights.expert ? GroupKind::Edp : GroupKind::Shard;
  if (!plan.shards) {
    list.push_back(
        {CollectiveKind::AllReduce, weights.all, Pass::WeightGradient, calls, gradients, false});
    return;
  }
  const Bytes gathered = gathered_bytes(weights, layout, recipe);
  const auto gather = [&](Pass pass, bool every) {
    list.push_back({CollectiveKind::AllGather, shard, pass, calls, gathered, every});
  };
  gather(Pass::Forward, plan.gathers_forward);
  if (plan.gathers_backward) gather(Pass::InputGradient, true);
  list.push_back({CollectiveKind::ReduceScatter, shard, Pass::WeightGradient, calls, gradients,
                  plan.reduce_every_micro_batch});
  if (replicas) {
    list.push_back({CollectiveKind::AllReduce, GroupKind::Replicate, Pass::WeightGradient, calls,
                    gradients / std::max<std::int64_t>(1, dp_shard(layout) * layout.cp),
                    plan.reduce_every_micro_batch});
  }
}

}  // namespace

std::vector<ParameterTraffic> parameter_traffic(const HeldParameters& stage, std::int64_t units,
                                                const Layout& layout, const Recipe& recipe,
                                                const ParameterBytes& bytes) {
  std::vector<ParameterTraffic> list;
  // Of the copies in low precision, those of experts are all of the experts' matrices.
  const Params expert_low = std::min(stage.expert, stage.low_precision);
  add_traffic(list, {stage.dense, stage.low_precision - expert_low, GroupKind::DpCp, false}, units,
              layout, recipe, bytes);
  add_traffic(list, {stage.expert, expert_low, GroupKind::Edp, true}, units, layout, recipe, bytes);
  return list;
}

}  // namespace trainwright
