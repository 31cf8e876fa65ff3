#include "trainwright/search/branch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "trainwright/base/digits.h"

namespace trainwright::detail {
namespace {

double least_idle_of(const std::vector<Pipeline>& pipelines) {
  double least = std::numeric_limits<double>::infinity();
  for (const Pipeline& pipeline : pipelines) least = std::min(least, pipeline.idle);
  return least;
}

}  // namespace

Fastest::Fastest(const SearchQuestion& question, const Space& space)
    : question_(question),
      space_(space),
      stack_(stack_of(question.time.stacks, question.trainer).constants),
      own_steps_(question.steps != nullptr ? std::nullopt : std::optional(step_model(question))),
      steps_(question.steps != nullptr ? *question.steps : *own_steps_),
      memory_(question.model, question.cluster, question.trainer, question.job, question.constants,
              question.attention,
              [&steps = steps_](const StoredAs& storage) { return &steps.work(storage); }),
      groups_(alike_in_memory(space.manners())),
      capacity_(capacity_of(question.cluster)) {
  if (!overlaps_never_cost(stack_)) {
    groups_.clear();
    for (std::size_t m = 0; m < space_.manners().size(); ++m) groups_.push_back({m});
  }
  group_of_.resize(space_.manners().size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const std::size_t m : groups_[g]) group_of_[m] = g;
  }
  if (space_.stems().empty()) group_ = groups_.size();
}

std::optional<StepPieces> Fastest::whole(const Branch& branch) {
  Layout layout = space_.layout(branch);
  // Which layers are run again is known once they are dealt out; none is the least.
  const RecomputeKind kind = layout.recompute.kind;
  if (kind == RecomputeKind::Block || kind == RecomputeKind::EveryNth) layout.recompute = {};
  auto pieces = steps_.whole(layout);
  if (!pieces) return std::nullopt;
  ++looked_.bounded;
  if (branch.sharing >= 0) {
    const auto rank = steps_.whole_rank(layout);
    if (!rank) return std::nullopt;
    pieces->ranks = {*rank};
  }
  return *std::move(pieces);
}

void Fastest::meet_next() {
  const std::size_t stem = stem_++;
  const std::size_t of = group_;
  if (stem_ == space_.stems().size()) {
    stem_ = 0;
    ++group_;
  }
  std::vector<std::int64_t> trunks;
  Flags<Switch> all;
  for (const std::size_t m : groups_[of]) {
    const std::int64_t trunk = space_.trunk_of(stem, m);
    if (space_.leaves(trunk) == 0) continue;
    trunks.push_back(trunk);
    all.bits |= space_.manners()[m].on.bits;
  }
  if (trunks.size() < 2) {
    for (const std::int64_t trunk : trunks) push_trunk(trunk);
    return;
  }
  Layout layout = space_.layout({.trunk = trunks.front()});
  layout.on.bits |= all.bits;
  const auto pieces = steps_.whole(layout);
  if (!pieces) return;
  ++looked_.bounded;
  const double idle = least_idle_of(space_.pipelines(trunks.front()));
  push({least_step(*pieces, stack_).with_idle(idle), Level::Stem, {.trunk = trunks.front()}});
}

void Fastest::push_trunk(std::int64_t trunk) {
  const double idle = least_idle_of(space_.pipelines(trunk));
  if (const auto pieces = whole({.trunk = trunk})) {
    push({least_step(*pieces, stack_).with_idle(idle), Level::Trunk, {.trunk = trunk}});
  }
}

void Fastest::split_stem(std::int64_t trunk) {
  const std::size_t manners = space_.manners().size();
  const std::size_t stem = static_cast<std::size_t>(trunk) / manners;
  for (const std::size_t m : groups_[group_of_[static_cast<std::size_t>(trunk) % manners]]) {
    const std::int64_t one = space_.trunk_of(stem, m);
    if (space_.leaves(one) > 0) push_trunk(one);
  }
}

void Fastest::push_twig(const Branch& twig, const LeastStep& least) {
  const double idle = least_idle_of(space_.pipelines(twig.trunk));
  twigs_.push_back({twig, least});
  push({least.with_idle(idle), Level::Twig, twig, static_cast<std::int32_t>(twigs_.size() - 1)});
}

