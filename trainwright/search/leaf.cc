// A leaf: whether it fits, and the fastest way to run it that does.
#include <algorithm>
#include <utility>

#include "trainwright/base/check.h"
#include "trainwright/base/digits.h"
#include "trainwright/search/branch.h"

namespace trainwright::detail {
namespace {

// Of these the time is a formula in which transfers that overlap never cost (step.cc).
bool is_closed(ScheduleKind schedule) {
  return schedule == ScheduleKind::None || schedule == ScheduleKind::OneFOneB ||
         schedule == ScheduleKind::GPipe || schedule == ScheduleKind::InterleavedOneFOneB;
}

}  // namespace

// Whether a layout fits is cheaper to tell than its time. It does if the way does that takes least;
// an order of ranks changes nothing but what lies outside the allocator.
void Fastest::weigh_leaf(Seconds bound, const Branch& leaf) {
  if (is_refused(leaf, 1)) return;
  const Layout layout = space_.layout(leaf);
  const std::int32_t set = late_.leanest(layout);
  std::optional<Large> large;
  const Layout usual = late_.in_way(layout, set);
  for (std::int32_t order = 0; order < late_.orders_of(layout); ++order) {
    Branch way = leaf;
    way.way = order * late_.sets() + set;
    const Layout other = late_.in_order(usual, order);
    if (large && !memory_.may_take_less_outside(other, usual)) continue;
    const auto least = memory_.least(other, std::max(question_.risk, kEvenOdds), capacity_);
    if (!least) return;
    if (!large) ++looked_.evaluated;
    const Fit fit = fit_of(least->oom, question_.risk);
    const bool leaner = !large || least->driver < large->bytes;
    if (leaner) large = Large{.bytes = least->driver, .bound = bound, .fit = fit, .branch = way};
    if (fit == Fit::Fits) break;
  }
  const bool fits = large->fit == Fit::Fits;
  if (question_.remember) met_.push_back({large->branch, large->bytes, bound, large->fit});
  if (fits) {
    push({bound, Level::Fitting, leaf});
  } else {
    large_.push_back(*large);
  }
}

Seconds Fastest::time_of(const Branch& way) {
  const auto pieces = steps_.pieces(space_.layout(way));
  TW_CHECK(pieces.has_value(), "a layout that has memory has a time");
  return in_nine_digits(step_time(*pieces, stack_).step);
}

std::vector<Fastest::Candidate> Fastest::candidates_of(const Branch& leaf, bool all) {
  const Layout layout = space_.layout(leaf);
  const Late::Legal& legal = late_.legal(layout, space_.degrees_of(leaf.trunk),
                                         {Decided::Recompute, Decided::Sharing, Decided::Pipeline});
  const bool closed = is_closed(running_schedule(layout));
  std::vector<Candidate> candidates;
  for (std::int32_t order = 0; order < late_.orders_of(layout); ++order) {
    for (const Late::Set& set : legal.sets) {
      if (!all && !(closed ? set.most_closed : set.most)) continue;
      Branch way = leaf;
      way.way = order * late_.sets() + set.number;
      candidates.push_back({way, order, set.running, std::nullopt});
    }
  }
  return candidates;
}

// Timed are only such as no other one has all the switches of.
Fastest::Candidate& Fastest::fastest_of(std::vector<Candidate>& candidates) {
  const bool closed = is_closed(running_schedule(space_.layout(candidates.front().way)));
  const auto covers = [&](const Candidate& a, const Candidate& b) {
    return a.order == b.order && Late::no_slower(a.running, b.running, closed);
  };
  Candidate* best = nullptr;
  for (Candidate& one : candidates) {
    const bool covered =
        std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& other) {
          return &other != &one && covers(other, one) && (!covers(one, other) || &other < &one);
        });
    if (covered) continue;
    if (!one.step) one.step = time_of(one.way);
    if (best == nullptr || *one.step < *best->step) best = &one;
  }
  return *best;
}

Seconds Fastest::least_time(const Branch& leaf) {
  std::vector<Candidate> candidates = candidates_of(leaf, false);
  return *fastest_of(candidates).step;
}

