#pragma once
// Private to the module: how some trainers deal layers out to pipeline ranks, as functions of a
// row.
#include <optional>
#include <string>
#include <vector>

#include "trainwright/layout/layout.h"
#include "trainwright/measured/run.h"
#include "trainwright/model/model.h"

namespace trainwright::detail {

struct StageCut {
  std::vector<std::int64_t> layers;  // of each pipeline rank; empty: as the layout has them
  std::int64_t head = 0;             // the rank that holds it
  std::int64_t last = 0;             // the last rank that holds anything
  std::string broken;                // why the row contradicts itself
};
// "nanotron", "redistributed" (away from the last stage, Vocabulary Parallelism), "items" (Sailor's
// counts of stages, embedding and head among them).
StageCut cut_by(const std::string& name, const MeasuredRun& run, const Model& model,
                const Layout& layout);
std::vector<std::string> cut_names();

}  // namespace trainwright::detail
