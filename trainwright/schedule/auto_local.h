#pragma once
// Local search around one schedule.
//
// Two neighbourhoods. `shake` disturbs the keys of a schedule (all a little, or one kind of work on
// some ranks by more) and lets a Follow dispatch and a justification round settle it: a move of
// many nodes for two or three dispatches, good at any size. `anneal` moves one node of the critical
// path within its rank's string and asks the clock, as in job-shop search: only such moves can
// shorten the makespan. It is for small problems, where it finds what is left. Both accept by late
// acceptance (Burke and Bykov 2017): not longer than now, or than some moves ago.
#include "trainwright/base/random.h"
#include "trainwright/schedule/auto_justify.h"

namespace trainwright::detail {

Candidate shake(Justifier& justifier, const Candidate& from, int moves, Random& random,
                Purse& purse);
Candidate anneal(Justifier& justifier, const Candidate& from, int moves, Random& random,
                 Purse& purse);

}  // namespace trainwright::detail
