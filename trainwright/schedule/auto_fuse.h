#pragma once
// One B for an adjacent I, W pair, where the longer wait for its gradient costs nothing.
#include <vector>

#include "trainwright/schedule/auto_problem.h"

namespace trainwright::detail {

// By micro-batch of each stage (stage * micro_batches + micro_batch): whether its backward is one
// action. `fused` is the duration of B by stage. The order must not wait for itself. A pair is
// fused if the gradient still arrives before the latest time at which its receiver may start
// without lengthening the schedule; as every action then keeps its latest time, so does the end.
std::vector<char> fuse_pairs(const PipelineProblem& problem, const PipelineOrder& order,
                             const std::vector<double>& fused);

}  // namespace trainwright::detail
