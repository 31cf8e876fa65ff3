#include "trainwright/search/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "trainwright/base/check.h"
#include "trainwright/base/digits.h"
#include "trainwright/search/branch.h"

namespace trainwright {
namespace {

// Asks the trainer, and remembers what it said.
class Refusals {
 public:
  // Of a layout that speaks for so many.
  bool accepts(const SearchQuestion& question, const Layout& layout, std::int64_t layouts = 1) {
    const auto found = violations(question, layout);
    if (is_legal(found)) return true;
    refused_ += layouts;
    std::set<std::string> ids;  // a rule may speak twice against a layout
    for (const LayoutViolation& violation : found) {
      const bool counts = violation.severity == Severity::Forbidden;
      if (counts && ids.insert(violation.id).second) count(violation, layouts);
    }
    return false;
  }
  std::int64_t refused() const { return refused_; }
  // Most frequent first.
  std::vector<Refusal> all() const {
    std::vector<Refusal> list = list_;
    for (Refusal& of : list) of.refused = refused_;
    std::stable_sort(list.begin(), list.end(),
                     [](const Refusal& a, const Refusal& b) { return a.layouts > b.layouts; });
    return list;
  }

 private:
  void count(const LayoutViolation& violation, std::int64_t layouts) {
    auto known = std::find_if(list_.begin(), list_.end(),
                              [&](const Refusal& of) { return of.violation.id == violation.id; });
    if (known == list_.end()) known = list_.insert(known, {violation, 0, 0});
    known->layouts += layouts;
  }

  std::vector<Refusal> list_;  // in the order in which they were met
  std::int64_t refused_ = 0;
};

Bytes driver_of(const PlannedLayout& plan) { return plan.memory.classes[plan.memory.worst].driver; }

// What layouts of one family have in common.
std::string family_of(Layout layout) {
  layout.vpp = 1;
  layout.schedule = ScheduleKind::None;
  layout.placement = Layout{}.placement;
  layout.count_embedding = layout.count_loss = layout.first_layers = layout.last_layers = 0;
  if (layout.sharding == ShardingKind::Hsdp) layout.sharding = ShardingKind::Fsdp;
  layout.dp_replicate = 1;
  layout.recompute = {};
  layout.layers.clear();
  layout.on = layout.off = {};
  layout.order = Layout{}.order;
  layout.dispatcher = {};
  layout.gradients = GradientDtype::AsTrainer;
  layout.loss.clear();
  return to_text(layout);
}

// What does not fit, or fits at a higher risk only. The least comes first, of equals the first met.
struct LargeLayout {
  Bytes bytes;             // of the fullest rank, at least
  std::int64_t order = 0;  // in which they were met
  detail::Branch branch;   // none: the layout was asked about
  enum class Of : std::uint8_t { States, SomeRank, AllRanks } of = Of::AllRanks;
  friend bool operator<(const LargeLayout& a, const LargeLayout& b) {
    return std::tuple(a.bytes, a.order) > std::tuple(b.bytes, b.order);
  }
};

// Asks about the fastest until there are enough families that are accepted and fit.
class Asking {
 public:
  Asking(const SearchQuestion& question, const detail::Space& space)
      : question_(question), space_(space), fastest_(question, space) {}

  Result<SearchResult> result() {
    while (result_.best.size() < question_.most) {
      end_of_ranking();
      const std::optional<Layout> layout = fastest_.next();
      if (!layout || too_late()) break;
      if (enough_alike(*layout)) continue;
      const auto fit = TW_TRY(ask(*layout));
      if (fit && fit != Fit::Fits) fastest_.too_large();
    }
    const bool all = fastest_.stopped() == SearchStop::Not;
    if (result_.best.empty() && all && question_.find_smallest) {
      result_.smallest = TW_TRY(smallest());
    }
    finish();
    if (question_.find_riskier && !is_asked_to_stop()) result_.riskier = TW_TRY(riskier());
    if (question_.more_memory && result_.proven && !result_.best.empty()) {
      result_.with_more_memory = TW_TRY(with_more_memory(*question_.more_memory));
    }
    return std::move(result_);
  }

