#pragma once
// Private to the module: orders of actions that a layout's schedule does not have.
#include <optional>

#include "trainwright/base/json.h"
#include "trainwright/layout/layout.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright::detail {

// What "order" of a rule says, filled in:
//   {"up_to": 16}          1F1B, with as many micro-batches in flight on every rank;
//   {"more": 2}            1F1B (V-Half where the layout has it), with so many more on every rank;
//   {"weights_last": true} Paddle's ZB-H1 (distributed/passes/pipeline_scheduler_pass/
//                          pipeline_zero_bubble.py, April 2024): rank r puts off W of its first r
//                          micro-batches to the end, and of its last one until I is done; the
//                          others have a whole B.
// Orders found by a search stand as 1F1B: of them only the limit is published.
Result<Schedule> order_of(const Json& order, const Layout& layout);

// A schedule with so many more micro-batches in flight on each rank: its forwards come earlier by
// that many. Every order of forwards and every order of backwards stays as it was.
Schedule with_more_in_flight(const Schedule& schedule, const std::vector<std::int64_t>& more);
Schedule first_weights_last(const Schedule& one_f_one_b);

}  // namespace trainwright::detail
