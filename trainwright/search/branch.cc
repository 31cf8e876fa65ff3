#include "trainwright/search/branch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "trainwright/base/check.h"
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
      late_(space.late()),
      manner_(space.stems().empty() ? space.manners().size() : 0),
      capacity_(capacity_of(question.cluster)) {}

namespace {

// No more than any of them.
LeastStep lesser(const LeastStep& a, const LeastStep& b) {
  LeastStep least = a;
  least.micro_batch = std::min(a.micro_batch, b.micro_batch);
  least.end = std::min(a.end, b.end);
  least.peak = std::min(a.peak, b.peak);
  return least;
}

}  // namespace

LeastStep Fastest::least_of(const std::vector<StepPieces>& by_order) const {
  LeastStep least = least_step(by_order.front(), stack_);
  for (std::size_t i = 1; i < by_order.size(); ++i) {
    least = lesser(least, least_step(by_order[i], stack_));
  }
  return least;
}

std::vector<StepPieces> Fastest::whole(const Branch& branch) {
  Layout layout = space_.layout(branch);
  Flags<Decided> decided;
  if (branch.recompute >= 0) decided.insert(Decided::Recompute);
  layout.on.bits |= late_.legal(layout, decided).together.bits;
  // Which layers are run again is known once they are dealt out; none is the least.
  const RecomputeKind kind = layout.recompute.kind;
  if (kind == RecomputeKind::Block || kind == RecomputeKind::EveryNth) layout.recompute = {};
  std::vector<StepPieces> by_order;
  for (std::int32_t order = 0; order < late_.orders_of(layout); ++order) {
    auto pieces = steps_.whole(late_.in_order(layout, order));
    if (!pieces) return {};
    by_order.push_back(*std::move(pieces));
  }
  ++looked_.bounded;
  return by_order;
}

void Fastest::meet_next() {
  const std::int64_t trunk = space_.trunk_of(stem_, manner_);
  if (++stem_ == space_.stems().size()) {
    stem_ = 0;
    ++manner_;
  }
  if (space_.leaves(trunk) > 0) push_trunk(trunk);
}

bool Fastest::is_refused(const Branch& branch, std::int64_t layouts) {
  constexpr std::size_t kMostKept = 1000;
  Flags<Decided> decided;
  if (branch.recompute >= 0) decided.insert(Decided::Recompute);
  if (branch.sharing >= 0) decided.insert(Decided::Sharing);
  if (branch.pipeline >= 0) decided.insert(Decided::Pipeline);
  if (!late_.rules().refuse(space_.layout(branch), decided)) return false;
  looked_.refused += layouts;
  if (refused_.size() < kMostKept) refused_.push_back(branch);
  return true;
}

void Fastest::push_trunk(std::int64_t trunk) {
  if (is_refused({.trunk = trunk}, space_.leaves(trunk))) return;
  const double idle = least_idle_of(space_.pipelines(trunk));
  const auto pieces = whole({.trunk = trunk});
  if (pieces.empty()) return;
  push({least_of(pieces).with_idle(idle), Level::Trunk, {.trunk = trunk}});
}

void Fastest::push_twig(const KnownTwig& twig) {
  const double idle = least_idle_of(space_.pipelines(twig.twig.trunk));
  twigs_.push_back(twig);
  push({twig.least.with_idle(idle), Level::Twig, twig.twig,
        static_cast<std::int32_t>(twigs_.size() - 1)});
}

// All that is faster than `most` was looked at, so what may fit now is among what did not.
void Fastest::begin_again(Bytes capacity, Seconds most) {
  capacity_ = capacity;
  most_ = most;
  heap_.clear();
  left_.clear();
  dived_.clear();
  without_.clear();
  only_timed_ = false;
  known_ = 0;
  looked_ = {};
  stopped_ = SearchStop::Not;
  for (const Large& of : std::exchange(large_, {})) {
    const bool may_fit = of.bytes <= capacity || question_.risk >= kEvenOdds;
    if (of.branch.pipeline >= 0 && may_fit) push({of.bound, Level::Leaves, leaf_of(of.branch)});
  }
  for (const auto& [bytes, of] : cut_) {
    if (bytes <= capacity) push_twig(of);
  }
}

