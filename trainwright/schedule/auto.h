#pragma once
// The best schedule under a memory cap. Part of the public face; include
// trainwright/schedule/schedule.h.
//
// Searches orders of F, I, W (an adjacent I, W pair becomes B) for the shortest makespan whose
// memory stays under the cap on every rank. Deterministic for a seed, counted in evaluations and
// never in seconds, not worse than the best fixed kind that fits. The answer comes with a lower
// bound that knows the cap: work of the busiest rank with its shortest way in and out, and the sum
// of minimal activation lifetimes <= cap x makespan.
#include <cstdint>
#include <optional>
#include <vector>

#include "trainwright/schedule/schedule.h"

namespace trainwright {

struct AutoOptions {
  int chunks = 1;                                                // stages per rank
  std::vector<PlacementStyle> placements = {PlacementStyle::V};  // tried in this order
  std::vector<Bytes> cap;          // by rank, or one for all; empty: no cap
  std::int64_t evaluations = 200;  // whole schedules dispatched or simulated
  std::uint64_t seed = 1;
  ClockOptions clock;
};

struct AutoSchedule {
  std::optional<Schedule> schedule;  // none when nothing fits the cap
  Timeline timeline;                 // totals of it, by `simulate`
  Seconds lower_bound;               // of any schedule of these costs, placements and cap
  Bytes smallest_cap;                // the smallest cap found that some schedule fits
  std::int64_t evaluations = 0;      // spent
  std::int64_t actions = 0;          // placed in them
};
double gap(const AutoSchedule& found);  // makespan / lower bound - 1; infinite without a schedule

// Costs are by stage, ranks x chunks of them. Faults: sizes that do not match, chunks or placements
// out of range, negative or infinite costs.
Result<AutoSchedule> make_auto(int ranks, int microbatches, const Costs& costs,
                               const AutoOptions& options = {});

// No schedule of that placement can be shorter. `cap` as in AutoOptions.
Seconds lower_bound(const Placement& placement, int microbatches, const Costs& costs,
                    const std::vector<Bytes>& cap = {}, const ClockOptions& clock = {});

}  // namespace trainwright
