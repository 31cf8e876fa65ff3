#pragma once
// The weights that one rank holds. Part of work.h: include that one.
#include <cstdint>
#include <span>
#include <vector>

#include "trainwright/base/units.h"
#include "trainwright/model/model.h"
#include "trainwright/trainer/trainer.h"
#include "trainwright/work/slice.h"

namespace trainwright {

// An entry: a weight as one rank holds it, or equal ones. Matrices that one product multiplies with
// are one entry; adapters and trained copies of frozen weights have their own.
struct HeldWeight {
  SteppedWeight tensor;
  std::int64_t copies = 1;  // experts that have one each
  bool expert = false, trained = true, adapter = false;
  bool replicated = false;     // the same on every rank of tp: norms, router, ...
  bool low_precision = false;  // multiplied in 8 or 4 bits by recipes that do so
  Bytes stored;                // of one, where it is quantised or prepared, and
  Bytes unsharded;             // of these, scales that no sharding cuts
};
// Of `weights` as from layer_weights, embedding_weights, head_weights or mtp_weights, which the
// products of `list` multiply with: first matrices in the order of the products, with adapters;
// then tables, vectors and biases. A tied head is no entry: see StageWeight.
std::vector<HeldWeight> held_weights(std::span<const Weight> weights, const OperatorList& list,
                                     const Slice& slice, const Recipe& recipe);

// Sums over the weights that one rank holds, by the group of ranks that share them: experts are
// sharded over another one (edp).
struct HeldGroup {
  Params all;            // the model's: what is beside these are
  Params adapters;       // low-rank adapters and copies of their dtype, all trained
  Params trained;        // of `all`, those that get gradients
  Params low_precision;  // of `all`
  Params quantised;      // of `all`, and their bytes:
  Bytes stored, unsharded;
  Bytes states, step;  // that an optimizer makes for what is trained; temporaries of its step
  void add(const HeldGroup& other, std::int64_t times);
  friend bool operator==(const HeldGroup&, const HeldGroup&) = default;
};
struct HeldParameters {
  HeldGroup dense, expert;
  Params replicated;
  void add(const HeldParameters& other, std::int64_t times);
  HeldParameters& operator+=(const HeldParameters& other);
  friend bool operator==(const HeldParameters&, const HeldParameters&) = default;
};
// A sum of both groups.
constexpr auto both(const HeldParameters& held, auto HeldGroup::* of) {
  return held.dense.*of + held.expert.*of;
}
HeldParameters held_parameters(std::span<const HeldWeight> weights, const Recipe& recipe);

}  // namespace trainwright
