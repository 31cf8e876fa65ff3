#include "trainwright/memory/states.h"

#include <algorithm>
#include <cmath>

namespace trainwright::detail {
namespace {

GradientLife life_of(const Trainer& trainer, ShardingKind sharding) {
  const ShardingFacts* facts = find_kind(trainer.shardings, sharding);
  return facts == nullptr ? GradientLife::Buffer : facts->gradients;
}

bool is_fsdp(ShardingKind kind) {
  return kind == ShardingKind::Fsdp || kind == ShardingKind::Hsdp ||
         kind == ShardingKind::MegatronFsdp;
}

void fill_buckets(StateRules& rules, const Layout& layout, const Trainer& trainer) {
  if (const Bucket* live = find_bucket(trainer, BucketPurpose::LiveParameters)) {
    rules.live_parameters = static_cast<double>(live->least);
  }
  rules.head_stays = find_bucket(trainer, BucketPurpose::StaysGathered) != nullptr;
  const Bucket* bucket = find_bucket(trainer, BucketPurpose::GradientReduce);
  const bool in_buckets =
      rules.gradients == GradientLife::Bucketed || rules.gradients == GradientLife::Flattened;
  if (bucket == nullptr || !in_buckets) return;
  const auto size = static_cast<double>(std::max(bucket->least, bucket->per_dp * layout.dp));
  (bucket->unit == BucketUnit::Byte ? rules.bucket_bytes : rules.bucket_parameters) = size;
}

// The share of the rank with most.
double shared(Params count, double ways) { return std::ceil(number(count) / ways); }

double spread_over(const StateRules& rules, const HeldParameters& held, bool sharded) {
  return shared(held.dense, sharded ? rules.dense_ways : 1) +
         shared(held.expert, sharded ? rules.expert_ways : 1);
}

}  // namespace

Result<StateRules> state_rules(const Layout& layout, const Job& job, const Trainer& trainer) {
  StateRules rules;
  rules.bytes = TW_TRY(parameter_bytes(trainer, layout.precision, job.optimizer));
  const auto* precision = find_kind(trainer.precisions, layout.precision);
  rules.compute = dtype_bytes(precision->compute).value_or(rules.bytes.weight);
  rules.zero = layout.zero;
  if (layout.zero > 0) {
    rules.dense_ways = static_cast<double>(dp_shard(layout) * layout.cp);
    rules.expert_ways = static_cast<double>(std::max<std::int64_t>(
        1, expert_dp(layout) / std::max<std::int64_t>(1, layout.dp_replicate)));
  }
  const bool fsdp = is_fsdp(layout.sharding) && layout.zero > 0;
  const bool several = rules.dense_ways > 1 || rules.expert_ways > 1;
  rules.weights_sharded = fsdp || layout.zero == 3;
  rules.gathers = rules.weights_sharded && several;
  rules.stays_gathered = rules.gathers && fsdp && (layout.zero < 3 || layout.pp > 1);
  rules.weights_moved = trainer.code.weights_moved && layout.zero > 0 && !rules.weights_sharded;
  if (several && !rules.weights_sharded) {
    rules.step_gathers = static_cast<double>(trainer.code.step_gathers);
  }
  rules.by_matrix = trainer.code.states_whole && !rules.weights_moved && !rules.weights_sharded;
  rules.made = trainer.code.weights_made_wide ? 4 : rules.bytes.weight;
  rules.by_units = fsdp && layout.sharding != ShardingKind::MegatronFsdp;
  rules.replicas =
      rules.by_units && layout.sharding == ShardingKind::Hsdp && layout.dp_replicate > 1;
  rules.gradients = life_of(trainer, layout.sharding);
  rules.reduces = layout.dp * layout.cp > 1;
  rules.offload_optimizer = layout.offload.has(Offload::Optimizer);
  rules.offload_parameters = layout.offload.has(Offload::Parameters);
  rules.offload_activations = layout.offload.has(Offload::Activations);
  fill_buckets(rules, layout, trainer);
  return rules;
}

States states_of(const StateRules& rules, const HeldParameters& held,
                 const HeldParameters& trained) {
  States of;
  const double stored = spread_over(rules, held, rules.weights_sharded);
  if (!rules.offload_parameters) of.weights = rules.bytes.weight * stored;
  of.weights += rules.bytes.weight_copies * number(held.low_precision);
  const double stepped = spread_over(rules, trained, rules.zero >= 1);
  if (!rules.offload_optimizer) {
    of.main_weights = rules.bytes.master * stepped;
    of.states = rules.bytes.states * stepped;
    of.step = rules.bytes.gradient_at_step * stepped;
  }
  of.gradients = rules.bytes.gradient * spread_over(rules, trained, rules.zero >= 2);
  const double whole = spread_over(rules, trained, false);
  if (rules.gradients == GradientLife::Flattened) {
    of.flattened = rules.bytes.gradient * std::min(whole, rules.bucket_parameters);
    of.step += of.flattened;
  }
  if (!rules.reduces) return of;
  if (rules.step_gathers > 0) {
    of.gathered = rules.compute * (rules.step_gathers * whole + whole / rules.dense_ways);
    of.step += of.gathered;
  }
  if (rules.gradients == GradientLife::AccumulatedCopied) of.buckets = rules.compute * whole;
  if (rules.gradients == GradientLife::Copied) of.buckets = rules.bytes.gradient * whole;
  if (rules.gradients == GradientLife::Bucketed) {
    const double bytes = rules.bytes.gradient * std::min(whole, rules.bucket_parameters);
    of.buckets = std::max(bytes, std::min(rules.bucket_bytes, rules.bytes.gradient * whole));
  }
  return of;
}

double coming_gradients(const StateRules& rules, const HeldParameters& trained) {
  return rules.bytes.gradient *
         spread_over(rules, trained, rules.zero >= 2 && !rules.stays_gathered);
}

}  // namespace trainwright::detail
