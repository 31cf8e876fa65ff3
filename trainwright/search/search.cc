#include "trainwright/search/search.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace trainwright {
namespace {

// A layout that fits by the fast estimate.
struct Fitting {
  const Layout* layout;
  StepTime time;
  std::string text;
};

// Fastest first; equal times in the order of their text, so that the answer never depends on how
// layouts were listed.
bool faster(const Fitting& a, const Fitting& b) {
  if (a.time.step != b.time.step) return a.time.step < b.time.step;
  return a.text < b.text;
}

// Of the layouts of one question.
class Stopwatch {
 public:
  explicit Stopwatch(const SearchQuestion& question)
      : model_(question.model, question.cluster, question.trainer, question.job,
               question.time.kernels, question.attention),
        stack_(stack_of(question.time.stacks, question.trainer).constants) {}
  // Its layers can be dealt out.
  StepTime time(const Layout& layout) {
    const auto pieces = model_.pieces(layout);
    TW_CHECK(pieces.has_value(), "a layout that has memory has a time");
    return step_time(*pieces, stack_);
  }

 private:
  StepModel model_;
  const StackConstants& stack_;
};

Result<PlannedLayout> planned(const SearchQuestion& question, const Fitting& fitting) {
  const MemoryQuestion memory{.model = question.model,
                              .cluster = question.cluster,
                              .trainer = question.trainer,
                              .layout = *fitting.layout,
                              .job = question.job,
                              .attention = question.attention,
                              .constants = question.constants};
  auto estimate = estimate_memory(memory);
  if (!estimate) return fail(estimate.error().diagnostics);
  return PlannedLayout{*fitting.layout, fitting.time, *std::move(estimate)};
}

// Asks the trainer, and remembers what it said.
class Refusals {
 public:
  bool accepts(const SearchQuestion& question, const Layout& layout) {
    const auto found =
        violations(layout, question.job, question.model, question.cluster, question.trainer);
    if (is_legal(found)) return true;
    ++refused_;
    for (const LayoutViolation& violation : found) {
      if (violation.severity == Severity::Forbidden) count(violation);
    }
    return false;
  }
  std::optional<Refusal> most_frequent() const {
    if (list_.empty()) return std::nullopt;
    Refusal most =
        *std::max_element(list_.begin(), list_.end(),
                          [](const Refusal& a, const Refusal& b) { return a.layouts < b.layouts; });
    most.refused = refused_;
    return most;
  }

 private:
  // Each rule once for a layout: `refused` is the layout's number.
  void count(const LayoutViolation& violation) {
    auto known = std::find_if(list_.begin(), list_.end(),
                              [&](const Refusal& of) { return of.violation.id == violation.id; });
    if (known == list_.end()) known = list_.insert(known, {violation, 0, 0});
    if (known->refused == refused_) return;
    known->refused = refused_;
    ++known->layouts;
  }

  std::vector<Refusal> list_;  // in the order in which they were met
  std::int64_t refused_ = 0;
};

// What is known of a listed layout without a replay: with one its verdict is no better.
struct Weighed {
  std::optional<Bytes> bytes;  // of the fullest rank; nullopt if the layers cannot be dealt out
  Fit fit = Fit::DoesNotFit;
  std::optional<StepTime> time;  // if it fits
};

// Neighbours in the list share slices, so each piece of it has caches of its own; the pieces do not
// depend on the number of threads.
std::vector<Weighed> weigh(const SearchQuestion& question, const std::vector<Layout>& layouts) {
  constexpr std::size_t kPieces = 16;
  std::vector<Weighed> weighed(layouts.size());
  parallel_for(kPieces, question.threads, [&](std::size_t piece) {
    MemoryModel memory(question.model, question.cluster, question.trainer, question.job,
                       question.constants, question.attention);
    Stopwatch watch(question);
    const std::size_t end = layouts.size() * (piece + 1) / kPieces;
    for (std::size_t i = layouts.size() * piece / kPieces; i < end; ++i) {
      const auto least = memory.least(layouts[i]);
      if (!least) continue;
      weighed[i].bytes = least->driver;
      weighed[i].fit = fit_of(least->oom, question.risk);
      if (weighed[i].fit == Fit::Fits) weighed[i].time = watch.time(layouts[i]);
    }
  });
  return weighed;
}

// What a search has found so far.
struct Progress {
  SearchResult result = {};
  Refusals refusals = {};
  std::vector<std::pair<Bytes, const Layout*>> large = {};  // what does not fit, or is tight

