#include "trainwright/schedule/auto_clock.h"

#include <algorithm>

namespace trainwright::detail {
bool OrderClock::run(const PipelineProblem& problem, const PipelineOrder& order) {
  const int m = problem.micro_batches;
  end.resize(at(problem.nodes()));
  free.assign(at(problem.ranks), 0.0);
  next_.assign(at(problem.kinds), 0);
  place_.assign(problem.order_begin.begin(), problem.order_begin.end() - 1);
  waits_kind_.assign(at(problem.ranks), -1);
  waits_batch_.assign(at(problem.ranks), -1);
  runnable_.clear();
  for (int r = problem.ranks; r-- > 0;) runnable_.push_back(r);
  std::int64_t done = 0;
  while (!runnable_.empty()) {
    const int r = runnable_.back();
    runnable_.pop_back();
    waits_kind_[at(r)] = -1;
    const std::int64_t stop = problem.order_begin[at(r) + 1];
    std::int64_t place = place_[at(r)];
    double now = free[at(r)];
    for (; place < stop; ++place) {
      const int kind = order[at(place)];
      const int batch = next_[at(kind)];
      double start = now;
      int missing = -1;
      for (const PipelineEdge edge : problem.before[at(kind)]) {
        if (edge.kind < 0) break;
        if (next_[at(edge.kind)] <= batch) {
          missing = edge.kind;
          break;
        }
        start = std::max(start, end[at(edge.kind) * at(m) + at(batch)] + edge.delay);
      }
      if (missing >= 0) {
        waits_kind_[at(r)] = missing;
        waits_batch_[at(r)] = batch;
        break;
      }
      now = start + problem.duration[at(kind)];
      end[at(kind) * at(m) + at(batch)] = now;
      next_[at(kind)] = batch + 1;
      ++done;
      for (const PipelineEdge edge : problem.after[at(kind)]) {
        if (edge.kind < 0) break;
        const int other = problem.rank_of[at(edge.kind)];
        if (waits_kind_[at(other)] == kind && waits_batch_[at(other)] == batch) {
          waits_kind_[at(other)] = -1;
          runnable_.push_back(other);
        }
      }
    }
    place_[at(r)] = place;
    free[at(r)] = now;
  }
  const bool complete = done == problem.nodes();
  makespan = complete ? *std::max_element(free.begin(), free.end()) : kNever;
  return complete;
}

std::vector<std::int64_t> peaks(const PipelineProblem& problem, const PipelineOrder& order) {
  std::vector<std::int64_t> peak(at(problem.ranks), 0);
  for (int r = 0; r < problem.ranks; ++r) {
    std::int64_t level = 0;
    for (std::int64_t x = problem.order_begin[at(r)]; x < problem.order_begin[at(r) + 1]; ++x) {
      const int kind = order[at(x)];
      level += problem.taken[at(kind)];
      peak[at(r)] = std::max(peak[at(r)], level);
      level -= problem.given[at(kind)];
      peak[at(r)] = std::max(peak[at(r)], level);
    }
  }
  return peak;
}

bool fits(const PipelineProblem& problem, const PipelineOrder& order) {
  const auto peak = peaks(problem, order);
  for (std::size_t r = 0; r < peak.size(); ++r)
    if (peak[r] > problem.cap[r]) return false;
  return true;
}

}  // namespace trainwright::detail
