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

double adapter_bytes(const Recipe& recipe) {
  const auto& adapters = recipe.training.adapters;
  return adapters ? static_cast<double>(byte_size(adapters->dtype)) : 0;
}

// As the backward pass makes them: in the dtype of the weights.
Bytes made_gradients(const HeldGroup& weights, const Recipe& recipe) {
  return times(weights.trained, static_cast<double>(byte_size(recipe.weight))) +
         times(weights.adapters, adapter_bytes(recipe));
}

// Of gathered weights: in fp8 if asked for and taken. Those that are not cut are gathered when the
// step has changed them.
Bytes gathered_bytes(const HeldGroup& weights, const Sharding& sharding, const Recipe& recipe) {
  const Params count = sharding.weights ? weights.all : weights.trained;
  const double whole = static_cast<double>(byte_size(recipe.weight));
  const double adapter = adapter_bytes(recipe);
  const Params low = sharding.fp8_gather ? std::min(count, weights.low_precision) : Params(0);
  const Params quantised = sharding.weights ? weights.quantised : Params(0);
  const Bytes stored = sharding.weights ? weights.stored - weights.unsharded : Bytes(0);
  return times(low, 1) + times(count - low - quantised, whole) + stored +
         times(weights.adapters, adapter);
}

void add_traffic(std::vector<ParameterTraffic>& list, const HeldGroup& weights,
                 const Sharers& among, std::int64_t units, const Sharding& sharding,
                 const Recipe& recipe, const TrainedBytes& bytes) {
  if (weights.all == Params(0)) return;
  const std::int64_t calls = sharding.by_unit ? units : 1;
  const bool every = sharding.reduce == Reduce::MicroBatch;
  const Bytes gradients = times(weights.trained, bytes.model.gradient) +
                          times(weights.adapters, bytes.adapter.gradient);
  const auto add = [&](CollectiveKind kind, GroupKind group, Pass pass, Bytes moved, Bytes copied,
                       bool each) {
    if (moved > Bytes(0)) list.push_back({kind, group, pass, calls, moved, copied, each});
  };
  if (among.ways > 1 && sharding.gather != Gather::Never) {
    const Bytes whole = gathered_bytes(weights, sharding, recipe);
    const Bytes copied = sharding.flat_buffers ? whole * 2 : Bytes(0);
    add(CollectiveKind::AllGather, among.shard, Pass::Forward, whole, copied,
        sharding.gather != Gather::Step);
    if (sharding.gather == Gather::Pass) {
      add(CollectiveKind::AllGather, among.shard, Pass::InputGradient, whole, copied, true);
    }
  }
  if (among.ways > 1) {
    const Bytes copied =
        sharding.flat_buffers ? made_gradients(weights, recipe) + gradients : Bytes(0);
    add(CollectiveKind::ReduceScatter, among.shard, Pass::WeightGradient, gradients, copied, every);
  }
  if (among.replicas > 1) {
    add(CollectiveKind::AllReduce, among.replicate, Pass::WeightGradient, gradients / among.ways,
        Bytes(0), every);
  }
}

}  // namespace

std::vector<ParameterTraffic> parameter_traffic(const HeldParameters& stage, std::int64_t units,
                                                const Sharding& sharding, const Recipe& recipe,
                                                const TrainedBytes& bytes) {
  std::vector<ParameterTraffic> list;
  list.reserve(8);  // four of either sort at most
  add_traffic(list, stage.dense, sharding.dense, units, sharding, recipe, bytes);
  add_traffic(list, stage.expert, sharding.expert, units, sharding, recipe, bytes);
  return list;
}

}  // namespace trainwright