 private:
  bool is_asked_to_stop() const {
    if (!question_.stop) return false;
    const SearchStop now = question_.stop(fastest_.looked().bounded);
    return now == SearchStop::Time || now == SearchStop::Interrupt;
  }
  // One layout is judged, whatever the time; a few where the first does not fit.
  bool too_late() {
    constexpr std::int64_t kMostTried = 3;
    if (fastest_.stopped() == SearchStop::Not || !question_.late || !question_.late()) return false;
    return !result_.best.empty() || late_++ >= kMostTried;
  }

  void end_of_ranking() {
    const std::int64_t branches = fastest_.looked().bounded + fastest_.looked().evaluated;
    if (result_.best.empty()) {
      ranking_ends_ = branches + kFurther;
    } else if (branches > ranking_ends_ && !ranked_) {
      ranked_ = result_.best.size();
      fastest_.only_timed();
    }
  }

  // Nullopt if the trainer refuses it.
  Result<std::optional<Fit>> ask(const Layout& layout) {
    if (!refusals_.accepts(question_, layout)) return std::nullopt;
    PlannedLayout plan = TW_TRY(planned(question_, layout));
    ++result_.simulated;
    const Fit fit = fit_of(plan.memory.oom, question_.risk);
    if (fit != Fit::Fits) {
      ++(fit == Fit::Tight ? result_.tight : result_.too_large);
      large_.push_back({driver_of(plan), std::ssize(asked_), {}});
      asked_.emplace_back(layout, rank_of(plan));
      const bool faster = !tight_ || rank_of(plan) < rank_of(*tight_);
      if (fit == Fit::Tight && faster) tight_ = std::move(plan);
      return fit;
    }
    add(std::move(plan));
    return fit;
  }

  // A replay of each would tell little more.
  bool enough_alike(const Layout& layout) const {
    constexpr std::size_t kMostAlike = 4;
    const auto family = families_.find(family_of(layout));
    return family != families_.end() && result_.best[family->second].alike.size() >= kMostAlike;
  }

  // Layouts come out fastest first, but for those that a spent budget leaves.
  void add(PlannedLayout plan) {
    const auto [family, fresh] = families_.emplace(family_of(plan.layout), result_.best.size());
    if (fresh) {
      result_.best.push_back(std::move(plan));
      return;
    }
    PlannedLayout& first = result_.best[family->second];
    if (rank_of(plan) < rank_of(first)) {
      std::swap(plan.alike, first.alike);
      std::swap(plan, first);
    }
    first.alike.push_back(std::move(plan));
  }

  // Bytes are lower bounds: of states, of one class of ranks, of all, and exact with a replay. The
  // least is made better until it is exact.
  Result<std::optional<PlannedLayout>> smallest() {
    constexpr int kMostReplayed = 64;
    std::vector<LargeLayout> heap = std::move(large_);
    for (const detail::Large& of : fastest_.large()) {
      if (of.faster) continue;
      detail::Branch leaf = of.branch;
      leaf.way = -1;
      heap.push_back({of.bytes, std::ssize(heap), leaf, LargeLayout::Of::States});
    }
    std::make_heap(heap.begin(), heap.end());
    std::optional<PlannedLayout> smallest;
    int replayed = 0;
    while (!heap.empty()) {
      if (is_asked_to_stop()) {
        stopped_ = question_.stop(fastest_.looked().bounded);
        return std::nullopt;
      }
      std::pop_heap(heap.begin(), heap.end());
      const LargeLayout of = heap.back();
      heap.pop_back();
      if (smallest && (of.bytes >= driver_of(*smallest) || replayed == kMostReplayed)) break;
      if (of.of != LargeLayout::Of::AllRanks) {
        refine(of, heap);
        continue;
      }
      const Layout layout = of.branch.trunk < 0 ? asked_[static_cast<std::size_t>(of.order)].first
                                                : space_.layout(of.branch);
      if (!of_cut_.accepts(question_, layout)) continue;
      PlannedLayout plan = TW_TRY(planned(question_, layout));
      ++replayed;
      if (!smallest || driver_of(plan) < driver_of(*smallest)) smallest = std::move(plan);
    }
    return smallest;
  }

