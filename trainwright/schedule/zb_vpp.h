#pragma once
// Public: ZB-VPP under a cap in bytes (docs/zb-vpp.md explains it).
//
// A wave of stages, two or more on each rank, dispatched greedily in simulated time: a free rank
// runs an I or an F whose input is there, by turns, the F only if it leaves room for the later
// chunks of its micro-batch; else a W, which so fills bubbles. Where the cap leaves no room, W come
// earlier. What counts is all that the clock sees: what stands, gradients, and what an action needs
// while it runs.
#include <vector>

#include "trainwright/schedule/schedule.h"

namespace trainwright {

// `cap`: one for all ranks, or one for each. Fails with the smallest that can be met where it is
// less. O(actions log ranks).
Result<Schedule> make_zb_vpp_under(Shape shape, const Costs& costs, const std::vector<Bytes>& cap,
                                   const ClockOptions& clock = {});

// The smallest cap, the same for all ranks, that any order of F, I and W or B of these stages can
// meet: that of one micro-batch after the other.
Bytes smallest_cap(const Placement& placement, int microbatches, const Costs& costs,
                   const ClockOptions& clock = {});

}  // namespace trainwright
