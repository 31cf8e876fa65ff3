#pragma once
// Public: the bytes of a layout's stages for the clock of schedules.
#include <vector>

#include "trainwright/memory/memory.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright {

// Costs with all bytes: what a micro-batch keeps, what an action needs while it runs, what stands
// on the rank (with its first stage). Under these rules the clock's peak of a rank is what
// `estimate_memory` counts as allocated for the same order, unless the optimizer's step needs more.
struct ClockedBytes {
  Costs costs;
  EngineRules engine = EngineRules::None;
  std::vector<Bytes> at_step;  // by pipeline rank, allocated while the optimizer steps
};
// `times`: of the layout's stages.
Result<ClockedBytes> clocked_bytes(const MemoryQuestion& question, Costs times);

}  // namespace trainwright
