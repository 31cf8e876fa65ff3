// Constants of a software stack from runs whose step time is known.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/parallel.h"
#include "trainwright/base/text.h"
#include "trainwright/calibrate/calibrate.h"

namespace trainwright {
namespace {

constexpr double kExpected = 0.05;        // s: what a good prediction is off by
constexpr std::size_t kSay = 40;          // rows that one source counts for at most
constexpr std::size_t kMostFitted = 250;  // rows of one source that are fitted to
// Where fewer than three sources tell: half the width that holds 90 % of all published runs when
// nothing but the trainer's class is known.
constexpr double kUnknown = 0.4;

// Constants as logarithms: all are positive, and factors are as likely as their inverses.
StackConstants from_logs(std::span<const double> logs, const StackConstants& prior) {
  StackConstants constants = prior;
  for (std::size_t k = 0; k < kStackConstants; ++k) constants.values[k] = std::exp(logs[k]);
  return constants;
}

std::vector<FreeConstant> fitted_constants(const StackConstants& prior) {
  std::vector<FreeConstant> constants;
  for (std::size_t k = 0; k < kStackConstants; ++k) {
    const StackPrior& known = stack_priors()[k];
    FreeConstant constant;
    constant.name = known.name;
    constant.lower = std::log(known.least);
    constant.upper = std::log(known.most);
    constant.start = std::clamp(std::log(prior.values[k]), constant.lower, constant.upper);
    constants.push_back(std::move(constant));
  }
  return constants;
}

double log_error(const StepPieces& pieces, const StackConstants& constants, double measured) {
  return std::log(step_time(pieces, constants).step.value() / measured);
}

// Half the width that holds 90 % of the errors of sources that had no say.
double spread_of(const std::vector<double>& errors, std::size_t sources) {
  if (sources < 3) return kUnknown;
  const Interval interval = conformal_log_interval(errors);
  const double half = std::max(-interval.low, interval.high);
  return std::isfinite(half) ? std::clamp(half, 0.05, 1.0) : kUnknown;
}

// Every so many-th run of sources with more than determine anything.
std::vector<const TimedRun*> thinned(std::span<const TimedRun* const> runs) {
  std::map<std::string, std::size_t> rows, seen;
  for (const TimedRun* run : runs) ++rows[run->source];
  std::vector<const TimedRun*> kept;
  for (const TimedRun* run : runs) {
    const std::size_t every = (rows[run->source] + kMostFitted - 1) / kMostFitted;
    if (seen[run->source]++ % every == 0) kept.push_back(run);
  }
  return kept;
}

// Weights such that no source has more say than kSay rows.
std::vector<double> weights_of(std::span<const TimedRun* const> runs) {
  std::map<std::string, double> rows;
  for (const TimedRun* run : runs) rows[run->source] += 1;
  std::vector<double> weights;
  for (const TimedRun* run : runs) {
    weights.push_back(std::sqrt(std::min(1.0, static_cast<double>(kSay) / rows[run->source])));
  }
  return rows.size() > 1 ? weights : std::vector<double>(runs.size(), 1.0);
}

}  // namespace

StackConstants fit_stack(std::span<const TimedRun* const> all, const StackConstants& prior) {
  if (all.empty()) return prior;
  const std::vector<const TimedRun*> runs = thinned(all);
  const std::vector<double> weights = weights_of(runs);
  // The bubble's share is nearly the same for all constants, and costs most to find.
  std::vector<StepPieces> pieces = parallel_map(
      runs.size(), {}, [&](std::size_t i) { return with_known_idle(runs[i]->pieces, prior); });
  const auto residuals = [&](std::span<const double> logs, std::span<double> residual) {
    const StackConstants constants = from_logs(logs, prior);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      residual[i] = weights[i] * log_error(pieces[i], constants, runs[i]->measured) / kExpected;
    }
    for (std::size_t k = 0; k < kStackConstants; ++k) {
      residual[pieces.size() + k] =
          (logs[k] - std::log(prior.values[k])) / stack_priors()[k].spread;
    }
    return true;
  };
  const auto fitted = fit(fitted_constants(prior), pieces.size() + kStackConstants, residuals,
                          {.robust_from = 2, .most_iterations = 40});
  return fitted ? from_logs(fitted->values, prior) : prior;
}

