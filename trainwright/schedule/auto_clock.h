#pragma once
// The clock of a fixed order: every node starts as soon as its rank is free and its inputs are
// there. O(nodes), no allocation once the scratch space is warm.
#include <cstdint>
#include <vector>

#include "trainwright/schedule/auto_problem.h"

namespace trainwright::detail {

struct OrderClock {
  std::vector<double> end;   // by node
  std::vector<double> free;  // by rank: when its last node ended
  double makespan = kNever;  // kNever: the order waits for itself

  // Runs the order; true when every node was run.
  bool run(const PipelineProblem& problem, const PipelineOrder& order);

 private:
  std::vector<int> next_;            // by kind: the micro-batch it runs next
  std::vector<std::int64_t> place_;  // by rank
  std::vector<int> waits_kind_, waits_batch_;
  std::vector<int> runnable_;
};

// The peak of every rank under an order.
std::vector<std::int64_t> peaks(const PipelineProblem& problem, const PipelineOrder& order);
bool fits(const PipelineProblem& problem, const PipelineOrder& order);

}  // namespace trainwright::detail
