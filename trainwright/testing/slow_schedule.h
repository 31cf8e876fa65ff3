#pragma once
// A slow, obvious replay of a schedule, the oracle of the clock. Times are the least solution of
// "start >= everything I wait for", found by repeating until nothing changes; memory is looked up
// from its definition at every instant at which it can change.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "trainwright/schedule/schedule.h"

namespace trainwright::testing {

struct SlowReplay {
  double makespan = 0;
  std::vector<std::vector<Span>> spans;
};

// Overlapped transfers, unlimited links, no engine rules, no groups.
inline SlowReplay replay_slowly(const Schedule& schedule, const Costs& costs) {
  using Key = std::tuple<int, int, bool>;  // stage, micro-batch, backward?
  std::map<Key, double> end_of;
  SlowReplay replay;
  for (const auto& list : schedule.ranks) replay.spans.emplace_back(list.size());
  const int last = schedule.placement.stages() - 1;
  const auto duration = [&](Action a) {
    const StageCosts& cost = costs.stages[a.stage];
    double time = 0;
    if (a.kind == ActionKind::Forward) time = cost.forward.value();
    if (a.kind == ActionKind::Forward && a.stage == last) time += costs.loss.value();
    if (a.kind == ActionKind::BackwardInput) time = cost.backward_input.value();
    if (a.kind == ActionKind::BackwardWeight) time = cost.backward_weight.value();
    if (a.kind == ActionKind::Backward) time = cost.backward.value();
    return time + costs.per_action.value();
  };
  const auto arrival = [&](int from, int to, int microbatch, bool backward) {
    const auto source = static_cast<std::size_t>(from);
    const auto target = static_cast<std::size_t>(to);
    const bool local = schedule.placement.rank_of[source] == schedule.placement.rank_of[target];
    const BoundaryCosts& boundary = costs.boundaries[std::min(source, target)];
    const double transfer = (backward ? boundary.gradient : boundary.activation).value();
    return end_of[{from, microbatch, backward}] + (local ? 0 : transfer);
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      double before = 0;
      for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
        const Action a = schedule.ranks[rank][i];
        const bool backward = a.kind == ActionKind::BackwardInput || a.kind == ActionKind::Backward;
        double start = before;
        if (a.kind == ActionKind::Forward && a.stage > 0) {
          start = std::max(start, arrival(a.stage - 1, a.stage, a.microbatch, false));
        }
        if (backward && a.stage < last) {
          start = std::max(start, arrival(a.stage + 1, a.stage, a.microbatch, true));
        }
        const double end = start + duration(a);
        changed = changed || replay.spans[rank][i].end != Seconds(end);
        replay.spans[rank][i] = {Seconds(start), Seconds(end)};
        if (a.kind != ActionKind::BackwardWeight) end_of[{a.stage, a.microbatch, backward}] = end;
        before = end;
      }
      replay.makespan = std::max(replay.makespan, before);
    }
  }
  return replay;
}

// Bytes that are live once the first `count` actions of a rank have ended. The weights' gradients
// of a stage are there as soon as one of its W or B has.
inline std::int64_t live_after(const Schedule& schedule, const Costs& costs, std::size_t rank,
                               std::size_t count) {
  std::int64_t live = 0;
  std::set<int> with_gradients;
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    if (schedule.placement.rank_of[stage].at() == rank)
      live += costs.stages[stage].resident.value();
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Action action = schedule.ranks[rank][i];
    const StageCosts& cost = costs.stages[action.stage];
    const std::int64_t kept = cost.kept.value(), input = cost.released_by_input.value();
    if (action.kind == ActionKind::Forward) live += kept;
    if (action.kind == ActionKind::Backward) live -= kept;
    if (action.kind == ActionKind::BackwardInput) live -= input;
    if (action.kind == ActionKind::BackwardWeight) live -= kept - input;
    if (action.kind == ActionKind::BackwardWeight || action.kind == ActionKind::Backward) {
      if (with_gradients.insert(action.stage).second) live += cost.gradients.value();
    }
  }
  return live;
}

// What an action has at most above what was live before it.
inline std::int64_t most_within(const StageCosts& cost, ActionKind kind, bool first) {
  const InnerPeaks& inside = cost.inside;
  const auto of_weights = [&](Bytes later, Bytes of_first) {
    if (!first) return later.value();
    return of_first > Bytes(0) ? of_first.value() : (cost.gradients + later).value();
  };
  if (kind == ActionKind::Forward) return std::max(cost.kept, inside.forward).value();
  if (kind == ActionKind::BackwardInput) return inside.backward_input.value();
  if (kind == ActionKind::Backward) return of_weights(inside.backward, inside.first_backward);
  return of_weights(inside.backward_weight, inside.first_weight);
}

// The most bytes that are ever live on each rank: before, within and after every action. Quadratic.
inline std::vector<std::int64_t> peaks_slowly(const Schedule& schedule, const Costs& costs) {
  std::vector<std::int64_t> peaks;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const auto& list = schedule.ranks[rank];
    std::int64_t peak = live_after(schedule, costs, rank, 0);
    std::set<int> with_gradients;
    for (std::size_t now = 0; now < list.size(); ++now) {
      const Action action = list[now];
      const bool weights =
          action.kind == ActionKind::BackwardWeight || action.kind == ActionKind::Backward;
      const bool first = weights && with_gradients.insert(action.stage).second;
      const std::int64_t before = live_after(schedule, costs, rank, now);
      const StageCosts& cost = costs.stages[action.stage];
      peak = std::max({peak, before + most_within(cost, action.kind, first),
                       live_after(schedule, costs, rank, now + 1)});
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace trainwright::testing
