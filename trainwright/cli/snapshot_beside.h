#pragma once
// Private to `trainwright reconcile`: a memory snapshot beside its prediction, category by
// category.
//
// A snapshot tells kinds (docs/trace.md), a prediction categories (memory.h). What is comparable:
//
//   weights                      parameters, buffers               weights, main weights
//   gradients                    gradients                         gradients
//   optimizer states             made in the optimizer's step      optimizer states, step buffers
//   activations and transients   made in forward and backward,     all else that is allocated
//                                inputs
//   allocator slack              reserved - allocated, at most     the same
//
// Blocks of no known kind (made before the recording, or without a stack) make one row of the first
// three, since what stands all step is mostly made early.
#include <string>
#include <vector>

#include "trainwright/cli/setting.h"

namespace trainwright::cli {

struct SnapshotRow {
  std::string what;
  Bytes predicted, measured;
  std::string cause;  // what such a difference mostly comes from
};
struct SnapshotBeside {
  std::int64_t pipeline_rank = 0;
  std::vector<SnapshotRow> rows;  // the largest difference first
  Bytes predicted, measured;      // allocated, at the peak
  std::string explanation;  // a setting or a constant that would make the difference; or empty
};
// A converted snapshot or a recorded trace; `rank`: of the job, without one that of the fullest.
Result<SnapshotBeside> snapshot_beside(const std::string& path, const Question& question,
                                       const MemoryConstants& constants,
                                       const MemoryEstimate& estimate,
                                       std::optional<std::int64_t> rank);
std::string to_text(const SnapshotBeside& beside, int width);
Json to_json(const SnapshotBeside& beside);

}  // namespace trainwright::cli
