#pragma once
// Private: bytes per parameter, and over how many ranks they are spread.
#include "trainwright/base/result.h"
#include "trainwright/layout/layout.h"
#include "trainwright/memory/chunk.h"
#include "trainwright/memory/memory.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright::detail {

// Everything about weights, gradients and states that does not depend on the stage. Bare numbers
// are bytes per parameter, or counts of parameters.
struct StateRules {
  ParameterBytes bytes, adapter;     // of the model's parameters and of adapters'
  double compute = 2;                // of a gathered parameter of the model
  double compute_low = 2;            // likewise of one that low-precision products take
  std::optional<double> stored_low;  // these are stored in 8 bits: where they are cut
  Sharding sharding;
  bool head_stays = false;       // FSDP2: its last unit stays gathered from forward to backward
  bool root_unit = false;        // FSDP2: embedding and head are one unit, which the others are in
  double live_parameters = 0;    // most that are gathered at once; 0: two layers
  bool weights_moved = false;    // made one by one, then moved into one buffer
  double step_gathers = 0;       // whole copies of the weights while the step gathers them
  bool by_matrix = false;        // weights and states are made one by one
  double made = 2;               // bytes of a weight at first
  double bucket_parameters = 0;  // of one bucket on its way; or its size:
  RealBytes bucket_bytes;
  bool offload_optimizer = false, offload_parameters = false, offload_activations = false;
  bool offload_gradients = false;  // with the states
};
Result<StateRules> state_rules(const Layout& layout, const Job& job, const Trainer& trainer,
                               const Cluster& cluster);

// What stands all step for weights and states of one rank, and what the step needs beside.
struct States {
  RealBytes weights, main_weights, gradients, states;
  RealBytes buckets;
  RealBytes step;         // gradients copied or flattened for the step, weights gathered after it
  RealBytes flattened;    // of `step`: the bucket gradients are flattened into
  RealBytes gathered;     // of `step`: weights
  RealBytes temporaries;  // of `step`: what the optimizer makes and drops
};
States states_of(const StateRules& rules, const HeldParameters& held);
// Of `step`, what stays until the next one begins.
inline RealBytes copied_gradients(const States& states) {
  return states.step - states.flattened - states.gathered - states.temporaries;
}
PassBytes pass_bytes(const StateRules& rules);
// Of the gradients of these parameters, where they come and go: whole while micro-batches are
// summed up if they are cut at the step only, else as stored.
RealBytes coming_gradients(const StateRules& rules, const HeldParameters& held);

}  // namespace trainwright::detail
