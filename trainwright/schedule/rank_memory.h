#pragma once
// Private: the memory of one rank, action by action, as the clock counts it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainwright/schedule/clock.h"

namespace trainwright::detail {

class RankMemory {
 public:
  // `pricing` must outlive it.
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

// What a rank needs at most beside what its actions leave behind: the gradients of its weights and
// the most that any one action has above its start. An order that leaves as much free fits whatever
// runs when.
std::vector<std::int64_t> set_aside(const Pricing& pricing);

}  // namespace trainwright::detail
