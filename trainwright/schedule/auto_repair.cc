#include "trainwright/schedule/auto_repair.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "trainwright/schedule/rank_memory.h"

namespace trainwright::detail {
namespace {

std::vector<Action> repaired(const std::vector<Action>& list, const Pricing& pricing,
                             std::size_t rank, std::int64_t cap) {
  std::vector<Action> made;
  made.reserve(list.size());
  RankMemory memory(pricing, rank);
  std::deque<Action> waiting;                  // W whose I has run
  std::set<std::pair<int, int>> already_done;  // (stage, micro-batch) whose W has run or is not
  const auto put = [&](Action action) {
    memory.run(action);
    made.push_back(action);
  };
  for (Action action : list) {
    const std::pair<int, int> pair(action.stage, action.microbatch);
    if (action.kind == ActionKind::BackwardWeight) {
      if (already_done.contains(pair)) continue;
      waiting.erase(std::find(waiting.begin(), waiting.end(), action));
    }
    while (memory.peak_with(action) > cap && !waiting.empty()) {
      already_done.emplace(waiting.front().stage, waiting.front().microbatch);
      put(waiting.front());
      waiting.pop_front();
    }
    if (action.kind == ActionKind::BackwardInput) {
      if (memory.peak_with(action) > cap) {
        action.kind = ActionKind::Backward;
        already_done.insert(pair);
      } else {
        waiting.push_back(make_action(ActionKind::BackwardWeight, action.stage, action.microbatch));
      }
    }
    put(action);
  }
  return made;
}

bool has_groups(const Schedule& schedule) {
  for (const auto& list : schedule.ranks) {
    if (std::any_of(list.begin(), list.end(), [](Action one) { return one.overlaps_next; })) {
      return true;
    }
  }
  return false;
}

}  // namespace

Schedule with_earlier_weights(const Schedule& schedule, const Pricing& pricing,
                              const std::vector<std::int64_t>& cap) {
  if (has_groups(schedule)) return schedule;
  Schedule other{schedule.microbatches, schedule.placement, {}};
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    other.ranks.push_back(repaired(schedule.ranks[rank], pricing, rank, cap[rank]));
  }
  return other;
}

}  // namespace trainwright::detail
