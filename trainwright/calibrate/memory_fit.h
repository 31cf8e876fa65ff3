#pragma once
// Private to the module: the constants of memory, fitted to rows.
#include <map>
#include <optional>
#include <string>
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

MemoryLesson learn_memory(const std::vector<ScoredRow>& rows, const Indices& among,
                          Learned learned);

// By source, the constants that its rows tell and the values that fit it best.
using OwnValues = std::map<std::string, std::map<MemoryConstant, double>>;
OwnValues own_values(const std::vector<ScoredRow>& rows);
// Of every constant the median of what sources say, one of them left out, so that a source whose
// tensors are not understood does not decide for the others.
MemoryFit agreed(const OwnValues& own, const std::string& but);
// Values that are given, and how wrong they are on these rows.
MemoryLesson judged_on(const std::vector<ScoredRow>& rows, const Indices& among,
                       const MemoryFit& values);

}  // namespace trainwright::detail
