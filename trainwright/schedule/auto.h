#pragma once
// The best schedule under a memory cap. Part of the public face; include
// trainwright/schedule/schedule.h.
//
// Searches orders of F, I, W for the shortest makespan whose memory stays under the cap on every
// rank. It starts from building blocks that repeat with a period (the idea of V-Min, V-Half and
// ZB-V), from list dispatches and from the fixed kinds, pushes everything late and early in turn
// ("justification"), shakes and anneals the best, and repeats the steady state when there are many
// micro-batches. An adjacent I, W pair becomes B where that costs no time.
//
// Deterministic, and counted in actions placed, never in seconds: a larger budget never gives a
// longer schedule. Not worse than any fixed kind of the same placement that fits. The search knows
// transfers that overlap with work on links without limit; under other clock options the schedules
// found so are compared by those.
#include <cstdint>
#include <optional>
#include <vector>

#include "trainwright/schedule/schedule.h"

namespace trainwright {

struct AutoOptions {
  int chunks = 1;                                                // stages per rank
  std::vector<StagePlacement> placements = {StagePlacement::V};  // the shortest of them is taken
  std::vector<Bytes> cap = {};                                   // by rank, or one; empty: none
  // Actions to place while searching. 0: 300,000 (3 million for a schedule of up to 3,000 actions)
  // and 24 for each action of the schedule, which is under a second for 64 ranks x 512
  // micro-batches.
  std::int64_t budget = 0;
  Seconds good_enough = {};  // may stop at this makespan
  bool whole = false;        // every backward is one action, B
  ClockOptions clock = {};
};

struct AutoSchedule {
  std::optional<Schedule> schedule;  // none when nothing fits the cap
  Timeline timeline;                 // totals of it, by `simulate`
  Seconds lower_bound;               // of any schedule of these costs, options and cap
  // The smallest cap, the same for all ranks, that can be met; where costs have peaks inside
  // actions, the smallest that is known to be.
  Bytes smallest_cap;
  std::int64_t evaluations = 0;  // schedules dispatched or timed
  std::int64_t actions = 0;      // placed in them
};
double gap(const AutoSchedule& found);  // makespan / lower bound - 1; infinite without a schedule

// Costs are by stage, ranks x chunks of them. Faults: sizes that do not match, more than 32 chunks,
// several chunks placed singly, negative or infinite costs, more than 2^24 actions.
Result<AutoSchedule> make_auto(int ranks, int microbatches, const Costs& costs,
                               const AutoOptions& options = {});

// Of the same stages where no backward is split, for bounds of such schedules: I does all of B.
Costs with_whole_backward(Costs costs);

// No schedule of that placement can be shorter, whether it splits the backward or not, unless
// `costs.overlap` lets it run groups of more than two actions at once. `cap` as in AutoOptions.
// Every rank r gives a bound:
//   work      way in to r + all work of r;
//   start     first I on r + work of r - the F that the cap admits before it;
//   end       the same from the last F on r to the end of the step; and both together;
//   way back  start + all F and I of r + the way of the last I's gradient to the first stage;
//   memory    way in to r + sum of shortest lifetimes x bytes / cap.
Seconds lower_bound(const Placement& placement, int microbatches, const Costs& costs,
                    const std::vector<Bytes>& cap = {}, const ClockOptions& clock = {});

}  // namespace trainwright