  void add_large(Fit fit, Bytes bytes, const Layout& layout) {
    ++(fit == Fit::Tight ? result.tight : result.too_large);
    large.emplace_back(bytes, &layout);
  }
};

Bytes driver_of(const PlannedLayout& plan) { return plan.memory.classes[plan.memory.worst].driver; }

// What layouts of one family have in common.
std::string family_of(Layout layout) {
  layout.vpp = 1;
  layout.schedule = ScheduleKind::None;
  layout.placement = Layout{}.placement;
  layout.count_embedding = layout.count_loss = layout.first_layers = layout.last_layers = 0;
  layout.layers.clear();
  return to_text(layout);
}

// Ways of splitting and running again: what has to be understood, and can go wrong.
int ways_of(const Layout& layout) {
  return (layout.tp > 1) + (layout.pp > 1) + (layout.vpp > 1) + (layout.cp > 1) + (layout.ep > 1) +
         (layout.recompute.kind != RecomputeKind::None);
}

std::size_t recommended_of(const std::vector<PlannedLayout>& best) {
  std::size_t found = 0;
  const auto worth = [](const PlannedLayout& plan) {
    return std::tuple(ways_of(plan.layout), plan.memory.oom, plan.time.step);
  };
  for (std::size_t i = 1; i < best.size(); ++i) {
    if (best[i].time.step > best.front().time.step * (1 + kMargin)) break;
    if (worth(best[i]) < worth(best[found])) found = i;
  }
  return found;
}

// Asks about the fastest until there are enough families that are accepted and fit.
Result<Progress> with_best(const SearchQuestion& question, const std::vector<Fitting>& fitting,
                           Progress progress) {
  SearchResult& result = progress.result;
  std::size_t asked = 0;
  std::map<std::string, std::size_t> families;
  for (; asked < fitting.size() && result.best.size() < question.most; ++asked) {
    const Layout& layout = *fitting[asked].layout;
    if (!progress.refusals.accepts(question, layout)) {
      ++result.refused;
      continue;
    }
    PlannedLayout plan = TW_TRY(planned(question, fitting[asked]));
    const Fit fit = fit_of(plan.memory.oom, question.risk);
    if (fit == Fit::Fits) {
      const auto [family, fresh] = families.emplace(family_of(layout), result.best.size());
      if (fresh) {
        result.best.push_back(std::move(plan));
      } else {
        result.best[family->second].alike.emplace_back(layout, plan.time.step);
      }
    } else {
      progress.add_large(fit, driver_of(plan), layout);
    }
  }
  result.not_asked = static_cast<std::int64_t>(fitting.size() - asked);
  result.recommended = recommended_of(result.best);
  return progress;
}

// Bytes are lower bounds where nothing was replayed, so the first ones are, until none can be less.
Result<Progress> with_smallest(const SearchQuestion& question, Progress progress) {
  constexpr int kMostReplayed = 64;
  std::stable_sort(progress.large.begin(), progress.large.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Stopwatch watch(question);
  std::optional<PlannedLayout>& smallest = progress.result.smallest;
  int replayed = 0;
  for (const auto& [bytes, layout] : progress.large) {
    if (smallest && (bytes >= driver_of(*smallest) || replayed == kMostReplayed)) break;
    if (!progress.refusals.accepts(question, *layout)) continue;
    const Fitting of{layout, watch.time(*layout), {}};
    PlannedLayout plan = TW_TRY(planned(question, of));
    ++replayed;
    if (!smallest || driver_of(plan) < driver_of(*smallest)) smallest = std::move(plan);
  }
  return progress;
}

}  // namespace

Result<SearchResult> search(const SearchQuestion& question) {
  const std::vector<Layout> layouts = list_layouts(question);
  const std::vector<Weighed> weighed = weigh(question, layouts);
  Progress progress;
  std::vector<Fitting> fitting;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (!weighed[i].bytes) continue;
    ++progress.result.listed;
    if (weighed[i].fit == Fit::Fits) {
      fitting.push_back({&layouts[i], *weighed[i].time, to_text(layouts[i])});
    } else {
      progress.add_large(weighed[i].fit, *weighed[i].bytes, layouts[i]);
    }
  }
  std::sort(fitting.begin(), fitting.end(), faster);
  progress = TW_TRY(with_best(question, fitting, std::move(progress)));
  if (!progress.result.best.empty()) return std::move(progress.result);
  progress = TW_TRY(with_smallest(question, std::move(progress)));
  SearchResult& result = progress.result;
  if (result.smallest) {
    result.end = SearchEnd::NothingFits;
  } else {
    result.end = result.listed == 0 ? SearchEnd::NothingDivides : SearchEnd::AllRefused;
    result.refusal = progress.refusals.most_frequent();
  }
  return std::move(result);
}

std::string_view name_of(SearchEnd end) {
  switch (end) {
    case SearchEnd::Found: return "found";
    case SearchEnd::NothingFits: return "nothing-fits";
    case SearchEnd::AllRefused: return "all-refused";
    case SearchEnd::NothingDivides: return "nothing-divides";
  }
  return "";
}

}  // namespace trainwright
