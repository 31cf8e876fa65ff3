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

// A lower bound, from `StepModel::whole`: no layout with these degrees, this micro-batch, recompute
// and sharding takes less, however its layers are dealt out, if its schedule leaves every rank idle
// for so many micro-batches: the slowest takes at least the mean, roots add up to more. O(1).
struct LeastStep {
  Seconds micro_batch, end, peak;        // of a rank; its products at the accelerator's peak
  double micro_batches = 1, factor = 1;  // the latter of waiting and scale
  Seconds fixed;                         // with its scale
  Seconds with_idle(double idle) const;
};
LeastStep least_step(const StepPieces& whole, const StackConstants& stack);
// That any rank stands idle at least: 1f1b and gpipe p - 1, interleaved (p - 1) / v, others 0.
double least_idle(ScheduleKind schedule, std::int64_t pp, std::int64_t vpp);

}  // namespace trainwright
