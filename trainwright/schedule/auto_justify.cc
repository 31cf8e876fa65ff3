#include "trainwright/schedule/auto_justify.h"

#include <algorithm>
#include <utility>

namespace trainwright::detail {
namespace {

PipelineOrder turned(const PipelineProblem& problem, const PipelineOrder& order) {
  PipelineOrder result(order.size());
  for (int r = 0; r < problem.ranks; ++r)
    std::reverse_copy(order.begin() + problem.order_begin[at(r)],
                      order.begin() + problem.order_begin[at(r) + 1],
                      result.begin() + problem.order_begin[at(r)]);
  return result;
}

// Ends become starts of the other direction: micro-batch j is its (m - 1 - j)th.
std::vector<double> turned_keys(const PipelineProblem& problem, const std::vector<double>& end) {
  std::vector<double> key(end.size());
  const std::size_t m = at(problem.micro_batches);
  for (std::size_t k = 0; k < at(problem.kinds); ++k)
    for (std::size_t j = 0; j < m; ++j) key[k * m + j] = -end[k * m + m - 1 - j];
  return key;
}

}  // namespace

Candidate Justifier::timed(PipelineOrder order, Purse& purse) {
  clock.run(problem, order);
  purse.pay(problem);
  return {std::move(order), clock.end, clock.makespan, {}};
}

Candidate Justifier::follow(const Candidate& from, const std::vector<double>& key, double patience,
                            Purse& purse) {
  dispatch.run(problem, key, patience, &from.order);
  purse.pay(problem);
  return {dispatch.order, dispatch.end, dispatch.makespan, {}};
}

Candidate Justifier::round(const Candidate& from, double patience, Purse& purse) {
  turned_ = turned(problem, from.order);
  key_ = turned_keys(problem, from.end);
  dispatch.run(mirror, key_, patience, &turned_);
  purse.pay(problem);
  const double backward = dispatch.makespan;
  Candidate late{turned(problem, dispatch.order), {}, backward, {}};
  key_ = turned_keys(problem, dispatch.end);
  Candidate early = follow(late, key_, patience, purse);
  if (early.makespan <= backward) return early;
  return timed(std::move(late.order), purse);
}

Candidate Justifier::improve(const Candidate& from, double patience, int most_rounds,
                             Purse& purse) {
  Candidate best = from;
  for (int i = 0; i < most_rounds && !purse.empty(); ++i) {
    Candidate next = round(best, patience, purse);
    const bool better = next.makespan < best.makespan;
    if (next.makespan <= best.makespan) best = std::move(next);
    if (!better) break;
  }
  return best;
}

}  // namespace trainwright::detail