  // One of its layouts.
  static detail::Branch filled(detail::Branch branch) {
    for (std::int32_t* choice : {&branch.recompute, &branch.sharing, &branch.pipeline}) {
      *choice = std::max(*choice, 0);
    }
    return branch;
  }

  bool refused_by_rules(const detail::Branch& leaf) {
    if (fastest_.refusing(leaf).empty()) return false;
    if (of_cut_.refused() == 0) of_cut_.accepts(question_, space_.layout(filled(leaf)));
    return true;
  }

  // Layouts that were cut together one by one, each in the ways that take least; of one way what
  // its first, then its fullest rank needs.
  void refine(LargeLayout of, std::vector<LargeLayout>& heap) {
    const auto push = [&](const LargeLayout& better) {
      heap.push_back(better);
      std::push_heap(heap.begin(), heap.end());
    };
    const detail::Branch& branch = of.branch;
    if (branch.way < 0 && refused_by_rules(branch)) return;
    if (branch.pipeline >= 0 && branch.way < 0) {
      for (const detail::Branch& way : fastest_.leanest_ways(branch)) {
        push({of.bytes, of.order, way, LargeLayout::Of::States});
      }
    } else if (branch.pipeline < 0) {
      for (const auto& [next, bytes] : fastest_.below(branch)) {
        push({std::max(of.bytes, bytes), of.order, next, LargeLayout::Of::States});
      }
    } else {
      const bool all = of.of == LargeLayout::Of::SomeRank;
      const auto driver = fastest_.driver_of(branch, all);
      if (!driver) return;
      of.of = all ? LargeLayout::Of::AllRanks : LargeLayout::Of::SomeRank;
      of.bytes = std::max(of.bytes, *driver);
      push(of);
    }
  }

  // Tight layouts come in the order of their bounds, and all that are faster than the best were
  // met.
  Result<std::optional<PlannedLayout>> riskier() {
    std::optional<PlannedLayout> found;
    Seconds least(std::numeric_limits<double>::infinity());
    if (!result_.best.empty()) least = rank_of(result_.best.front()) * (1 - kMargin);
    if (tight_ && rank_of(*tight_) < least) {
      least = rank_of(*tight_);
      found = std::move(tight_);
    }
    for (const detail::Large& of : fastest_.large()) {
      if (of.fit != Fit::Tight) continue;
      if (of.bound >= least || is_asked_to_stop()) break;
      detail::Branch leaf = of.branch;
      leaf.way = -1;
      if (auto plan = TW_TRY(tight_way(leaf, least))) {
        least = rank_of(*plan);
        found = std::move(*plan);
      }
    }
    return found;
  }

  // The fastest way of a leaf that takes less than `least` and fits at even odds.
  Result<std::optional<PlannedLayout>> tight_way(const detail::Branch& leaf, Seconds least) {
    detail::Fastest::MemoryClasses without;
    while (const auto way = fastest_.fastest_way(leaf, kEvenOdds, without)) {
      const Layout layout = space_.layout(way->branch);
      if (way->step >= least || !refusals_.accepts(question_, layout)) break;
      PlannedLayout plan = TW_TRY(planned(question_, layout));
      if (plan.memory.oom <= kEvenOdds) return plan;
      without.insert(fastest_.memory_class(way->branch));
    }
    return std::nullopt;
  }

