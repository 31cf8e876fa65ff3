#pragma once
// Private to the module: the constants of memory, fitted to rows.
#include <optional>
#include <vector>

#include "trainwright/calibrate/calibrate.h"

namespace trainwright::detail {

using Indices = std::vector<std::size_t>;  // of rows

// Everything taken from the rows that were fitted on.
struct MemoryLesson {
  MemoryFit values{};
  std::int64_t constants = 0;   // of them, how many were fitted
  double cost = 0;              // of those rows, as the fit counts it
  Interval log_interval;        // of log(measured / predicted), 90 %
  std::optional<ErrorLaw> law;  // for verdicts
};

// `weights` are those of the rows `among`.
MemoryLesson learn_memory(const std::vector<ScoredRow>& rows, const Indices& among,
                          const std::vector<double>& weights, Learned learned);
// Every source weighs as much as 25 rows, however many it has.
std::vector<double> weights_by_source(const std::vector<ScoredRow>& rows, const Indices& among);

}  // namespace trainwright::detail
