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

// Weights of one sort and who shares them.
struct Shared {
  Params count;
  Params low_precision;
  const Sharers& sharers;
};

// Of gathered weights: in fp8 if asked for and taken.
Bytes gathered_bytes(const Shared& weights, const Sharding& sharding, const Recipe& recipe) {
  const double whole = static_cast<double>(byte_size(recipe.weight));
  if (!sharding.fp8_gather) return times(weights.count, whole);
  return times(weights.low_precision, 1) + times(weights.count - weights.low_precision, whole);
}

void add_traffic(std::vector<ParameterTraffic>& list, const Shared& weights, std::int64_t units,
                 const Sharding& sharding, const Recipe& recipe, const ParameterBytes& bytes) {
  if (weights.count == Params(0)) return;
  const Sharers& among = weights.sharers;
  const std::int64_t calls = sharding.by_unit ? units : 1;
  const bool every = sharding.reduce == Reduce::MicroBatch;
  const Bytes gradients = times(weights.count, bytes.gradient);
  if (among.ways > 1 && sharding.gather != Gather::Never) {
    const Bytes whole = gathered_bytes(weights, sharding, recipe);
    list.push_back({CollectiveKind::AllGather, among.shard, Pass::Forward, calls, whole,
                    sharding.gather != Gather::Step});
    if (sharding.gather == Gather::Pass) {
      list.push_back(
          {CollectiveKind::AllGather, among.shard, Pass::InputGradient, calls, whole, true});
    }
  }
  if (among.ways > 1) {
    list.push_back({CollectiveKind::ReduceScatter, among.shard, Pass::WeightGradient, calls,
                    gradients, every});
  }
  if (among.replicas > 1) {
    list.push_back({CollectiveKind::AllReduce, among.replicate, Pass::WeightGradient, calls,
                    gradients / among.ways, every});
  }
}

}  // namespace

std::vector<ParameterTraffic> parameter_traffic(const HeldParameters& stage, std::int64_t units,
                                                const Sharding& sharding, const Recipe& recipe,
                                                const ParameterBytes& bytes) {
  std::vector<ParameterTraffic> list;
  // Of the copies in low precision, those of experts are all of the experts' matrices.
  const Params expert_low = std::min(stage.expert, stage.low_precision);
  add_traffic(list, {stage.dense, stage.low_precision - expert_low, sharding.dense}, units,
              sharding, recipe, bytes);
  add_traffic(list, {stage.expert, expert_low, sharding.expert}, units, sharding, recipe, bytes);
  return list;
}

}  // namespace trainwright
