#pragma once
// A slow, obvious replay of a schedule, the oracle of the clock. Times are the least solution of
// "start >= everything I wait for", found by repeating until nothing changes; memory is looked up
// from its definition at every instant at which it can change.
#include <algorithm>
#include <map>
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

// The most bytes that are ever live on each rank: at the start and at the end of every action, what
// has been taken by then less what has been released. Quadratic.
inline std::vector<std::int64_t> peaks_slowly(const Schedule& schedule, const Costs& costs) {
  std::vector<std::int64_t> peaks;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const auto& list = schedule.ranks[rank];
    std::int64_t peak = 0;
    for (std::size_t now = 0; now < list.size(); ++now) {
      for (const bool at_end : {false, true}) {
        std::int64_t live = 0;
        for (std::size_t i = 0; i < list.size(); ++i) {
          const bool started = i <= now;
          const bool ended = i < now || (i == now && at_end);
          const StageCosts& cost = costs.stages[list[i].stage];
          const std::int64_t kept = cost.kept.value();
          const std::int64_t input = cost.released_by_input.value();
          if (list[i].kind == ActionKind::Forward && started) live += kept;
          if (list[i].kind == ActionKind::Backward && ended) live -= kept;
          if (list[i].kind == ActionKind::BackwardInput && ended) live -= input;
          if (list[i].kind == ActionKind::BackwardWeight && ended) live -= kept - input;
        }
        peak = std::max(peak, live);
      }
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace trainwright::testing
