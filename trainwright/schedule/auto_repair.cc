#include "trainwright/schedule/auto_repair.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

namespace trainwright::detail {
namespace {

// The memory of one rank, action by action, as the clock counts it.
class RankMemory {
 public:
  RankMemory(const Pricing& pricing, std::size_t rank)
      : pricing_(&pricing), live_(pricing.standing[rank]), with_gradients_(pricing.stages.size()) {}

  // The most while the action runs and after it.
  std::int64_t peak_with(Action action) const {
    const StagePrice& price = pricing_->stages[action.stage];
    const auto kind = static_cast<std::size_t>(action.kind);
    if (action.kind == ActionKind::Forward) return live_ + price.memory[0] + price.above[0];
    const bool first = makes_gradients(action);
    const std::int64_t start = live_ + (first ? price.gradients : 0);
    const std::int64_t above = first ? price.first_above[kind - 2] : price.above[kind];
    return std::max(start + above, start - price.memory[kind]);
  }

  void run(Action action) {
    const StagePrice& price = pricing_->stages[action.stage];
    if (action.kind == ActionKind::Forward) {
      live_ += price.memory[0];
      return;
    }
    if (makes_gradients(action)) {
      live_ += price.gradients;
      with_gradients_[action.stage] = 1;
    }
    live_ -= price.memory[static_cast<std::size_t>(action.kind)];
  }

 private:
  bool makes_gradients(Action action) const {
    return action.kind >= ActionKind::BackwardWeight && with_gradients_[action.stage] == 0;
  }

  const Pricing* pricing_;
  std::int64_t live_;
  std::vector<char> with_gradients_;
};

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
