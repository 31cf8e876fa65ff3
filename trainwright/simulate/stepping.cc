#include "trainwright/simulate/stepping.h"

#include <algorithm>

namespace trainwright::detail {
namespace {

constexpr double kPasses = 2;  // states, masters and gradients are read, most are written
// What a host moves in its own memory while it steps an optimizer; the ranks of a node share it.
// DeepSpeed's CPU Adam took some 10 s for the 18.2 B parameters of an A100 node (its issue 6834)
// and 8.2 s for 11.6 B (its pull request 735): at 2 x 18 bytes a parameter 65 and 51 GB/s.
constexpr BytesPerSecond kHostUpdates(58e9);
constexpr double kSteps = 5;  // unless a run's own settings say otherwise

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
      of_rank(real((held.trained_dense + held.adapter_dense).value()),
              real((held.trained_expert + held.adapter_expert).value()), sharding.states);
  const double states =
      of_rank(real(held.states_dense.value()), real(held.states_expert.value()), sharding.states);
  const double each = bytes.master + bytes.gradient_at_step + bytes.weight;
  const double moved = (trained * each + states) * kPasses;
  const auto crossing = [&](double all) { return rounded(RealBytes(all)) / at.host_link; };
  RankPieces rank;
  if (at.away.has(Offload::Optimizer)) {
    rank.host_step = rounded(RealBytes(moved * real(largest_node(at.cluster)))) / kHostUpdates +
                     crossing(trained * (bytes.gradient + bytes.weight));
  } else {
    rank.optimizer = streamed_time(Bytes(static_cast<std::int64_t>(moved)), false, at.rates);
  }
  rank.orthogonal = of_rank(of.muon.dense, of.muon.expert, sharding.states);
  if (at.away.has(Offload::Parameters)) {
    const double whole =
        of_rank(real(held.dense.value()), real(held.expert.value()), sharding.weights);
    rank.every_forward = rank.every_backward = crossing(whole * bytes.weight);
  }
  return rank;
}

}  // namespace trainwright::detail
