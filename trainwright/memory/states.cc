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
  rules.root_unit = trainer.code.root_unit;
  const Bucket* bucket = find_bucket(trainer, BucketPurpose::GradientReduce);
  const bool in_buckets = rules.sharding.life == GradientLife::Bucketed ||
                          rules.sharding.life == GradientLife::Flattened;
  if (bucket == nullptr || !in_buckets) return;
  const auto size = static_cast<double>(std::max(bucket->least, bucket->per_dp * layout.dp));
  if (bucket->unit == BucketUnit::Byte) {
    rules.bucket_bytes = RealBytes(size);
  } else {
    rules.bucket_parameters = size;
  }
}

// The share of the rank with most.
double shared(Params count, std::int64_t ways) {
  return std::ceil(number(count) / static_cast<double>(ways));
}
RealBytes shared(Bytes bytes, std::int64_t ways) {
  return RealBytes(std::ceil(real(bytes).value() / static_cast<double>(ways)));
}

// Of a rank with most: so many numbers of the model and of adapters.
struct Numbers {
  double model = 0, adapters = 0;
};
// `of` each group, over the ranks that share it where that is `cut`.
auto spread_over(const Sharding& sharding, const HeldParameters& held, bool cut, auto of) {
  return shared(of(held.dense), cut ? sharding.dense.ways : 1) +
         shared(of(held.expert), cut ? sharding.expert.ways : 1);
}
Numbers numbers_of(const Sharding& sharding, const HeldParameters& held, bool cut, auto of) {
  return {spread_over(sharding, held, cut, of),
          spread_over(sharding, held, cut, [](const HeldGroup& group) { return group.adapters; })};
}
Numbers trained_of(const Sharding& sharding, const HeldParameters& held, bool cut) {
  return numbers_of(sharding, held, cut, [](const HeldGroup& group) { return group.trained; });
}

// Weights that products take in 8 bits: what is stored of them beyond, or instead of, full width.
RealBytes low_precision_bytes(const StateRules& rules, const HeldParameters& held) {
  const Sharding& sharding = rules.sharding;
  const Params low = both(held, &HeldGroup::low_precision);
  const RealBytes copies(rules.bytes.weight_copies * number(low));
  // Copies of bf16 weights are whole on every rank, however these are cut (transformer-engine
  // 2.20.2 pytorch/module/linear.py:2443, :2568 _fp8_workspaces, unless PyTorch's FSDP2 cuts them).
  if (!rules.stored_low || rules.offload_parameters) return copies;
  if (!sharding.weights) return copies - RealBytes(rules.bytes.weight * number(low));
  // A transpose that is made of a gathered weight goes with it (megatron-core 0.19.2
  // megatron_fsdp.py :626 release_module_parameters; keep_fp8_transpose_cache is off).
  const double share =
      number(held.dense.low_precision) / static_cast<double>(sharding.dense.ways) +
      number(held.expert.low_precision) / static_cast<double>(sharding.expert.ways);
  return RealBytes((*rules.stored_low - rules.bytes.weight) * share);
}

RealBytes times(const StateRules& rules, double ParameterBytes::* bytes, const Numbers& numbers) {
  return RealBytes(rules.bytes.*bytes * numbers.model + rules.adapter.*bytes * numbers.adapters);
}

void fill_offloads(StateRules& rules, const Flags<Offload>& moved) {
  rules.offload_optimizer = moved.has(Offload::Optimizer);
  rules.offload_parameters = moved.has(Offload::Parameters);
  rules.offload_activations = moved.has(Offload::Activations);
  // Shards of gradients follow the states as they are reduced (torch 2.13 _fsdp_collectives.py
  // foreach_reduce; deepspeed 0.16 stage3.py grad_partitions_flat_buffer, stage_1_and_2.py
  // cpu_offload). A buffer that is reduced in place stays where it is.
  rules.offload_gradients = rules.offload_optimizer && rules.sharding.gradients &&
                            rules.sharding.life != GradientLife::Buffer;
}

}  // namespace

