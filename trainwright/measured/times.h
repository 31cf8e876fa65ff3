#pragma once
// Private to the module: how long a step took, where a source prints no time but a rate.
#include <optional>
#include <string>
#include <vector>

#include "trainwright/measured/run.h"
#include "trainwright/measured/source.h"

namespace trainwright::detail {

struct StepTime {
  Seconds time;
  std::string note;  // what it was worked out from; empty where it is printed
};
// In this order, as far as the row has it:
//
//   the printed time
//   tokens of a step / (tokens/s of one accelerator x accelerators)
//   FLOPs of a step / (FLOP/s of one accelerator x accelerators), with the formula that the source
//   itself made its FLOP/s or its share of peak with
//
// None of a run that failed.
std::optional<StepTime> step_time_of(const MeasuredRun& row, const FlopsRule& rule);

// FLOPs of a step by one of these formulas; nullopt where a column is missing.
//
//   megatron  24 k B s L h^2 (1 + s / 6h) + 6 B s h V, k = 3 passes or 4 with full recompute
//             (arXiv:2104.04473, equation 3, for k = 4)
std::optional<double> flops_of_step(const std::string& name, const MeasuredRun& row);
std::vector<std::string> flops_names();

}  // namespace trainwright::detail
