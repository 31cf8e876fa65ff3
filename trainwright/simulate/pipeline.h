#pragma once
// The pipeline inside a step. Part of the public face; include trainwright/simulate/simulate.h.
#include <cstdint>
#include <optional>

#include "trainwright/schedule/schedule.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright {

// The order of a step's actions and the seconds of each, of at most so many micro-batches (at least
// one): for drawings, and for other orders of the same stages. Nullopt without a pipeline. Bytes
// are left to the caller.
struct DrawnPipeline {
  Schedule schedule;
  Costs costs;
};
std::optional<DrawnPipeline> drawn_pipeline(const StepPieces& pieces, const StackConstants& stack,
                                            std::int64_t most);

// The same step with another order, whose passes take so long by the clock of schedule.h. With a
// bound of all orders (`lower_bound`) no order of these stages makes a shorter step.
StepPieces with_makespan(StepPieces pieces, const StackConstants& stack, Seconds makespan);

}  // namespace trainwright
