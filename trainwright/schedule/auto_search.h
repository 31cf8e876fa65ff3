#pragma once
// The search for a short order under the caps.
//
// A sequence of phases, each twice as long as the one before. A phase takes new starting orders
// (building blocks and key dispatches), justifies the best, shakes and anneals the best of all,
// and, when it worked on fewer micro-batches than asked for, extends what it found. The sequence
// does not depend on the budget; the budget only says where it stops, so more of it never gives a
// longer schedule.
#include <vector>

#include "trainwright/schedule/auto_candidate.h"

namespace trainwright::detail {

// The best order found for the whole problem. `known` are orders of the whole problem to start with
// (those of fixed kinds); ones that do not fit are left out. Every cap must be at least the
// smallest.
Candidate search(const PipelineProblem& problem, const std::vector<PipelineOrder>& known,
                 Purse& purse);

// A budget that keeps the time of a call in proportion: nodes that may be placed.
std::int64_t default_budget(const PipelineProblem& problem);

}  // namespace trainwright::detail
