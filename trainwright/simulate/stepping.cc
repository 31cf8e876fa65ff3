#include "trainwright/simulate/stepping.h"

#include <algorithm>

namespace trainwright::detail {
namespace {

constexpr double kPasses = 2;  // what is read and written: states, masters, copies
// What a host moves in its own memory while it steps an optimizer; the ranks of a node share it.
// DeepSpeed's CPU Adam took some 10 s for the 18.2 B parameters of an A100 node (its issue 6834)
// and 8.2 s for 11.6 B (its pull request 735): at 2 x 18 bytes a parameter 65 and 51 GB/s.
constexpr BytesPerSecond kHostUpdates(58e9);
// Where many ranks share a node each has few threads: torchrun gives it one. Eight such ranks took
// 32 ms for a million parameters of each (Megatron-LM fork ISEEKYAN, issue 188), which is 9 GB/s,
// where the first of the reports above also had eight. Between the two.
constexpr BytesPerSecond kHostUpdatesOfMany(30e9);
constexpr std::int64_t kMany = 5;  // ranks of a node
constexpr double kSteps = 5;       // unless a run's own settings say otherwise

Seconds orthogonalised(const SteppedWeight& weight, const AcceleratorRates& rates) {
  const auto [m, n] = std::minmax(weight.in, weight.out);
  const auto product = [&](std::int64_t rows, std::int64_t columns, std::int64_t sum) {
    return product_time({.m = rows, .n = columns, .k = sum, .type = ComputeType::Bf16}, rates);
  };
  return (product(m, m, n) + product(m, m, m) + product(m, n, m)) * kSteps;
}

}  // namespace

void MuonTime::add(const MuonTime& more, double times) {
  dense += more.dense * times;
  expert += more.expert * times;
}

MuonTime muon_time(const std::vector<HeldWeight>& weights, const AcceleratorRates& rates) {
  MuonTime time;
  for (const HeldWeight& weight : weights) {
    if (!weight.trained || !weight.tensor.hidden) continue;
    const double matrices = real(weight.tensor.depth) * real(weight.copies);
    (weight.expert ? time.expert : time.dense) += orthogonalised(weight.tensor, rates) * matrices;
  }
  return time;
}

RankPieces stepping(const Stepped& of, const ParameterBytes& bytes, const SteppedAt& at) {
  const HeldParameters& held = of.held;
  const Sharding& sharding = at.sharding;
  const auto of_rank = [&](auto dense, auto expert, bool cut) {
    return dense / (cut ? real(sharding.dense.ways) : 1.0) +
           expert / (cut ? real(sharding.expert.ways) : 1.0);
  };
  const double trained =
      of_rank(real((held.dense.trained + held.dense.adapters).value()),
              real((held.expert.trained + held.expert.adapters).value()), sharding.states);
  const double states =
      of_rank(real(held.dense.states.value()), real(held.expert.states.value()), sharding.states);
  // Weights without a main copy are read as well; gradients by their norm and by the step.
  const double weight = bytes.master > 0 ? bytes.weight : bytes.weight * kPasses;
  const double each = (bytes.master + bytes.gradient_at_step + bytes.gradient) * kPasses + weight;
  const double moved = trained * each + states * kPasses;
  const auto crossing = [&](double all) { return rounded(RealBytes(all)) / at.host_link; };
  RankPieces rank;
  if (at.away.has(Offload::Optimizer)) {
    // A buffer that is reduced in place stays where it is until the step.
    const bool added_there = sharding.life != GradientLife::Buffer;
    const double on_host = trained * (bytes.master + bytes.weight + bytes.gradient) + states;
    const std::int64_t ranks = largest_node(at.cluster);
    rank.host_step = rounded(RealBytes(on_host * kPasses * real(ranks))) /
                         (ranks < kMany ? kHostUpdates : kHostUpdatesOfMany) +
                     crossing(trained * (bytes.weight + (added_there ? 0.0 : bytes.gradient)));
    if (added_there) rank.crossed = crossing(trained * bytes.gradient);
  } else {
    rank.optimizer = streamed_time(Bytes(static_cast<std::int64_t>(moved)), false, at.rates);
  }
  rank.orthogonal = of_rank(of.muon.dense, of.muon.expert, sharding.states);
  if (at.away.has(Offload::Parameters)) {
    const double whole =
        of_rank(real(held.dense.all.value()), real(held.expert.all.value()), sharding.weights);
    rank.every_forward = rank.every_backward = crossing(whole * bytes.weight);
  }
  return rank;
}

bool may_keep_gradients_apart(const Trainer& trainer) {
  const auto apart = [](const ShardingFacts& facts) {
    const auto fused = std::find(facts.without.begin(), facts.without.end(),
                                 KernelKind::FusedGradientAccumulation);
    return fused != facts.without.end();
  };
  return std::any_of(trainer.shardings.begin(), trainer.shardings.end(), apart);
}

}  // namespace trainwright::detail
