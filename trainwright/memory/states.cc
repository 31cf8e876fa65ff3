#include "trainwright/memory/states.h"

#include <algorithm>
#include <cmath>

namespace trainwright::detail {
namespace {

void fill_buckets(StateRules& rules, const Layout& layout, const Trainer& trainer) {
  if (const Bucket* live = find_bucket(trainer, BucketPurpose::LiveParameters)) {
    rules.live_parameters = static_cast<double>(live->least);
  }
  rules.head_stays = find_bucket(trainer, BucketPurpose::StaysGathered) != nullptr;
  const Bucket* bucket = find_bucket(trainer, BucketPurpose::GradientReduce);
  const bool in_buckets = rules.sharding.life == GradientLife::Bucketed ||
                          rules.sharding.life == GradientLife::Flattened;
  if (bucket == nullptr || !in_buckets) return;
  const auto size = static_cast<double>(std::max(bucket->least, bucket->per_dp * layout.dp));
  (bucket->unit == BucketUnit::Byte ? rules.bucket_bytes : rules.bucket_parameters) = size;
}

// The share of the rank with most.
double shared(Params count, std::int64_t ways) {
  return std::ceil(number(count) / static_cast<double>(ways));
}

double spread_over(const Sharding& sharding, const HeldParameters& held, bool cut) {
  return shared(held.dense, cut ? sharding.dense.ways : 1) +
         shared(held.expert, cut ? sharding.expert.ways : 1);
}

}  // namespace

Result<StateRules> state_rules(const Layout& layout, const Job& job, const Trainer& trainer) {
  StateRules rules;
  rules.bytes = TW_TRY(parameter_bytes(trainer, layout.precision, job.optimizer));
  const auto* precision = find_kind(trainer.precisions, layout.precision);
  rules.compute = dtype_bytes(precision->compute).value_or(rules.bytes.weight);
  const Sharding& sharding = rules.sharding = sharding_of(layout, trainer);
  rules.weights_moved = trainer.code.weights_moved && sharding.states && !sharding.weights;
  if (sharding.gather != Gather::Never && !sharding.weights) {
    rules.step_gathers = static_cast<double>(trainer.code.step_gathers);
  }
  rules.by_matrix = trainer.code.states_whole && !rules.weights_moved && !sharding.weights;
  rules.made = trainer.code.weights_made_wide ? 4 : rules.bytes.weight;
  rules.offload_optimizer = layout.offload.has(Offload::Optimizer);
  rules.offload_parameters = layout.offload.has(Offload::Parameters);
  rules.offload_activations = layout.offload.has(Offload::Activations);
  fill_buckets(rules, layout, trainer);
  return rules;
}

States states_of(const StateRules& rules, const HeldParameters& held,
                 const HeldParameters& trained) {
  States of;
  const Sharding& sharding = rules.sharding;
  const double stored = spread_over(sharding, held, sharding.weights);
  if (!rules.offload_parameters) of.weights = rules.bytes.weight * stored;
  of.weights += rules.bytes.weight_copies * number(held.low_precision);
  const double stepped = spread_over(sharding, trained, sharding.states);
  if (!rules.offload_optimizer) {
    of.main_weights = rules.bytes.master * stepped;
    of.states = rules.bytes.states * stepped;
    of.step = rules.bytes.gradient_at_step * stepped;
  }
  of.gradients = rules.bytes.gradient * spread_over(sharding, trained, sharding.gradients);
  const double whole = spread_over(sharding, trained, false);
  if (sharding.life == GradientLife::Flattened) {
    of.flattened = rules.bytes.gradient * std::min(whole, rules.bucket_parameters);
    of.step += of.flattened;
  }
  // With nobody to reduce with there is nothing to put on its way.
  if (sharding.dense.ways * sharding.dense.replicas == 1) return of;
  if (rules.step_gathers > 0) {
    const auto ways = static_cast<double>(sharding.dense.ways);
    of.gathered = rules.compute * (rules.step_gathers * whole + whole / ways);
    of.step += of.gathered;
  }
  if (sharding.life == GradientLife::AccumulatedCopied) of.buckets = rules.compute * whole;
  if (sharding.life == GradientLife::Copied) of.buckets = rules.bytes.gradient * whole;
  if (sharding.life == GradientLife::Bucketed) {
    const double bytes = rules.bytes.gradient * std::min(whole, rules.bucket_parameters);
    of.buckets = std::max(bytes, std::min(rules.bucket_bytes, rules.bytes.gradient * whole));
  }
  return of;
}

double coming_gradients(const StateRules& rules, const HeldParameters& trained) {
  const Sharding& sharding = rules.sharding;
  return rules.bytes.gradient *
         spread_over(sharding, trained, sharding.gradients && !cut_at_step(sharding));
}

}  // namespace trainwright::detail
