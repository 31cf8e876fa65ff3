#pragma once
// Private to the module: what a case holds beyond its layout, so that its bytes can be counted.
//
// A spread vocabulary (arXiv:2411.05288) cuts embedding and head over all ranks of the pipeline:
// each holds V / p rows of both tables, and runs its share of the head for every micro-batch. Some
// orders of the papers are known only by how many micro-batches they hold.
#include <optional>

#include "trainwright/calibrate/case.h"
#include "trainwright/memory/memory.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright::detail {

// A schedule with so many more micro-batches in flight on each rank: its forwards come earlier by
// that many. Every order of forwards and every order of backwards stays as it was.
Schedule with_more_in_flight(const Schedule& schedule, const std::vector<std::int64_t>& more);
// Paddle's ZB-H1 (distributed/passes/pipeline_scheduler_pass/pipeline_zero_bubble.py, April 2024):
// rank r puts off W of its first r micro-batches to the end, and of its last one until I is done;
// the others have a whole B.
Schedule first_weights_last(const Schedule& one_f_one_b);
// The schedule that holds what the case holds; none where the layout's own does. Orders found by a
// search stand as 1F1B: of them only the limit is published.
Result<std::optional<Schedule>> schedule_of(const Case& made);

// The model whose ends are those of one rank: V / p rows in each table.
Model model_of_one_rank(const Case& made, const Model& model);
// What a rank holds beside the stages of that model: bytes that stand, and those of a micro-batch
// that come and go.
struct VocabularyShare {
  double standing = 0, coming = 0;
};
Result<VocabularyShare> vocabulary_share(const Case& made, const Model& of_one_rank,
                                         const Trainer& trainer, const RankClass& rank);

}  // namespace trainwright::detail
