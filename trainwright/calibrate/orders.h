#pragma once
// Private to the module: orders of papers that no schedule kind has. Of some only is known how many
// micro-batches they hold.
#include <optional>

#include "trainwright/calibrate/case.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright::detail {

// A schedule with so many more micro-batches in flight on each rank: its forwards come earlier by
// that many. Every order of forwards and every order of backwards stays as it was.
Schedule with_more_in_flight(const Schedule& schedule, const std::vector<std::int64_t>& more);
// Paddle's ZB-H1 (distributed/passes/pipeline_scheduler_pass/pipeline_zero_bubble.py, April 2024):
// rank r puts off W of its first r micro-batches to the end, and of its last one until I is done;
// the others have a whole B.
Schedule first_weights_last(const Schedule& one_f_one_b);
// The schedule that holds what the case holds; none where the layout's own does. Orders found by a
// search stand as 1F1B: of them only the limit is published.
Result<std::optional<Schedule>> schedule_of(const Case& made);

}  // namespace trainwright::detail
