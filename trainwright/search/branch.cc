#include "trainwright/search/branch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "trainwright/base/check.h"
#include "trainwright/base/digits.h"

namespace trainwright::detail {
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

// Trunks that differ in their micro-batch alone follow each other.
const Late::Legal& Fastest::legal_below(const Branch& branch, const Layout& layout) {
  const std::size_t degrees = space_.degrees_of(branch.trunk);
  if (branch.recompute >= 0) return late_.legal(layout, degrees, {Decided::Recompute});
  const std::array<std::size_t, 2> trunk = {
      degrees, static_cast<std::size_t>(branch.trunk) % space_.manners().size()};
  const bool known = last_legal_ != nullptr && legal_trunk_ == trunk &&
                     !late_.rules().open(layout, degrees).late_by_batch;
  if (!known) last_legal_ = &late_.legal(layout, degrees, {});
  legal_trunk_ = trunk;
  return *last_legal_;
}

std::vector<StepPieces> Fastest::whole(const Branch& branch) {
  Layout layout = space_.layout(branch);
  layout.on.bits |= legal_below(branch, layout).together.bits;
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
  if (space_.leaves({.trunk = trunk}) > 0) push_trunk(trunk);
}

std::vector<const Rule*> Fastest::refusing(const Branch& branch) {
  Flags<Decided> decided;
  if (branch.recompute >= 0) decided.insert(Decided::Recompute);
  if (branch.sharing >= 0) decided.insert(Decided::Sharing);
  if (branch.pipeline >= 0) decided.insert(Decided::Pipeline);
  return late_.rules().refusing(space_.layout(branch), space_.degrees_of(branch.trunk), decided);
}

bool Fastest::is_refused(const Branch& branch, std::int64_t layouts) {
  auto by = refusing(branch);
  if (by.empty()) return false;
  looked_.refused += layouts;
  auto known = std::find_if(refused_.begin(), refused_.end(),
                            [&](const Refused& of) { return of.by == by; });
  if (known == refused_.end()) known = refused_.insert(known, {std::move(by), branch});
  known->layouts += layouts;
  return true;
}

void Fastest::push_trunk(std::int64_t trunk) {
  if (is_cut_by_states(trunk)) return;
  if (is_refused({.trunk = trunk}, space_.leaves({.trunk = trunk}))) return;
  const auto pieces = whole({.trunk = trunk});
  if (pieces.empty()) return;
  push({least_of(pieces).with_idle(space_.least_idle_of(trunk)), Level::Trunk, {.trunk = trunk}});
}

void Fastest::push_twig(const KnownTwig& twig) {
  twigs_.push_back(twig);
  push({twig.least.with_idle(space_.least_idle_of(twig.twig.trunk)), Level::Twig, twig.twig,
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
    const Branch& branch = of.branch;
    const bool may_fit = of.bytes <= capacity || question_.risk >= kEvenOdds;
    if (!may_fit) continue;
    if (branch.pipeline >= 0) {
      push({of.bound, Level::Leaves, leaf_of(branch)});
    } else if (branch.sharing < 0) {
      push_trunk(branch.trunk);
    } else {
      split_trunk(branch);
    }
  }
}

// Without what hangs on the micro-batch, the manner, recompute and pipelines.
Fastest::StateBytes& Fastest::states_of(const Branch& branch) {
  const std::array<std::size_t, 3> key = {
      space_.degrees_of(branch.trunk), static_cast<std::size_t>(branch.sharing),
      static_cast<std::size_t>(space_.gradients_of(branch.trunk))};
  const auto found = states_.find(key);
  if (found != states_.end()) return found->second;
  const Layout layout = space_.layout({.trunk = branch.trunk, .sharing = branch.sharing});
  StateBytes made{memory_.states(layout).value_or(Bytes(0)), memory_.layer_states(layout), {}};
  return states_.emplace(key, std::move(made)).first->second;
}

Bytes Fastest::least_bytes(const StateBytes& states, Bytes kept, const Pipeline& pipeline) {
  const auto flying = [&](double layers) { return real(kept.value()) * layers; };
  double most = real(states.mean.value()) + flying(pipeline.flight);
  for (const Pipeline::Rank& rank : pipeline.ranks) {
    double bytes = flying(rank.flight);
    for (std::size_t kind = 0; kind < states.layers.size(); ++kind) {
      bytes += states.layers[kind].value() * real(rank.layers[kind]);
    }
    most = std::max(most, bytes);
  }
  return Bytes(static_cast<std::int64_t>(most));
}

Bytes Fastest::least_bytes(std::int64_t trunk, const StateBytes& states, Bytes kept) const {
  std::optional<Bytes> least;
  for (const Pipeline& pipeline : space_.pipelines(trunk)) {
    const Bytes bytes = least_bytes(states, kept, pipeline);
    least = std::min(least.value_or(bytes), bytes);
  }
  return least.value_or(Bytes(0));
}

Bytes Fastest::least_states(const Branch& branch) {
  StateBytes& states = states_of(branch);
  const std::vector<Pipeline>* pipelines = &space_.pipelines(branch.trunk);
  for (const auto& [list, bytes] : states.least) {
    if (list == pipelines) return bytes;
  }
  states.least.emplace_back(pipelines, least_bytes(branch.trunk, states, Bytes(0)));
  return states.least.back().second;
}

// Whether no way to share weights leaves little enough on a rank.
bool Fastest::is_cut_by_states(std::int64_t trunk) {
  std::optional<Bytes> least;
  Branch branch{.trunk = trunk};
  for (branch.sharing = 0; branch.sharing < std::ssize(space_.sharings(trunk)); ++branch.sharing) {
    const Bytes bytes = least_states(branch);
    if (bytes <= capacity_) return false;
    least = std::min(least.value_or(bytes), bytes);
  }
  branch.sharing = -1;
  return least && is_cut(branch, *least, space_.leaves(branch));
}

// What a way to share weights adds to the pieces of a trunk.
Fastest::Shared Fastest::shared_by(const Branch& branch) {
  Shared shared{.sharing = branch.sharing};
  Layout layout = space_.layout(branch);
  layout.on.bits |=
      late_.legal(layout, space_.degrees_of(branch.trunk), {Decided::Sharing}).together.bits;
  shared.reduce_overlaps = asks(layout, Switch::OverlapGradientReduce, question_.trainer);
  shared.gather_overlaps = asks(layout, Switch::OverlapParameterGather, question_.trainer);
  for (std::int32_t order = 0; order < late_.orders_of(layout); ++order) {
    const auto rank = steps_.whole_rank(late_.in_order(layout, order));
    if (!rank) return {};
    shared.by_order.push_back(*rank);
  }
  return shared;
}

// Those that are chosen, or all.
std::vector<Fastest::Shared> Fastest::sharings_below(const Branch& branch) {
  std::vector<Shared> found;
  Branch of = branch;
  of.recompute = -1;
  for (of.sharing = 0; of.sharing < std::ssize(space_.sharings(branch.trunk)); ++of.sharing) {
    if (branch.sharing >= 0 && branch.sharing != of.sharing) continue;
    const std::int64_t layouts = space_.leaves(of);
    if (is_cut(of, least_states(of), layouts) || is_refused(of, layouts)) continue;
    Shared shared = shared_by(of);
    if (!shared.by_order.empty()) found.push_back(std::move(shared));
  }
  return found;
}

// Its twigs, of all choices that it leaves open. Of a way to recompute that needs too much however
// weights are shared no pieces are made.
void Fastest::split_trunk(const Branch& branch) {
  const std::vector<Shared> sharings = sharings_below(branch);
  if (sharings.empty()) return;
  std::vector<StepPieces> pieces;
  bool made = false, block = false;
  Branch twig{.trunk = branch.trunk};
  for (twig.recompute = 0; twig.recompute < std::ssize(space_.recomputes()); ++twig.recompute) {
    twig.sharing = -1;
    // Of all numbers of layers that are run again the bound is the same, and what is kept.
    const Recompute& recompute = space_.recomputes()[static_cast<std::size_t>(twig.recompute)];
    const bool was_block = std::exchange(block, recompute.kind == RecomputeKind::Block);
    made = made && was_block && block;
    if (branch.recompute >= 0 && branch.recompute != twig.recompute) continue;
    const Bytes kept = kept_of(twig);
    for (const Shared& shared : sharings) {
      twig.sharing = shared.sharing;
      const KnownTwig known{twig, {}, &states_of(twig), kept};
      const std::int64_t layouts = space_.leaves(twig);
      if (is_cut(twig, least_bytes(twig.trunk, *known.states, kept), layouts)) continue;
      if (is_refused(twig, layouts)) continue;
      if (!std::exchange(made, true))
        pieces = whole({.trunk = twig.trunk, .recompute = twig.recompute});
      if (pieces.empty()) break;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        pieces[i].ranks = {shared.by_order[i]};
        pieces[i].reduce_overlaps = shared.reduce_overlaps;
        pieces[i].gather_overlaps = shared.gather_overlaps;
      }
      push_twig({twig, least_of(pieces), known.states, kept});
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
  const auto [known, fresh] = kept_.try_emplace({twig.trunk, twig.recompute});
  if (!fresh) return known->second;
  Layout layout = space_.layout({.trunk = twig.trunk, .recompute = twig.recompute, .sharing = 0});
  if (layout.recompute.kind == RecomputeKind::EveryNth) return Bytes(0);
  if (layout.recompute.kind == RecomputeKind::Block)
    layout.recompute = {RecomputeKind::Full, {}, 1};
  known->second = memory_.least_kept(layout).value_or(Bytes(0));
  return known->second;
}

std::vector<std::pair<Branch, Bytes>> Fastest::below(const Branch& branch) {
  std::vector<std::pair<Branch, Bytes>> found;
  Branch of = branch;
  const auto add = [&](Bytes kept) {
    found.emplace_back(of, least_bytes(of.trunk, states_of(of), kept));
  };
  const std::vector<Pipeline>& pipelines = space_.pipelines(branch.trunk);
  if (branch.sharing < 0) {
    const auto sharings = std::ssize(space_.sharings(branch.trunk));
    for (of.sharing = 0; of.sharing < sharings; ++of.sharing) add(Bytes(0));
  } else if (branch.recompute < 0) {
    const auto recomputes = std::ssize(space_.recomputes());
    for (of.recompute = 0; of.recompute < recomputes; ++of.recompute) add(kept_of(of));
  } else {
    const Bytes kept = kept_of(branch);
    const StateBytes& states = states_of(branch);
    for (of.pipeline = 0; of.pipeline < std::ssize(pipelines); ++of.pipeline) {
      const Pipeline& pipeline = pipelines[static_cast<std::size_t>(of.pipeline)];
      if (space_.holds(of)) found.emplace_back(of, least_bytes(states, kept, pipeline));
    }
  }
  return found;
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
    const Pipeline& dealt = space_.pipelines(leaves.branch.trunk)[pipeline];
    const KnownTwig& twig = twigs_[static_cast<std::size_t>(leaves.twig)];
    const Bytes bytes = least_bytes(*twig.states, twig.kept, dealt);
    if (is_cut(leaves.branch, bytes, 0, leaves.bound)) return;
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
