// A search that is stopped, or soon will be.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "trainwright/search/branch.h"

namespace trainwright::detail {

void Fastest::ask_whether_to_stop() {
  const bool asked = stopped_ == SearchStop::Time || stopped_ == SearchStop::Interrupt;
  if (asked) return;
  const std::int64_t branches = looked_.bounded + looked_.evaluated;
  // What is known may turn out not to fit.
  const bool some = known_ > 0 || !left_.empty();
  stopped_ = branches >= question_.budget && some ? SearchStop::Budget : SearchStop::Not;
  if (stopped_ != SearchStop::Not || !question_.stop) return;
  stopped_ = question_.stop(branches);
  if (stopped_ != SearchStop::Soon) return;
  stopped_ = SearchStop::Not;
  if (std::exchange(hurries_, true)) return;
  if (known_ == 0) dive();
}

// In the order of the golden section, so that neighbours are far apart.
void Fastest::dive() {
  constexpr std::int64_t kMostAsked = 4000;
  constexpr std::size_t kEnough = 32;
  if (std::exchange(has_dived_, true)) return;
  std::vector<std::size_t> small;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Layout& stem : space_.stems()) least = std::min(least, stem.mbs);
  for (std::size_t s = 0; s < space_.stems().size(); ++s) {
    if (space_.stems()[s].mbs == least) small.push_back(s);
  }
  std::size_t stride = static_cast<std::size_t>(real(std::ssize(small)) * 0.618) | 1U;
  while (std::gcd(stride, small.size()) > 1) stride += 2;
  dive_left_ = kMostAsked;
  for (std::size_t i = 0; i < small.size() && dive_left_ > 0 && dived_.size() < kEnough; ++i) {
    if (question_.stop && stopped_ != SearchStop::Interrupt) {
      const SearchStop now = question_.stop(looked_.bounded);
      if (now == SearchStop::Time || now == SearchStop::Interrupt) break;
    }
    if (question_.late && question_.late()) break;
    dive_into(space_.trunk_of(small[i * stride % small.size()], 0));
  }
}

// Of a trunk each way to share weights, with the least that is run again.
void Fastest::dive_into(std::int64_t trunk) {
  if (space_.leaves({.trunk = trunk}) == 0) return;
  for (std::int32_t s = 0; s < std::ssize(space_.sharings(trunk)); ++s) {
    if (states_of({.trunk = trunk, .sharing = s}).mean > capacity_) continue;
    const auto leaf = leanest_that_fits(trunk, s);
    if (!leaf) continue;
    if (const auto way = fastest_way(*leaf, question_.risk)) {
      dived_.push_back({way->step, Level::Timed, way->branch});
    }
  }
}

std::optional<Branch> Fastest::leanest_that_fits(std::int64_t trunk, std::int32_t sharing) {
  Branch leaf{.trunk = trunk, .sharing = sharing};
  for (const std::int32_t pipeline : space_.by_idle(trunk)) {
    leaf.pipeline = pipeline;
    // What runs most again needs least: where that does not fit, nothing does.
    leaf.recompute = static_cast<std::int32_t>(space_.recomputes().size()) - 1;
    if (!fits(leaf)) return std::nullopt;
    for (leaf.recompute = 0; leaf.recompute < std::ssize(space_.recomputes()); ++leaf.recompute) {
      if (!space_.holds(leaf) || !fits(leaf)) continue;
      if (is_legal(violations(space_.layout(leaf), question_.job, question_.model,
                              question_.cluster, question_.trainer))) {
        return leaf;
      }
    }
    if (dive_left_ <= 0) break;
  }
  return std::nullopt;
}

bool Fastest::fits(const Branch& leaf) {
  --dive_left_;
  const auto least = memory_.least(space_.layout(leaf), kEvenOdds, capacity_);
  return least && fit_of(least->oom, question_.risk) == Fit::Fits;
}

// Once stopped no more are looked at, but a budget may go on: then what is known by then is added.
void Fastest::gather_known() {
  if (known_ == 0 && dived_.empty()) return;
  const auto known = std::stable_partition(heap_.begin(), heap_.end(),
                                           [](const Node& node) { return !is_known(node); });
  left_.insert(left_.end(), known, heap_.end());
  heap_.erase(known, heap_.end());
  std::make_heap(heap_.begin(), heap_.end(),
                 [&](const Node& a, const Node& b) { return later(a, b); });
  known_ = 0;
  for (const Node& dived : std::exchange(dived_, {})) {
    const auto same = [&](const Node& node) {
      return leaf_of(node.branch) == leaf_of(dived.branch);
    };
    if (std::none_of(left_.begin(), left_.end(), same)) left_.push_back(dived);
  }
  std::stable_sort(left_.begin(), left_.end(),
                   [&](const Node& a, const Node& b) { return later(a, b); });
}

void Fastest::only_timed() {
  only_timed_ = true;
  std::erase_if(heap_, [](const Node& node) { return node.level != Level::Timed; });
  std::erase_if(left_, [](const Node& node) { return node.level != Level::Timed; });
  known_ = std::ssize(heap_);
  std::make_heap(heap_.begin(), heap_.end(),
                 [&](const Node& a, const Node& b) { return later(a, b); });
}

std::optional<Layout> Fastest::next_of_known() {
  if (!only_timed_ && left_.empty() && known_ == 0 && stopped_ != SearchStop::Budget) dive();
  gather_known();
  if (left_.empty()) return std::nullopt;
  const Node node = left_.back();
  left_.pop_back();
  if (node.level == Level::Timed) {
    last_ = Way{node.bound, node.branch, {}};
  } else {
    last_ = fastest_way(node.branch, question_.risk);
    if (!last_) return next_of_known();
  }
  return space_.layout(last_->branch);
}

}  // namespace trainwright::detail