  // What is faster than the best was refused, and stays so, or did not fit: with a replay, or by
  // what the search knew without one.
  Result<std::optional<PlannedLayout>> with_more_memory(double times) {
    const Cluster larger = with_memory(question_.cluster, times);
    const SearchQuestion more = with_cluster(question_, larger);
    PlannedLayout found = result_.best.front();
    const auto improve = [&](const Layout& layout) -> Result<bool> {
      PlannedLayout plan = TW_TRY(planned(more, layout));
      const auto order = [](const PlannedLayout& of) {
        return std::pair(rank_of(of), to_text(of.layout));
      };
      const bool better =
          fit_of(plan.memory.oom, more.risk) == Fit::Fits && order(plan) < order(found);
      if (better) found = std::move(plan);
      return better;
    };
    for (const auto& [layout, step] : asked_) {
      if (is_asked_to_stop()) return std::nullopt;
      if (step > rank_of(found) || TW_TRY(improve(layout))) break;
    }
    fastest_.begin_again(capacity_of(larger), rank_of(found));
    while (true) {
      const std::optional<Layout> layout = fastest_.next();
      if (fastest_.stopped() != SearchStop::Not) return std::nullopt;
      if (!layout) break;
      if (!refusals_.accepts(more, *layout)) continue;
      if (TW_TRY(improve(*layout))) break;
      fastest_.too_large();
    }
    return found;
  }

  // Of what the same rules refuse one layout speaks for all.
  void ask_why(const detail::Fastest::Refused& of) {
    const Layout layout = space_.layout(filled(of.branch));
    const bool accepted = refusals_.accepts(question_, layout, of.layouts);
    TW_CHECK(!accepted, "what refuses a branch refuses its layouts");
  }

  void remember() {
    const std::vector<detail::Met> met = fastest_.met();
    const std::int64_t stride = (std::ssize(met) + kMostConsidered - 1) / kMostConsidered;
    for (std::int64_t i = 0; i < std::ssize(met); i += stride) {
      const detail::Met& of = met[static_cast<std::size_t>(i)];
      result_.considered.push_back(
          {space_.layout(of.branch), of.driver, of.step, of.fit, of.timed});
    }
    result_.refusals = refusals_.all();
  }

  void finish() {
    for (const detail::Fastest::Refused& of : fastest_.refused()) ask_why(of);
    if (question_.remember) remember();
    result_.space = space_.size();
    result_.bounded = fastest_.looked().bounded;
    result_.cut = fastest_.looked().cut;
    result_.evaluated = fastest_.looked().evaluated;
    result_.timed = fastest_.looked().timed;
    result_.refused = refusals_.refused();
    for (const detail::Large& of : fastest_.large()) {
      if (of.cut || of.faster) continue;
      ++(of.fit == Fit::Tight ? result_.tight : result_.too_large);
    }
    result_.stopped = fastest_.stopped();
    result_.proven = result_.stopped == SearchStop::Not || ranked_.has_value();
    if (result_.proven) result_.stopped = SearchStop::Not;
    result_.ranked = ranked_.value_or(result_.proven ? result_.best.size() : 0);
    if (result_.proven && stopped_ != SearchStop::Not) result_.stopped = stopped_;
    if (const auto bound = fastest_.bound()) result_.bound = *bound;
    if (!result_.best.empty()) {
      // Whatever nobody met: no layout beats the peak.
      if (!fastest_.bound()) result_.bound = result_.best.front().time.bound;

      std::stable_sort(
          result_.best.begin(), result_.best.end(),
          [](const PlannedLayout& a, const PlannedLayout& b) { return rank_of(a) < rank_of(b); });
      result_.bound = std::min(result_.bound, result_.best.front().time.step);
    } else if (!result_.proven) {
      result_.end = SearchEnd::Stopped;
      result_.smallest.reset();
    } else if (result_.smallest || !question_.find_smallest || stopped_ != SearchStop::Not) {
      result_.end = SearchEnd::NothingFits;
    } else {
      const std::vector<Refusal> refusals = (refusals_.refused() > 0 ? refusals_ : of_cut_).all();
      if (!refusals.empty()) result_.refusal = refusals.front();
      result_.end = result_.refusal ? SearchEnd::AllRefused : SearchEnd::NothingDivides;
    }
  }