// The ways with most switches first: mostly the fastest of them fits.
std::optional<Fastest::Way> Fastest::fastest_way(const Branch& leaf, double risk,
                                                 MemoryClasses without, Large* faster) {
  bool all = !without.empty();
  std::vector<Candidate> left = candidates_of(leaf, all);
  const auto drop = [&] {
    std::erase_if(left, [&](const Candidate& one) { return without.contains(class_of(one)); });
  };
  drop();
  while (!left.empty()) {
    const Candidate best = fastest_of(left);
    const auto least = memory_.least(space_.layout(best.way), std::max(risk, kEvenOdds), capacity_);
    const Fit fit = least ? fit_of(least->oom, risk) : Fit::DoesNotFit;
    if (fit == Fit::Fits) return Way{*best.step, best.way, least->driver};
    if (least && faster != nullptr) {
      const bool first = faster->branch.trunk < 0;
      faster->bytes = first ? least->driver : std::min(faster->bytes, least->driver);
      if (first || fit == Fit::Tight) faster->fit = fit;
      faster->branch = leaf;
    }
    without.insert(class_of(best));
    if (!std::exchange(all, true)) left = candidates_of(leaf, true);
    drop();
  }
  return std::nullopt;
}

std::uint32_t Fastest::memory_class(const Branch& way) {
  for (const Candidate& one : candidates_of(leaf_of(way), true)) {
    if (one.way == way) return class_of(one);
  }
  return 0;
}

void Fastest::time_leaf(Seconds bound, const Branch& leaf) {
  Large faster{.bytes = Bytes(0), .bound = bound, .faster = true};
  const auto without = without_.find(leaf);
  const auto way = fastest_way(
      leaf, question_.risk, without == without_.end() ? MemoryClasses{} : without->second, &faster);
  faster.faster = way.has_value();  // else rules allow none that fits
  if (faster.branch.trunk >= 0) large_.push_back(faster);
  ++looked_.timed;
  if (!way) return;
  if (question_.remember) times_[leaf] = *way;
  push({way->step, Level::Timed, way->branch});
}

void Fastest::too_large() {
  if (!last_ || stopped_ != SearchStop::Not) return;
  const Branch leaf = leaf_of(last_->branch);
  without_[leaf].insert(memory_class(last_->branch));
  time_leaf(last_->step, leaf);
}

// The same time with fewer switches, where some bring nothing.
Branch Fastest::simplest(const Branch& way, Seconds step) {
  std::vector<Candidate> candidates = candidates_of(leaf_of(way), true);
  const auto find = [&](const Branch& of) {
    return *std::find_if(candidates.begin(), candidates.end(),
                         [&](const Candidate& one) { return one.way == of; });
  };
  Candidate now = find(way);
  bool changed = candidates.size() > 1;
  while (std::exchange(changed, false)) {
    for (const Candidate& fewer : candidates) {
      const Flags<Switch> here = late_.asked(now.way.way), there = late_.asked(fewer.way.way);
      const bool less = fewer.order == now.order && there.count() == here.count() - 1 &&
                        (there.bits & ~here.bits) == 0 &&
                        (fewer.running.bits & ~now.running.bits) == 0;
      if (!less || time_of(fewer.way) != step) continue;
      now = fewer;
      changed = true;
      break;
    }
  }
  return now.way;
}

std::vector<Branch> Fastest::leanest_ways(const Branch& leaf) {
  const Layout layout = space_.layout(leaf);
  const Late::Legal& legal = late_.legal(layout, space_.degrees_of(leaf.trunk),
                                         {Decided::Recompute, Decided::Sharing, Decided::Pipeline});
  std::vector<Branch> leanest;
  for (std::int32_t order = 0; order < late_.orders_of(layout); ++order) {
    const Layout other = late_.in_order(layout, order);
    if (order > 0 && !memory_.may_take_less_outside(other, layout)) continue;
    for (const Late::Set& set : legal.sets) {
      if (!set.leanest) continue;
      leanest.push_back(leaf);
      leanest.back().way = order * late_.sets() + set.number;
    }
  }
  return leanest;
}

std::vector<Met> Fastest::met() const {
  std::vector<Met> all = met_;
  for (Met& one : all) {
    const auto known = times_.find(leaf_of(one.branch));
    if (known == times_.end()) continue;
    one.branch = known->second.branch;
    one.driver = known->second.driver;
    one.step = known->second.step;
    one.timed = true;
  }
  return all;
}

}  // namespace trainwright::detail
