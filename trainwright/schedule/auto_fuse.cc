#include "trainwright/schedule/auto_fuse.h"

#include <algorithm>
#include <numeric>

#include "trainwright/schedule/auto_clock.h"

namespace trainwright::detail {
namespace {

// The latest start of every node that keeps the makespan, from the clock of the mirrored order.
std::vector<double> latest_starts(const PipelineProblem& problem, const PipelineOrder& order) {
  PipelineOrder turned = order;
  for (int r = 0; r < problem.ranks; ++r)
    std::reverse(turned.begin() + problem.order_begin[at(r)],
                 turned.begin() + problem.order_begin[at(r) + 1]);
  OrderClock clock;
  clock.run(mirrored(problem), turned);
  const std::size_t m = at(problem.micro_batches);
  std::vector<double> latest(clock.end.size());
  for (std::size_t k = 0; k < at(problem.kinds); ++k)
    for (std::size_t j = 0; j < m; ++j)
      latest[k * m + j] = clock.makespan - clock.end[k * m + m - 1 - j];
  return latest;
}

// All places in an order in which each comes after what it needs.
std::vector<std::int64_t> places_in_turn(const PipelineProblem& problem,
                                         const PipelineOrder& order) {
  std::vector<std::int64_t> places;
  places.reserve(order.size());
  std::vector<std::int64_t> place(problem.order_begin.begin(), problem.order_begin.end() - 1);
  std::vector<int> next(at(problem.kinds), 0), runnable(at(problem.ranks));
  std::iota(runnable.begin(), runnable.end(), 0);
  while (!runnable.empty()) {
    const int r = runnable.back();
    runnable.pop_back();
    for (; place[at(r)] < problem.order_begin[at(r) + 1]; ++place[at(r)]) {
      const std::size_t kind = order[at(place[at(r)])];
      bool ready = true;
      for (const PipelineEdge edge : problem.before[kind])
        ready = ready && (edge.kind < 0 || next[at(edge.kind)] > next[kind]);
      if (!ready) break;
      const int batch = next[kind]++;
      places.push_back(place[at(r)]);
      for (const PipelineEdge edge : problem.after[kind])
        if (edge.kind >= 0 && next[at(edge.kind)] == batch && problem.rank_of[at(edge.kind)] != r)
          runnable.push_back(problem.rank_of[at(edge.kind)]);
    }
  }
  return places;
}

}  // namespace

std::vector<char> fuse_pairs(const PipelineProblem& problem, const PipelineOrder& order,
                             const std::vector<double>& fused) {
  const int stages = problem.stages();
  const std::size_t m = at(problem.micro_batches);
  const std::vector<double> latest = latest_starts(problem, order);
  std::vector<char> joined(at(stages) * m, 0);
  std::vector<double> sent(order.size(), 0), free(at(problem.ranks), 0);
  std::vector<std::size_t> next(at(problem.kinds), 0);
  for (const std::int64_t place : places_in_turn(problem, order)) {
    const std::size_t kind = order[at(place)], batch = next[kind]++;
    const std::size_t stage = kind % at(stages), rank = at(problem.rank_of[kind]);
    double start = free[rank];
    for (const PipelineEdge edge : problem.before[kind])
      if (edge.kind >= 0) start = std::max(start, sent[at(edge.kind) * m + batch] + edge.delay);
    const bool is_input = kind / at(stages) == 1, is_weight = kind / at(stages) == 2;
    if (is_weight && joined[stage * m + batch]) continue;
    double end = start + problem.duration[kind];
    const bool adjacent = is_input && place + 1 < problem.order_begin[rank + 1] &&
                          order[at(place) + 1] == kind + at(stages) &&
                          next[kind + at(stages)] == batch;
    const double whole = adjacent ? start + fused[stage] : end;
    if (adjacent && whole <= end + problem.duration[kind + at(stages)]) {
      bool in_time = true;
      for (const PipelineEdge edge : problem.after[kind])
        if (edge.kind >= 0 && at(edge.kind) != kind + at(stages))
          in_time = in_time && whole + edge.delay <= latest[at(edge.kind) * m + batch];
      if (in_time) {
        joined[stage * m + batch] = 1;
        end = whole;
      }
    }
    sent[kind * m + batch] = end;
    free[rank] = end;
  }
  return joined;
}

}  // namespace trainwright::detail
