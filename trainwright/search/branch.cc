#include "trainwright/search/branch.h"

#include <algorithm>
#include <limits>
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
      capacity_(capacity_of(question.cluster)) {
  push_trunks();
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

void Fastest::push_trunks() {
  for (std::int32_t t = 0; t < std::ssize(space_.trunks()); ++t) {
    const Branch trunk{.trunk = t};
    if (space_.leaves(t) == 0) continue;
    const double idle = least_idle_of(space_.pipelines(t));
    if (const auto pieces = whole(trunk)) {
      push({least_step(*pieces, stack_).with_idle(idle), Level::Trunk, trunk});
    }
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
  stopped_ = branches >= question_.budget && known_ > 0 ? SearchStop::Budget : SearchStop::Not;
  if (stopped_ == SearchStop::Not && question_.stop) stopped_ = question_.stop(branches);
}

Seconds Fastest::bound() const {
  return heap_.empty() ? Seconds(std::numeric_limits<double>::infinity()) : heap_.front().bound;
}

std::optional<Layout> Fastest::next() {
  while (!heap_.empty()) {
    ask_whether_to_stop();
    if (stopped_ != SearchStop::Not) return next_of_known();
    const Node node = pop();
    switch (node.level) {
      case Level::Trunk: split_trunk(node.branch); break;
      case Level::Twig: split_twig(node.twig); break;
      case Level::Leaves: next_leaf(node); break;
      case Level::Fitting: time_leaf(node.branch); break;
      case Level::Timed: return space_.layout(node.branch);
    }
  }
  return std::nullopt;
}

std::optional<Layout> Fastest::next_of_known() {
  if (known_ == 0) return std::nullopt;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < heap_.size(); ++i) {
    if (is_known(heap_[i]) && (!first || later(heap_[*first], heap_[i]))) first = i;
  }
  const Branch branch = heap_[*first].branch;
  heap_.erase(heap_.begin() + static_cast<std::ptrdiff_t>(*first));
  std::make_heap(heap_.begin(), heap_.end(),
                 [&](const Node& a, const Node& b) { return later(a, b); });
  --known_;
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
