#include "trainwright/schedule/auto_problem.h"

#include <algorithm>
#include <utility>

namespace trainwright::detail {
namespace {

void connect(PipelineProblem& problem, int from, int to, double delay) {
  const auto put = [&](PipelineEdges& edges, int kind) {
    (edges[0].kind < 0 ? edges[0] : edges[1]) = {kind, delay};
  };
  put(problem.before[at(to)], from);
  put(problem.after[at(from)], to);
}

void place_orders(PipelineProblem& problem) {
  problem.order_begin.assign(1, 0);
  for (const auto& kinds : problem.rank_kinds)
    problem.order_begin.push_back(problem.order_begin.back() +
                                  static_cast<std::int64_t>(kinds.size()) * problem.micro_batches);
}

}  // namespace

PipelineProblem make_problem(int ranks, int micro_batches, const std::vector<PipelineStage>& stages,
                             const std::vector<std::int64_t>& cap) {
  PipelineProblem problem;
  const int count = static_cast<int>(stages.size());
  problem.ranks = ranks;
  problem.micro_batches = micro_batches;
  problem.kinds = 3 * count;
  problem.rank_of.resize(at(problem.kinds));
  problem.duration.resize(at(problem.kinds));
  problem.before.resize(at(problem.kinds));
  problem.after.resize(at(problem.kinds));
  problem.taken.assign(at(problem.kinds), 0);
  problem.given.assign(at(problem.kinds), 0);
  problem.rank_kinds.resize(at(ranks));
  problem.cap = cap;
  for (int s = 0; s < count; ++s) {
    const PipelineStage& stage = stages[at(s)];
    const int f = s, i = count + s, w = 2 * count + s;
    for (const int kind : {f, i, w}) problem.rank_of[at(kind)] = stage.rank;
    problem.duration[at(f)] = stage.forward;
    problem.duration[at(i)] = stage.input;
    problem.duration[at(w)] = stage.weight;
    problem.taken[at(f)] = stage.kept;
    problem.given[at(i)] = stage.released_by_input;
    problem.given[at(w)] = stage.released_by_weight;
    if (s + 1 < count) {
      connect(problem, f, f + 1, stage.activation_delay);
      connect(problem, i + 1, i, stage.gradient_delay);
    } else {
      connect(problem, f, i, 0);
    }
    connect(problem, i, w, 0);
  }
  for (int kind = 0; kind < 3 * count; ++kind)
    problem.rank_kinds[at(problem.rank_of[at(kind)])].push_back(kind);
  place_orders(problem);
  return problem;
}

PipelineProblem with_micro_batches(const PipelineProblem& problem, int micro_batches) {
  PipelineProblem other = problem;
  other.micro_batches = micro_batches;
  place_orders(other);
  const auto left = left_over(problem);
  for (std::size_t r = 0; r < left.size(); ++r)
    other.cap[r] -= left[r] * (problem.micro_batches - micro_batches);
  return other;
}

std::vector<std::int64_t> left_over(const PipelineProblem& problem) {
  std::vector<std::int64_t> left(at(problem.ranks), 0);
  for (int k = 0; k < problem.kinds; ++k)
    left[at(problem.rank_of[at(k)])] += problem.taken[at(k)] - problem.given[at(k)];
  return left;
}

PipelineProblem mirrored(const PipelineProblem& problem) {
  PipelineProblem mirror = problem;
  std::swap(mirror.before, mirror.after);
  std::swap(mirror.taken, mirror.given);
  const auto left = left_over(problem);
  for (std::size_t r = 0; r < left.size(); ++r) mirror.cap[r] -= left[r] * problem.micro_batches;
  return mirror;
}

std::vector<std::int64_t> smallest_caps(const PipelineProblem& problem) {
  std::vector<std::int64_t> live(at(problem.ranks), 0);
  const int stages = problem.stages();
  for (int s = 0; s < stages; ++s) live[at(problem.rank_of[at(s)])] += problem.taken[at(s)];
  std::vector<std::int64_t> peak = live;
  // An I may keep more than it frees; its W then comes at once.
  for (int s = stages; s-- > 0;) {
    const std::size_t r = at(problem.rank_of[at(s)]);
    live[r] -= problem.given[at(stages + s)];
    peak[r] = std::max(peak[r], live[r]);
    live[r] -= problem.given[at(2 * stages + s)];
    peak[r] = std::max(peak[r], live[r]);
  }
  // All others have left what they leave.
  const auto left = left_over(problem);
  for (std::size_t r = 0; r < left.size(); ++r)
    peak[r] += std::max<std::int64_t>(left[r], 0) * (problem.micro_batches - 1);
  return peak;
}

}  // namespace trainwright::detail
