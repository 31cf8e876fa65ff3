#pragma once
// A schedule under search, and the purse of work the search may spend.
#include <cstdint>
#include <vector>

#include "trainwright/schedule/auto_problem.h"

namespace trainwright::detail {

// Where a schedule came from, so that its start can be made again for other micro-batches.
struct Recipe {
  std::int64_t block = -1;  // number of a building block, or
  std::int64_t keys = -1;   // of a key dispatch
  double patience = 0;      // of the justification that followed
};

struct Candidate {
  PipelineOrder order;
  std::vector<double> end;  // by node
  double makespan = kNever;
  Recipe recipe = {};
};

// Work is counted in nodes placed by a dispatch or a clock, never in seconds, so that the same
// budget gives the same schedule on every machine.
struct Purse {
  std::int64_t limit = 0;
  std::int64_t spent = 0;
  std::int64_t evaluations = 0;
  double good_enough = 0;  // the search may stop at this makespan

  bool empty() const { return spent >= limit; }
  void pay(const PipelineProblem& problem) {
    spent += problem.nodes();
    ++evaluations;
  }
};

}  // namespace trainwright::detail