// All that is faster than `most` was looked at, so what may fit now is among what did not.
void Fastest::begin_again(Bytes capacity, Seconds most) {
  capacity_ = capacity;
  most_ = most;
  heap_.clear();
  left_.clear();
  dived_.clear();
  known_ = 0;
  looked_ = {};
  stopped_ = SearchStop::Not;
  for (const Large& of : std::exchange(large_, {})) {
    const bool may_fit = of.bytes <= capacity || question_.risk >= kEvenOdds;
    if (of.branch.pipeline >= 0 && may_fit) push({of.bound, Level::Leaves, of.branch});
  }
  for (const auto& [states, of] : cut_) {
    if (states <= capacity) push_twig(of.twig, of.least);
  }
}

void Fastest::split_trunk(const Branch& trunk) {
  struct Shared {
    std::optional<RankPieces> rank;
    std::optional<Bytes> cut;
  };
  std::vector<Shared> sharings;
  Branch twig = trunk;
  for (twig.sharing = 0; twig.sharing < std::ssize(space_.sharings(trunk.trunk)); ++twig.sharing) {
    const auto rank = steps_.whole_rank(space_.layout(twig));
    sharings.push_back(
        {rank ? std::optional(*rank) : std::nullopt, rank ? cut_by_states(twig) : std::nullopt});
  }
  std::optional<StepPieces> pieces;
  for (twig.recompute = 0; twig.recompute < std::ssize(space_.recomputes()); ++twig.recompute) {
    twig.sharing = -1;
    // Of all numbers of layers that are run again the bound is the same.
    const Recompute& recompute = space_.recomputes()[static_cast<std::size_t>(twig.recompute)];
    const bool again = recompute.kind == RecomputeKind::Block && recompute.n > 1;
    if (!again) pieces = whole(twig);
    if (!pieces) continue;
    for (twig.sharing = 0; twig.sharing < std::ssize(sharings); ++twig.sharing) {
      const auto& [rank, cut] = sharings[static_cast<std::size_t>(twig.sharing)];
      if (!rank) continue;
      pieces->ranks = {*rank};
      const LeastStep least = least_step(*pieces, stack_);
      if (cut) {
        cut_.push_back({*cut, {twig, least}});
      } else {
        push_twig(twig, least);
      }
    }
  }
}

// What needs more than there is does so with a chance of one half and more, whatever its spread.
std::optional<Bytes> Fastest::cut_by_states(const Branch& branch) {
  if (question_.risk > kEvenOdds) return std::nullopt;
  const auto states = memory_.states(space_.layout(branch));
  if (!states || *states <= capacity_) return std::nullopt;
  looked_.cut += space_.leaves_of(branch.trunk, branch.sharing);
  large_.push_back({*states, Seconds(0), Fit::DoesNotFit, branch});
  return states;
}

void Fastest::split_twig(std::int32_t twig) {
  ++looked_.bounded;
  push_leaf(twig, 0);
}

// The first leaf from there on that is in the space. Pipelines are sorted, so no later one has a
// lower bound.
void Fastest::push_leaf(std::int32_t twig, std::size_t next) {
  const KnownTwig& of = twigs_[static_cast<std::size_t>(twig)];
  const std::vector<Pipeline>& pipelines = space_.pipelines(of.twig.trunk);
  const std::vector<std::int32_t>& order = space_.by_idle(of.twig.trunk);
  Branch leaf = of.twig;
  for (; next < order.size(); ++next) {
    leaf.pipeline = order[next];
    if (!space_.holds(leaf)) continue;
    const double idle = pipelines[static_cast<std::size_t>(leaf.pipeline)].idle;
    push({of.least.with_idle(idle), Level::Leaves, leaf, twig, static_cast<std::int32_t>(next)});
    return;
  }
}

void Fastest::next_leaf(const Node& leaves) {
  if (leaves.twig >= 0) push_leaf(leaves.twig, static_cast<std::size_t>(leaves.next) + 1);
  // With more memory most fit, and are slower than what fits without.
  if (most_ < kForever && time_of(leaves.branch) > most_) return;
  weigh_leaf(leaves.bound, leaves.branch);
}

// Whether a layout fits is cheaper to tell than its time.
void Fastest::weigh_leaf(Seconds bound, const Branch& leaf) {
  const auto least =
      memory_.least(space_.layout(leaf), std::max(question_.risk, kEvenOdds), capacity_);
  if (!least) return;
  ++looked_.evaluated;
  const Fit fit = fit_of(least->oom, question_.risk);
  if (question_.remember) met_.push_back({leaf, least->driver, bound, fit});
  if (fit == Fit::Fits) {
    push({bound, Level::Fitting, leaf});
  } else {
    large_.push_back({least->driver, bound, fit, leaf});
  }
}

