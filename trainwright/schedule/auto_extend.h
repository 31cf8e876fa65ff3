#pragma once
// From few micro-batches to many: repeats a stretch of the steady state.
//
// Cut every rank's string at a place such that what lies before all cuts is closed under "needs"
// (no node before a cut waits for one behind a cut), and such that the next stretch of every rank
// holds each of its kinds exactly q times. Then the stretch can be repeated: memory levels repeat
// with it, and a copy depends on itself and on earlier copies in the same way as the original, so
// the longer order fits the cap and cannot wait for itself.
#include <vector>

#include "trainwright/schedule/auto_candidate.h"

namespace trainwright::detail {

// Up to two orders for `more` additional micro-batches. Cuts at many times are tried with a few
// additional micro-batches; those whose period is shortest are returned.
std::vector<PipelineOrder> extensions(const PipelineProblem& problem, const Candidate& candidate,
                                      int more, Purse& purse);

}  // namespace trainwright::detail