  const SearchQuestion& question_;
  const detail::Space& space_;
  detail::Fastest fastest_;
  SearchResult result_ = {};
  Refusals refusals_ = {}, of_cut_ = {};  // the latter counted as too large
  std::map<std::string, std::size_t> families_ = {};
  std::vector<LargeLayout> large_ = {};
  std::vector<std::pair<Layout, Seconds>> asked_ = {};  // those of `large_`, with their times
  std::optional<PlannedLayout> tight_ = {};             // the fastest of them that is no worse
  std::int64_t ranking_ends_ = 0;                       // branches at which rows are no more proven
  std::optional<std::size_t> ranked_ = {};              // rows until then
  std::int64_t late_ = 0;                               // layouts judged when it was late
  SearchStop stopped_ = SearchStop::Not;                // while the smallest was looked for
};

}  // namespace

Seconds rank_of(const PlannedLayout& plan) { return in_nine_digits(plan.time.step); }

Result<PlannedLayout> planned(const SearchQuestion& question, const Layout& layout) {
  MemoryEstimate memory = TW_TRY(estimate_memory(memory_question(question, layout)));
  const StepPieces pieces = TW_TRY(step_pieces(step_question(question, layout)));
  const StackConstants& stack = stack_of(question.time.stacks, question.trainer).constants;
  return PlannedLayout{layout, step_time(pieces, stack), std::move(memory)};
}

MemoryQuestion memory_question(const SearchQuestion& question, const Layout& layout) {
  return {.model = question.model,
          .cluster = question.cluster,
          .trainer = question.trainer,
          .layout = layout,
          .job = question.job,
          .attention = question.attention,
          .constants = question.constants};
}

StepQuestion step_question(const SearchQuestion& question, const Layout& layout) {
  return {.model = question.model,
          .cluster = question.cluster,
          .trainer = question.trainer,
          .layout = layout,
          .job = question.job,
          .kernels = question.time.kernels,
          .attention = question.attention,
          .expert_load = question.constants.expert_load};
}

SearchQuestion with_cluster(const SearchQuestion& question, const Cluster& cluster) {
  return {.model = question.model,
          .cluster = cluster,
          .trainer = question.trainer,
          .job = question.job,
          .gbs = question.gbs,
          .seq = question.seq,
          .precision = question.precision,
          .attention = question.attention,
          .constants = question.constants,
          .time = question.time,
          .risk = question.risk,
          .most = question.most,
          .limits = question.limits,
          .also = question.also,
          .recipes = question.recipes,
          .foreign = question.foreign,
          .offload = question.offload,
          .from = question.from,
          .ramp = question.ramp,
          .budget = question.budget,
          .stop = question.stop,
          .late = question.late};
}

StepModel step_model(const SearchQuestion& question) {
  return {question.model,
          question.cluster,
          question.trainer,
          question.job,
          question.time.kernels,
          question.attention,
          question.constants.expert_load};
}

Result<SearchResult> search(const SearchQuestion& question) {
  const detail::Space space(question);
  return Asking(question, space).result();
}

std::string_view name_of(SearchStop stop) {
  switch (stop) {
    case SearchStop::Not: return "";
    case SearchStop::Budget: return "budget";
    case SearchStop::Time: return "time-limit";
    case SearchStop::Interrupt: return "interrupt";
    case SearchStop::Soon: return "soon";
  }
  return "";
}

std::string_view name_of(SearchEnd end) {
  switch (end) {
    case SearchEnd::Found: return "found";
    case SearchEnd::Tight: return "tight";
    case SearchEnd::NothingFits: return "nothing-fits";
    case SearchEnd::AllRefused: return "all-refused";
    case SearchEnd::Stopped: return "stopped";
    case SearchEnd::NothingDivides: return "nothing-divides";
  }
  return "";
}

}  // namespace trainwright
