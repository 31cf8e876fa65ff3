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

// Weights one rank holds, without those of adapters, which are in the list (`totals` adds them).
// Expert weights are sharded over another group (edp), hence apart.
struct HeldParameters {
  Params dense, expert;
  Params trained_dense, trained_expert;      // of these, those that get gradients
  Params adapter_dense, adapter_expert;      // beside these: low-rank adapters, all trained
  Params quantised_dense, quantised_expert;  // of the first two, or prepared, and their bytes
  Bytes stored_dense, stored_expert;
  Bytes unsharded_dense, unsharded_expert;  // of these, scales that no sharding cuts
  Bytes states_dense, states_expert;        // that an optimizer makes for what is trained
  Bytes step_dense, step_expert;            // temporaries of its step
  Params replicated;  // of `dense`: the same on every rank of tp (norms, router, ...)
  // Of the first two: matrices that low-precision products take.
  Params low_precision_dense, low_precision_expert;
  void add(const HeldParameters& other, std::int64_t times);
  HeldParameters& operator+=(const HeldParameters& other);
  friend bool operator==(const HeldParameters&, const HeldParameters&) = default;
};
// One weight as from layer_weights (of that kind), embedding_weights, head_weights or mtp_weights
// (no kind). A tied head counts nothing: see embedding_copies.
HeldParameters held_parameters(const Weight& weight, const LayerKind* kind, const Slice& slice,
                               const Recipe& recipe);
HeldParameters held_parameters(std::span<const Weight> weights, const LayerKind* kind,
                               const Slice& slice, const Recipe& recipe);

// Copies of the embedding's table that a stage holds: one for a tied head on another pipeline rank,
// one for MTP modules on another stage where the trainer makes it. The gradients of the table and
// of one copy on each rank are summed up once a step.
std::int64_t embedding_copies(const Stage& stage, const Model& model, const Recipe& recipe);

// Equal tensors of weights that a rank holds.
struct HeldWeight {
  SteppedWeight tensor;
  std::int64_t copies = 1;  // experts that have one each
  bool expert = false, trained = true, adapter = false;
  Bytes stored;  // of one, where it is quantised
};
std::vector<HeldWeight> held_weights(std::span<const Weight> weights, const LayerKind* kind,
                                     const Slice& slice, const Recipe& recipe);
// Adds what an optimizer makes for them.
void add_states(HeldParameters& held, std::span<const HeldWeight> weights, const Recipe& recipe);

}  // namespace trainwright
