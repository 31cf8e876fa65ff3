// Stacks from all published runs, and what of them is left when a source has no say.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "trainwright/base/parallel.h"
#include "trainwright/base/text.h"
#include "trainwright/calibrate/calibrate.h"

namespace trainwright {
namespace {

using Runs = std::vector<const TimedRun*>;
using BySource = std::map<std::string, Runs>;

constexpr std::size_t kAlone = 25;              // runs that are tried as the only one measured
constexpr std::string_view kOthers = "others";  // the stack of trainers that no other names

// The runs, of one stack or of all, that are sound and whose inputs are known.
BySource sources_of(const TimedRuns& timed, const std::optional<std::string>& stack = {}) {
  BySource sources;
  for (const TimedRun& run : timed.runs) {
    const bool known = !run.broken && !run.undetermined;
    if (known && (!stack || run.stack == *stack)) sources[run.source].push_back(&run);
  }
  return sources;
}

Runs all_but(const BySource& sources, const std::string& without) {
  Runs runs;
  for (const auto& [source, own] : sources) {
    if (source != without) runs.insert(runs.end(), own.begin(), own.end());
  }
  return runs;
}

StackConstants fitted_without(const BySource& everywhere, const BySource& of_stack,
                              const WidthRule& width, const std::string& without = {}) {
  StackConstants common =
      fit_stack(all_but(everywhere, without), usual_stack(), {.from = Learning::From::AllStacks});
  common.width = width;
  if (!of_stack.empty()) common.host = of_stack.begin()->second.front()->host;
  // A quirk of one stack is no prior for another.
  common.values[static_cast<std::size_t>(StackConstant::Hop)] =
      usual_stack().at(StackConstant::Hop);
  const Runs own = all_but(of_stack, without);
  // All other trainers have nothing in common but what all have.
  if (own.empty() || own.front()->stack == kOthers) return common;
  return fit_stack(own, common, {.from = Learning::From::OneStack});
}

// What the source's own runs make of constants that ship.
WithoutSource learned_about(const Runs& own, const StackConstants& shipped) {
  WithoutSource learned{.constants = shipped, .by_fold = {}, .alone = {}};
  StackConstants constants = shipped;
  constants.width.slow = 1;
  std::set<std::string> folds;
  for (const TimedRun* run : own) folds.insert(run->fold);
  for (const std::string& fold : folds) {
    Runs others;
    for (const TimedRun* run : own) {
      if (run->fold != fold) others.push_back(run);
    }
    learned.by_fold.emplace(fold, fit_stack(others, constants));
  }
  const std::size_t every = std::max<std::size_t>(1, (own.size() + kAlone - 1) / kAlone);
  for (std::size_t i = 0; i < own.size() && own.size() > 1; i += every) {
    learned.alone.emplace_back(own[i], fit_stack({&own[i], 1}, constants, {.width = kWidthOfFew}));
  }
  return learned;
}

WithoutSource without_source(const TimedRuns& timed, const SourceStack& of,
                             const WidthRule& width = {}) {
  const BySource of_stack = sources_of(timed, of.stack);
  return learned_about(of_stack.at(of.source),
                       fitted_without(sources_of(timed), of_stack, width, of.source));
}

// Of all runs that are sound.
std::vector<SourceStack> source_stacks(const TimedRuns& timed) {
  std::set<SourceStack> all;
  for (const auto& [source, runs] : sources_of(timed)) {
    for (const TimedRun* run : runs) all.insert({source, run->stack});
  }
  return {all.begin(), all.end()};
}

}  // namespace

const StackConstants& WithoutSource::without(const std::string& fold) const {
  const auto found = by_fold.find(fold);
  return found == by_fold.end() ? constants : found->second;
}

LeftOut leave_source_out(const TimedRuns& timed, const std::string& source) {
  LeftOut left;
  for (const SourceStack& of : source_stacks(timed)) {
    if (of.source == source) left[of] = without_source(timed, of);
  }
  return left;
}

LeftOut leave_sources_out(const TimedRuns& timed, const Stacks& stacks) {
  const std::vector<SourceStack> all = source_stacks(timed);
  const std::vector<WithoutSource> learned = parallel_map(
      all.size(), {}, [&](std::size_t i) { return without_source(timed, all[i], stacks.width); });
  LeftOut left;
  for (std::size_t i = 0; i < all.size(); ++i) left[all[i]] = learned[i];
  for (auto& [of, without] : left) {
    without.constants.spread = stacks.list.front().spreads.front();
  }
  return left;
}

LeftOut shipped(const TimedRuns& timed, const Stacks& stacks) {
  LeftOut left;
  for (const Stack& stack : stacks.list) {
    for (const auto& [source, own] : sources_of(timed, stack.name)) {
      left[{source, stack.name}] = learned_about(own, stack.constants);
    }
  }
  return left;
}

Stacks learned_from(const TimedRuns& timed, const Stacks& shipped) {
  Stacks learned = shipped;
  for (Stack& stack : learned.list) {
    // One user's runs are of one machine, whatever he calls them.
    std::vector<TimedRun> own;
    for (const auto& [source, runs] : sources_of(timed, stack.name)) {
      for (const TimedRun* run : runs) own.push_back(*run), own.back().source = "own";
    }
    if (own.empty()) continue;
    Runs runs;
    for (const TimedRun& run : own) runs.push_back(&run);
    const std::size_t known = std::ssize(runs) < kFewRuns ? 1 : 2;
    stack.constants = fit_stack(runs, stack.constants, {.width = known == 1 ? kWidthOfFew : 1.0});
    std::fill_n(stack.spreads.begin(), known, stack.spreads[known]);
    stack.constants.spread = stack.spreads.front();
    stack.source += fmt::format("; then {} runs of one's own", std::ssize(runs));
    const bool taught = std::any_of(own.begin(), own.end(),
                                    [](const TimedRun& run) { return run.pieces.regime.untaught; });
    if (taught) learned.width.untaught = 1;
    learned.width.slow = 1;
  }
  for (Stack& stack : learned.list) stack.constants.width = learned.width;
  return learned;
}

Stacks fit_stacks(const TimedRuns& timed, const Stacks& stacks) {
  const BySource everywhere = sources_of(timed);
  Stacks fitted = stacks;
  for (Stack& stack : fitted.list) {
    const BySource sources = sources_of(timed, stack.name);
    const Seconds host = stack.constants.host;
    stack.constants = fitted_without(everywhere, sources, stacks.width);
    stack.constants.host = host;
    stack.constants.spread = stack.spreads.front();
    std::vector<std::string> names;
    for (const auto& [source, own] : sources) {
      names.push_back(fmt::format("{} ({})", source, own.size()));
    }
    stack.source = names.empty() ? "all stacks together: no runs of these trainers"
                                 : "all stacks together, then " + join(names, ", ");
  }
  return fitted;
}

}  // namespace trainwright