Seconds Fastest::time_of(const Branch& leaf) {
  const auto pieces = steps_.pieces(space_.layout(leaf));
  TW_CHECK(pieces.has_value(), "a layout that has memory has a time");
  return in_nine_digits(step_time(*pieces, stack_).step);
}

void Fastest::time_leaf(const Branch& leaf) {
  const Seconds step = time_of(leaf);
  ++looked_.timed;
  if (question_.remember) times_[leaf] = step;
  push({step, Level::Timed, leaf});
}

std::vector<Met> Fastest::met() const {
  std::vector<Met> all = met_;
  for (Met& one : all) {
    const auto known = times_.find(one.branch);
    if (known == times_.end()) continue;
    one.step = known->second;
    one.timed = true;
  }
  return all;
}

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
  if (space_.leaves(trunk) == 0) return;
  for (std::int32_t s = 0; s < std::ssize(space_.sharings(trunk)); ++s) {
    const auto states = memory_.states(space_.layout({.trunk = trunk, .sharing = s}));
    if (!states || *states > capacity_) continue;
    const auto leaf = leanest_that_fits(trunk, s);
    if (leaf) dived_.push_back({time_of(*leaf), Level::Timed, *leaf});
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

std::optional<Seconds> Fastest::bound() const {
  if (!met_all()) return std::nullopt;
  const Seconds of_heap = heap_.empty() ? kForever : heap_.front().bound;
  return left_.empty() ? of_heap : std::min(of_heap, left_.back().bound);
}

void Fastest::split(const Node& node) {
  switch (node.level) {
    case Level::Stem: return split_stem(node.branch.trunk);
    case Level::Trunk: return split_trunk(node.branch);
    case Level::Twig: return split_twig(node.twig);
    case Level::Leaves: return next_leaf(node);
    case Level::Fitting: return time_leaf(node.branch);
    case Level::Timed: return;
  }
}

std::optional<Layout> Fastest::next() {
  while (!heap_.empty() || !left_.empty() || !met_all()) {
    ask_whether_to_stop();
    if (stopped_ != SearchStop::Not) {
      if (auto known = next_of_known(); known || stopped_ != SearchStop::Budget) return known;
      continue;  // with a budget, until something is met
    }
    // Bounds prove nothing before all stems are met; in a hurry the best of those that are is had
    // first.
    const bool best_is_known = heap_.empty() || heap_.front().level == Level::Timed;
    if (!met_all() && (!hurries_ || best_is_known)) {
      meet_next();
      continue;
    }
    const Node node = pop();
    if (node.level == Level::Timed) return space_.layout(node.branch);
    split(node);
  }
  return std::nullopt;
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
    const auto same = [&](const Node& node) { return node.branch == dived.branch; };
    if (std::none_of(left_.begin(), left_.end(), same)) left_.push_back(dived);
  }
  std::stable_sort(left_.begin(), left_.end(),
                   [&](const Node& a, const Node& b) { return later(a, b); });
}

std::optional<Layout> Fastest::next_of_known() {
  if (left_.empty() && known_ == 0 && stopped_ != SearchStop::Budget) dive();
  gather_known();
  if (left_.empty()) return std::nullopt;
  const Branch branch = left_.back().branch;
  left_.pop_back();
  return space_.layout(branch);
}

// Branches before times, so that all layouts of one time are known when the first comes out.
bool Fastest::later(const Node& a, const Node& b) const {
  if (a.bound != b.bound) return a.bound > b.bound;
  if (a.level != b.level) return a.level > b.level;
  if (a.level == Level::Timed) {
    return to_text(space_.layout(a.branch)) > to_text(space_.layout(b.branch));
  }
  return a.branch > b.branch;
}

void Fastest::push(Node node) {
  node.bound = in_nine_digits(node.bound);  // as times are, or it might be above what it bounds
  if (node.bound > most_) return;
  heap_.push_back(node);
  known_ += is_known(heap_.back()) ? 1 : 0;
  std::push_heap(heap_.begin(), heap_.end(),
                 [&](const Node& a, const Node& b) { return later(a, b); });
}

Fastest::Node Fastest::pop() {
  std::pop_heap(heap_.begin(), heap_.end(),
                [&](const Node& a, const Node& b) { return later(a, b); });
  const Node node = heap_.back();
  heap_.pop_back();
  known_ -= is_known(node) ? 1 : 0;
  return node;
}

}  // namespace trainwright::detail
