#include "trainwright/schedule/auto_extend.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "trainwright/schedule/auto_clock.h"

namespace trainwright::detail {
namespace {

// By place: whether the stretch of q micro-batches that starts there holds each kind q times.
std::vector<char> balanced_places(const PipelineProblem& problem, const PipelineOrder& order,
                                  int q) {
  std::vector<char> balanced(order.size(), 0);
  std::vector<int> count(at(problem.kinds), 0);
  for (int r = 0; r < problem.ranks; ++r) {
    const std::int64_t begin = problem.order_begin[at(r)], stop = problem.order_begin[at(r) + 1];
    const auto kinds = static_cast<std::int64_t>(problem.rank_kinds[at(r)].size());
    const std::int64_t length = q * kinds;
    std::int64_t right = 0;  // kinds whose count is q
    const auto change = [&](std::int64_t place, int by) {
      int& value = count[at(order[at(place)])];
      right -= value == q;
      value += by;
      right += value == q;
    };
    for (std::int64_t x = begin; x < stop; ++x) {
      change(x, 1);
      if (x - begin >= length) change(x - length, -1);
      if (x - begin >= length - 1 && right == kinds) balanced[at(x - length + 1)] = 1;
    }
    for (const int kind : problem.rank_kinds[at(r)]) count[at(kind)] = 0;
  }
  return balanced;
}

struct Cut {
  std::vector<std::int64_t> place;  // by rank
};

// Near each rank's place at this time, if the cuts are closed under "needs".
std::optional<Cut> cut_at(const PipelineProblem& problem, const Candidate& candidate,
                          const std::vector<char>& balanced, double time) {
  Cut cut;
  std::vector<int> before(at(problem.kinds), 0), next(at(problem.kinds), 0);
  for (int r = 0; r < problem.ranks; ++r) {
    const std::int64_t begin = problem.order_begin[at(r)], stop = problem.order_begin[at(r) + 1];
    std::int64_t x = begin;
    for (; x < stop; ++x) {
      const std::size_t kind = candidate.order[at(x)];
      if (candidate.end[kind * at(problem.micro_batches) + at(next[kind]++)] > time) break;
    }
    const auto reach = static_cast<std::int64_t>(3 * problem.rank_kinds[at(r)].size());
    std::int64_t found = -1;
    for (std::int64_t d = 0; d <= reach && found < 0; ++d) {
      if (x - d >= begin && x - d < stop && balanced[at(x - d)])
        found = x - d;
      else if (x + d < stop && balanced[at(x + d)])
        found = x + d;
    }
    if (found < 0) return std::nullopt;
    cut.place.push_back(found);
    for (std::int64_t y = begin; y < found; ++y) ++before[candidate.order[at(y)]];
  }
  for (int kind = 0; kind < problem.kinds; ++kind)
    for (const PipelineEdge edge : problem.before[at(kind)])
      if (edge.kind >= 0 && before[at(kind)] > before[at(edge.kind)]) return std::nullopt;
  return cut;
}

PipelineOrder repeated(const PipelineProblem& problem, const PipelineOrder& order, const Cut& cut,
                       int q, int copies) {
  PipelineOrder result;
  result.reserve(order.size() + at(problem.kinds) * at(q) * at(copies));
  for (int r = 0; r < problem.ranks; ++r) {
    const auto begin = order.begin() + problem.order_begin[at(r)];
    const auto place = order.begin() + cut.place[at(r)];
    const auto stop = order.begin() + problem.order_begin[at(r) + 1];
    const auto length = static_cast<std::int64_t>(problem.rank_kinds[at(r)].size()) * q;
    result.insert(result.end(), begin, place);
    for (int i = 0; i < copies; ++i) result.insert(result.end(), place, place + length);
    result.insert(result.end(), place, stop);
  }
  return result;
}

}  // namespace

std::vector<PipelineOrder> extensions(const PipelineProblem& problem, const Candidate& candidate,
                                      int more, Purse& purse) {
  struct Trial {
    double period;
    std::size_t number;  // the earlier of two equals
    Cut cut;
    int q;
  };
  std::vector<Trial> trials;
  OrderClock clock;
  constexpr int kMost = 12;
  for (const int q : {1, 2, 3, 4, 6, 12}) {
    if (more % q != 0) continue;
    const auto balanced = balanced_places(problem, candidate.order, q);
    const int copies = std::min(more / q, std::max(1, 8 / q));
    const PipelineProblem longer = with_micro_batches(problem, problem.micro_batches + copies * q);
    for (const double share : {0.5, 0.45, 0.55, 0.4, 0.6, 0.35, 0.65, 0.475, 0.525}) {
      if (std::ssize(trials) >= kMost) break;
      const auto cut = cut_at(problem, candidate, balanced, share * candidate.makespan);
      if (!cut) continue;
      clock.run(longer, repeated(problem, candidate.order, *cut, q, copies));
      purse.pay(longer);
      trials.push_back(
          {(clock.makespan - candidate.makespan) / (copies * q), trials.size(), *cut, q});
    }
  }
  std::sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
    return std::tie(a.period, a.number) < std::tie(b.period, b.number);
  });
  std::vector<PipelineOrder> found;
  for (const Trial& trial : trials) {
    if (found.size() == 2) break;
    found.push_back(repeated(problem, candidate.order, trial.cut, trial.q, more / trial.q));
  }
  return found;
}

}  // namespace trainwright::detail