// What a way to share weights adds to the pieces of a trunk.
Fastest::Shared Fastest::shared_by(const Branch& branch) {
  Shared shared;
  if (is_refused(branch, space_.leaves_of(branch.trunk, branch.sharing))) return shared;
  Layout layout = space_.layout(branch);
  layout.on.bits |= late_.legal(layout, {Decided::Sharing}).together.bits;
  shared.reduce_overlaps = asks(layout, Switch::OverlapGradientReduce, question_.trainer);
  shared.gather_overlaps = asks(layout, Switch::OverlapParameterGather, question_.trainer);
  for (std::int32_t order = 0; order < late_.orders_of(layout); ++order) {
    const auto rank = steps_.whole_rank(late_.in_order(layout, order));
    if (!rank) return {};
    shared.by_order.push_back(*rank);
  }
  shared.states = memory_.states(space_.layout(branch)).value_or(Bytes(0));
  shared.cut = is_cut(branch, shared.states, space_.leaves_of(branch.trunk, branch.sharing));
  return shared;
}

void Fastest::split_trunk(const Branch& trunk) {
  std::vector<Shared> sharings;
  Branch twig = trunk;
  for (twig.sharing = 0; twig.sharing < std::ssize(space_.sharings(trunk.trunk)); ++twig.sharing) {
    sharings.push_back(shared_by(twig));
  }
  std::vector<StepPieces> pieces;
  for (twig.recompute = 0; twig.recompute < std::ssize(space_.recomputes()); ++twig.recompute) {
    twig.sharing = -1;
    // Of all numbers of layers that are run again the bound is the same.
    const Recompute& recompute = space_.recomputes()[static_cast<std::size_t>(twig.recompute)];
    const bool again = recompute.kind == RecomputeKind::Block && recompute.n > 1;
    if (!again) pieces = whole(twig);
    if (pieces.empty()) continue;
    const Bytes kept = kept_of(twig);
    for (twig.sharing = 0; twig.sharing < std::ssize(sharings); ++twig.sharing) {
      const Shared& shared = sharings[static_cast<std::size_t>(twig.sharing)];
      if (shared.by_order.empty()) continue;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        pieces[i].ranks = {shared.by_order[i]};
        pieces[i].reduce_overlaps = shared.reduce_overlaps;
        pieces[i].gather_overlaps = shared.gather_overlaps;
      }
      add_twig({twig, least_of(pieces), shared.states, kept}, shared.cut);
    }
  }
}

// What needs more than there is does so with a chance of one half and more, whatever its spread.
bool Fastest::is_cut(const Branch& branch, Bytes bytes, std::int64_t layouts, Seconds bound) {
  if (question_.risk > kEvenOdds || bytes <= capacity_) return false;
  looked_.cut += layouts;
  large_.push_back({.bytes = bytes, .bound = bound, .branch = branch, .cut = true});
  return true;
}

// Of stages whose first n layers are run again all may be.
Bytes Fastest::kept_of(const Branch& twig) {
  Branch of = twig;
  of.sharing = 0;
  Layout layout = space_.layout(of);
  if (layout.recompute.kind == RecomputeKind::EveryNth) return Bytes(0);
  if (layout.recompute.kind == RecomputeKind::Block)
    layout.recompute = {RecomputeKind::Full, {}, 1};
  return memory_.least_kept(layout).value_or(Bytes(0));
}

Bytes Fastest::least_bytes(const KnownTwig& twig, double flight) const {
  return twig.states + Bytes(static_cast<std::int64_t>(real(twig.kept.value()) * flight));
}

