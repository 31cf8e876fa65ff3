#pragma once
// What the checkers share: the list they fill and the parts both run.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainwright/schedule/schedule.h"

namespace trainwright::detail {

class Violations {
 public:
  explicit Violations(int most) : most_(static_cast<std::size_t>(most < 1 ? 1 : most)) {}
  void add(Fault fault, std::size_t rank, std::size_t index, Action action, std::string why) {
    push({fault, RankId(static_cast<std::int32_t>(rank)), static_cast<std::int64_t>(index), action,
          std::move(why)});
  }
  // For an action that is not in any list.
  void add_missing(Fault fault, std::size_t rank, Action action, std::string why) {
    push({fault, RankId(static_cast<std::int32_t>(rank)), -1, action, std::move(why)});
  }
  bool empty() const { return list_.empty(); }
  bool full() const { return list_.size() >= most_; }
  std::vector<Violation> list() && { return std::move(list_); }

 private:
  void push(Violation violation) {
    if (!full()) list_.push_back(std::move(violation));
  }
  std::size_t most_;
  std::vector<Violation> list_;
};

// Sizes and placement; false when the lists cannot be looked at.
bool check_shape(const Schedule& schedule, Violations& found);
// Everything `check` says about compute actions, given a sound shape.
void check_compute(const Schedule& schedule, Violations& found);

}  // namespace trainwright::detail
