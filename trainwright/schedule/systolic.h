#pragma once
// The fast form of the streamed clock: the looped kinds as a systolic array.
//
// Give F number i of rank r the level 2i + b r and B (or I) number k the level 2k + l(r), with
// l(r) = 2 warmup(r) + 1 + b r. Where these levels rise along every dependency, all ranks can be
// stepped level by level: a rank's input is what its neighbour made one or two levels before, so
// there are no queues except the two that lead from one chunk to the next. Times are the same
// sums and maxima as in clock.h, so the makespan is the same to the last bit.
#include <optional>

#include "trainwright/schedule/clock.h"
#include "trainwright/schedule/order.h"

namespace trainwright::detail {

// Totals of the plan; nullopt when levels do not rise (short groups, m < p), transfers block or
// queue, or actions peak within, which the general clock can do. O(actions) time, O(stages + ranks)
// memory.
std::optional<Timeline> run_systolic(const LoopedPlan& plan, const Pricing& pricing);

}  // namespace trainwright::detail