void Fastest::add_twig(const KnownTwig& twig, bool cut) {
  double flight = std::numeric_limits<double>::infinity();
  std::int64_t layouts = 0;
  Branch leaf = twig.twig;
  const std::vector<Pipeline>& pipelines = space_.pipelines(leaf.trunk);
  for (leaf.pipeline = 0; leaf.pipeline < std::ssize(pipelines); ++leaf.pipeline) {
    flight = std::min(flight, pipelines[static_cast<std::size_t>(leaf.pipeline)].flight);
  }
  const Bytes bytes = least_bytes(twig, flight);
  const bool may_be_cut = !cut && bytes > capacity_;
  for (leaf.pipeline = 0; may_be_cut && leaf.pipeline < std::ssize(pipelines); ++leaf.pipeline) {
    layouts += space_.holds(leaf) ? 1 : 0;
  }
  if (cut || is_cut(twig.twig, bytes, layouts)) {
    cut_.push_back({bytes, twig});
  } else {
    push_twig(twig);
  }
}

std::vector<std::pair<Branch, Bytes>> Fastest::leaves_below(const Branch& branch) {
  const Bytes states = memory_.states(space_.layout(branch)).value_or(Bytes(0));
  const std::vector<Pipeline>& pipelines = space_.pipelines(branch.trunk);
  std::vector<std::pair<Branch, Bytes>> leaves;
  for (std::int32_t r = 0; r < std::ssize(space_.recomputes()); ++r) {
    if (branch.recompute >= 0 && branch.recompute != r) continue;
    KnownTwig twig{branch, {}, states, {}};
    twig.twig.recompute = r;
    twig.kept = kept_of(twig.twig);
    Branch leaf = twig.twig;
    for (leaf.pipeline = 0; leaf.pipeline < std::ssize(pipelines); ++leaf.pipeline) {
      const double flight = pipelines[static_cast<std::size_t>(leaf.pipeline)].flight;
      if (space_.holds(leaf)) leaves.emplace_back(leaf, least_bytes(twig, flight));
    }
  }
  return leaves;
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
    const Seconds bound = of.least.with_idle(idle);
    push({bound, Level::Leaves, leaf, twig, static_cast<std::int32_t>(next)});
    return;
  }
}

void Fastest::next_leaf(const Node& leaves) {
  if (leaves.twig >= 0) {
    push_leaf(leaves.twig, static_cast<std::size_t>(leaves.next) + 1);
    const auto pipeline = static_cast<std::size_t>(leaves.branch.pipeline);
    const double flight = space_.pipelines(leaves.branch.trunk)[pipeline].flight;
    const KnownTwig& twig = twigs_[static_cast<std::size_t>(leaves.twig)];
    if (is_cut(leaves.branch, least_bytes(twig, flight), 0, leaves.bound)) return;
  }
  // With more memory most fit, and are slower than what fits without.
  if (most_ < kForever && least_time(leaves.branch) > most_) return;
  weigh_leaf(leaves.bound, leaves.branch);
}

std::optional<Seconds> Fastest::bound() const {
  if (!met_all()) return std::nullopt;
  const Seconds of_heap = heap_.empty() ? kForever : heap_.front().bound;
  return left_.empty() ? of_heap : std::min(of_heap, left_.back().bound);
}

void Fastest::split(const Node& node) {
  switch (node.level) {
    case Level::Trunk: return split_trunk(node.branch);
    case Level::Twig: return split_twig(node.twig);
    case Level::Leaves: return next_leaf(node);
    case Level::Fitting: return time_leaf(node.bound, node.branch);
    case Level::Timed: return;
  }
}

std::optional<Layout> Fastest::next() {
  while (!heap_.empty() || !left_.empty() || !met_all()) {
    if (only_timed_) return next_of_known();
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
    if (node.level == Level::Timed) {
      last_ = Way{node.bound, simplest(node.branch, node.bound), {}};
      return space_.layout(last_->branch);
    }
    split(node);
  }
  return std::nullopt;
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