Result<StateRules> state_rules(const Layout& layout, const Job& job, const Trainer& trainer,
                               const Cluster& cluster) {
  StateRules rules;
  const TrainedBytes bytes = TW_TRY(trained_bytes(job, layout, cluster, trainer));
  rules.bytes = bytes.model;
  rules.adapter = bytes.adapter;
  const auto* precision = find_kind(trainer.precisions, layout.precision);
  rules.compute = dtype_bytes(precision->compute).value_or(rules.bytes.weight);
  const Sharding& sharding = rules.sharding = sharding_of(layout, trainer);
  rules.compute_low = rules.compute;
  if (sharding.fp8_gather) {
    rules.stored_low = precision->weight_stored_low;
    // Gathered weights that are stored in 8 bits have a transpose for the backward pass.
    const double gathered = rules.stored_low ? rules.bytes.weight_copies : 1;
    rules.compute_low = std::min(rules.compute, gathered);
  }
  rules.weights_moved = trainer.code.weights_moved && sharding.states && !sharding.weights;
  if (sharding.gather != Gather::Never && !sharding.weights) {
    rules.step_gathers = static_cast<double>(trainer.code.step_gathers);
  }
  rules.by_matrix = trainer.code.states_whole && !rules.weights_moved && !sharding.weights;
  rules.made = trainer.code.weights_made_wide ? 4 : rules.bytes.weight;
  fill_offloads(rules, offloaded(layout, trainer));
  fill_buckets(rules, layout, trainer);
  return rules;
}

States states_of(const StateRules& rules, const HeldParameters& held) {
  States of;
  const Sharding& sharding = rules.sharding;
  const bool cut = sharding.weights;
  if (!rules.offload_parameters) {
    const Numbers plain = numbers_of(
        sharding, held, cut, [](const HeldGroup& group) { return group.all - group.quantised; });
    of.weights = times(rules, &ParameterBytes::weight, plain) +
                 spread_over(sharding, held, cut,
                             [](const HeldGroup& group) { return group.stored - group.unsharded; });
  }
  // Scales are no part of a tensor that is cut or moved (bitsandbytes 0.50.2 functional.py
  // QuantState: an attribute of its weight), so kernels find them where they were made.
  of.weights += real(both(held, &HeldGroup::unsharded));
  of.weights += low_precision_bytes(rules, held);
  const Numbers stepped = trained_of(sharding, held, sharding.states);
  if (!rules.offload_optimizer) {
    of.main_weights = times(rules, &ParameterBytes::master, stepped);
    of.states = spread_over(sharding, held, sharding.states,
                            [](const HeldGroup& group) { return group.states; });
    if (of.states > RealBytes(0)) of.states += RealBytes(rules.bytes.states.tables);
    of.temporaries = spread_over(sharding, held, sharding.states,
                                 [](const HeldGroup& group) { return group.step; });
    of.step = times(rules, &ParameterBytes::gradient_at_step, stepped) + of.temporaries;
  }
  if (!rules.offload_gradients) {
    of.gradients =
        times(rules, &ParameterBytes::gradient, trained_of(sharding, held, sharding.gradients));
  }
  const Numbers trained = trained_of(sharding, held, false);
  const double whole = trained.model + trained.adapters;
  if (sharding.life == GradientLife::Flattened) {
    of.flattened = RealBytes(rules.bytes.gradient * std::min(whole, rules.bucket_parameters));
    of.step += of.flattened;
  }
  // With nobody to reduce with there is nothing to put on its way.
  if (sharding.dense.ways * sharding.dense.replicas == 1) return of;
  if (rules.step_gathers > 0) {
    const auto ways = static_cast<double>(sharding.dense.ways);
    of.gathered = RealBytes(rules.compute * (rules.step_gathers * whole + whole / ways));
    of.step += of.gathered;
  }
  if (sharding.life == GradientLife::AccumulatedCopied)
    of.buckets = RealBytes(rules.compute * whole);
  if (sharding.life == GradientLife::Copied) {
    of.buckets = times(rules, &ParameterBytes::gradient, trained);
  }
  if (sharding.life == GradientLife::Bucketed) {
    const RealBytes bytes(rules.bytes.gradient * std::min(whole, rules.bucket_parameters));
    of.buckets =
        std::max(bytes, std::min(rules.bucket_bytes, RealBytes(rules.bytes.gradient * whole)));
  }
  return of;
}

PassBytes pass_bytes(const StateRules& rules) {
  // An adapter of another dtype is read as it is.
  const bool alike = rules.adapter.weight == rules.bytes.weight;
  return {.compute = rules.compute,
          .compute_low = rules.compute_low,
          .gradient = rules.bytes.gradient,
          .adapter_compute = alike ? rules.compute : rules.adapter.weight,
          .adapter_gradient = rules.adapter.gradient};
}

RealBytes coming_gradients(const StateRules& rules, const HeldParameters& held) {
  if (rules.offload_gradients) return RealBytes();
  return times(
      rules, &ParameterBytes::gradient,
      trained_of(rules.sharding, held, rules.sharding.gradients && !cut_at_step(rules.sharding)));
}

}  // namespace trainwright::detail
