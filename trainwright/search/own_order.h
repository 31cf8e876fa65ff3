#pragma once
// An order of its own for a layout, in place of a fixed kind. Part of the public face; include
// trainwright/search/search.h.
//
// Trainers that read an order of actions from a file run any. The automatic scheduler
// (schedule/auto.h) makes one of the seconds that F, I, W and transfers take on the layout's own
// stages. Every rank may hold as many activations as leave its chance of OOM at the question's
// risk, by the referee's memory of the fixed order; the referee then judges what was found, and
// where it needs more the caps are lowered by what it counted more, a few times. So time and memory
// are those that `estimate --schedule FILE.csv` tells. Where nothing that was found is faster, the
// answer is the fixed order itself.
//
// No part of the proof of `search`, which is of fixed kinds. Its own: no order of these stages that
// the trainer runs makes a shorter step than `least`, whatever its memory.
//
// Cost: O(kOrderBudget + actions of the step) for each cap, at most kOrderRounds of them, and a
// replay of each; counted, so the same question has the same answer on any machine.
#include <cstdint>
#include <optional>

#include "trainwright/base/result.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/search/search.h"

namespace trainwright {

inline constexpr int kOrderRounds = 4;
// Actions to place in each search, and the most F, I and W of a step that are ordered at all.
inline constexpr std::int64_t kOrderBudget = 1'000'000, kMostOrdered = 200'000;

struct OwnOrder {
  Schedule order;
  PlannedLayout plan;  // schedule=csv, as the referee has it; within the risk
  // The step with the layout's fixed kind: as the search has it, or by the clock over all of its
  // actions as of any order, if that is less. Then a gain is none of two ways to count.
  Seconds fixed;
  Seconds least;       // no order of the layout that the trainer runs takes less
  bool split = false;  // the trainer runs I and W apart in this layout
};
double gain(const OwnOrder& own);  // 1 - step / fixed; 0 or less: the fixed kind is no slower
double gap(const OwnOrder& own);   // step / least - 1

// A layout's pipeline with the bytes that its stages keep, of at most so many micro-batches.
Result<std::optional<DrawnPipeline>> drawn_pipeline(const SearchQuestion& question,
                                                    const Layout& layout, const StepPieces& pieces,
                                                    std::int64_t most);

// Nullopt without a pipeline, where the trainer reads no order or refuses any in this layout, where
// the schedule is fixed beforehand, where there are too many actions, and where none that was found
// fits.
Result<std::optional<OwnOrder>> own_order(const SearchQuestion& question,
                                          const PlannedLayout& fixed);

}  // namespace trainwright
