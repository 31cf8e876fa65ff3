#pragma once
// What the stages of a pipeline cost. Part of the public face; include
// trainwright/schedule/schedule.h.
#include <array>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/base/units.h"

namespace trainwright {

// Most alive within an action above what was alive before it: temporaries as well as what stays.
// A stage's first W or B makes the weights' gradients, the others add to them; where its peak is
// not known (0), it is theirs and the gradients.
struct InnerPeaks {
  Bytes forward, backward_input, backward_weight, backward;
  Bytes first_weight = {}, first_backward = {};
};
constexpr std::array<Bytes, 6> all_of(const InnerPeaks& peaks) {
  return {peaks.forward,  peaks.backward_input, peaks.backward_weight,
          peaks.backward, peaks.first_weight,   peaks.first_backward};
}
// What one stage costs per micro-batch. Memory: `kept` is taken when F starts; I releases
// `released_by_input` when it ends (negative if it keeps more than it frees), W the rest; B all.
// Weights and optimizer states are `resident`, `gradients` there from the first W or B on. Where
// `inside` is not known (0) an action counts with what it leaves behind.
struct StageCosts {
  Seconds forward, backward_input, backward_weight;
  Seconds backward;  // fused; usually input + weight
  Bytes kept, released_by_input;
  Bytes resident = {}, gradients = {};
  InnerPeaks inside = {};
};
// Between stage s and s+1 when they lie on different ranks: time of the activation down and of the
// gradient back, and the size of either.
struct BoundaryCosts {
  Seconds activation, gradient;
  Bytes size;
};
struct Costs {
  std::vector<StageCosts> stages;
  std::vector<BoundaryCosts> boundaries;  // one fewer than stages
  Seconds loss;                           // added to F of the last stage
  Seconds per_action;                     // the engine's own cost, added to every action
  bool in_forwards = false;               // times are multiples of one forward, not seconds
  double overlap = 0;  // of a group's shorter members hidden by the longest: 0 none, 1 all
};
// The same for every stage; one kept byte per stage and micro-batch, so that memory counts
// activations; B = I + W.
Costs even_costs(int stages, Seconds forward, Seconds backward_input, Seconds backward_weight,
                 Seconds transfer = {});

// Sizes that do not match, times that are not finite and at least 0, bytes that could overflow.
Diagnostics check_costs(const Costs& costs, int stages, int microbatches);

}  // namespace trainwright