namespace {

using Runs = std::vector<const TimedRun*>;
using BySource = std::map<std::string, Runs>;

// The sound runs of a stack.
BySource sources_of(const TimedRuns& timed, const std::string& stack) {
  BySource sources;
  for (const TimedRun& run : timed.runs) {
    if (run.stack == stack && !run.broken) sources[run.source].push_back(&run);
  }
  return sources;
}

StackConstants fitted_without(const BySource& sources, const std::string& without) {
  Runs runs;
  for (const auto& [source, own] : sources) {
    if (source != without) runs.insert(runs.end(), own.begin(), own.end());
  }
  return fit_stack(runs, usual_stack());
}

// log(measured / predicted) of at most kSay runs, spread over the source.
std::vector<double> errors_of(const Runs& runs, const StackConstants& constants) {
  std::vector<double> errors;
  const std::size_t every = (runs.size() + kSay - 1) / kSay;
  for (std::size_t i = 0; i < runs.size(); i += every) {
    errors.push_back(-log_error(runs[i]->pieces, constants, runs[i]->measured));
  }
  return errors;
}

}  // namespace

LeftOut leave_sources_out(const TimedRuns& timed, const Stacks& stacks) {
  LeftOut left;
  for (const Stack& stack : stacks.list) {
    const BySource sources = sources_of(timed, stack.name);
    std::map<std::string, std::vector<double>> errors;
    for (const auto& [source, own] : sources) {
      left[source].constants = fitted_without(sources, source);
      errors[source] = errors_of(own, left[source].constants);
    }
    for (const auto& [source, own] : sources) {
      std::vector<double> others;
      for (const auto& [other, of] : errors) {
        if (other != source) others.insert(others.end(), of.begin(), of.end());
      }
      left[source].constants.spread = spread_of(others, errors.size() - 1);
      left[source].errors = errors[source];
    }
  }
  return left;
}

LeftOut shipped(const TimedRuns& timed, const Stacks& stacks) {
  LeftOut left;
  for (const Stack& stack : stacks.list) {
    for (const auto& [source, own] : sources_of(timed, stack.name)) {
      left[source] = {stack.constants, errors_of(own, stack.constants)};
    }
  }
  return left;
}

Stacks learned_from(const TimedRuns& timed, const Stacks& shipped) {
  Stacks learned = shipped;
  for (Stack& stack : learned.list) {
    Runs runs;
    for (const auto& [source, own] : sources_of(timed, stack.name)) {
      runs.insert(runs.end(), own.begin(), own.end());
    }
    if (runs.empty()) continue;
    stack.constants = fit_stack(runs, stack.constants);
    stack.source += fmt::format("; then {} own runs", runs.size());
  }
  return learned;
}

Stacks fit_stacks(const TimedRuns& timed, const Stacks& stacks, const LeftOut& left) {
  Stacks fitted = stacks;
  for (Stack& stack : fitted.list) {
    const BySource sources = sources_of(timed, stack.name);
    stack.constants = fitted_without(sources, {});
    std::vector<double> errors;
    std::vector<std::string> names;
    for (const auto& [source, own] : sources) {
      const std::vector<double>& of = left.at(source).errors;
      errors.insert(errors.end(), of.begin(), of.end());
      names.push_back(fmt::format("{} ({})", source, own.size()));
    }
    stack.constants.spread = spread_of(errors, sources.size());
    stack.source = names.empty() ? "usual values: no runs of these trainers" : join(names, ", ");
  }
  return fitted;
}

}  // namespace trainwright
