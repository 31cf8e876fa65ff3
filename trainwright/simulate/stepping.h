#pragma once
// Private: what the optimizer takes on a rank, once a step.
//
// On the device it reads and writes its states and main weights, writes the weights that kernels
// read, and reads gradients twice: for their norm and for the step. States on the host are stepped
// at the host's pace, and weights come back; gradients go there once a step, or in every
// micro-batch where they are added up there. Muon works on gradients first: five times for each
// hidden matrix X of m x n numbers, m the lesser, in bf16 (Newton and Schulz' iteration: torch 2.13
// optim/_muon.py, Emerging-Optimizers muon_utils.py newton_schulz, which Megatron-Core calls)
//
//   A = X X^T   m x m x n      B = b A + c A A   m x m x m      X = a X + B X   m x n x m
//
// A shard of tensor parallelism counts as a matrix of its own, as in Megatron-Core unasked
// (--muon-tp-mode blockwise). Ranks that share states share the matrices, taken as dealt out
// evenly; what travels for that is left out.
#include <vector>

#include "trainwright/simulate/simulate.h"

namespace trainwright::detail {

// Muon's products for weights: of experts, and of all others.
struct MuonTime {
  Seconds dense, expert;
  void add(const MuonTime& more, double times);
};
// O(weights).
MuonTime muon_time(const std::vector<HeldWeight>& weights, const AcceleratorRates& rates);

// What a stage's optimizer works on.
struct Stepped {
  HeldParameters held;
  MuonTime muon;
};
// Where states and weights lie, and the ways there.
struct SteppedAt {
  const Sharding& sharding;
  Flags<Offload> away;
  const Cluster& cluster;
  BytesPerSecond host_link;
  const AcceleratorRates& rates;
};
// Weights on the host come for every pass.
RankPieces stepping(const Stepped& of, const ParameterBytes& bytes, const SteppedAt& at);
// Whether a way to share weights makes gradients in the weights' dtype where others add them up.
bool may_keep_gradients_apart(const Trainer& trainer);

}  // namespace trainwright::detail
