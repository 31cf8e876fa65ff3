#pragma once
// A schedule that needs too much made to fit by earlier W: the way a rank would do it at run time.
#include <cstdint>
#include <vector>

#include "trainwright/schedule/clock.h"

namespace trainwright::detail {

// Walks every rank's list with the memory of the clock. Before an action that would exceed the
// rank's cap, W that wait are run, the oldest first; an I that exceeds it even then becomes a B,
// which saves nothing for a later W. The order of everything else stays, so no rank waits for
// itself. What does not fit even so is left as it is. O(actions).
Schedule with_earlier_weights(const Schedule& schedule, const Pricing& pricing,
                              const std::vector<std::int64_t>& cap);

}  // namespace trainwright::detail
