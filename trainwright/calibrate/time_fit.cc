// Constants of a software stack from runs whose step time is known.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/parallel.h"
#include "trainwright/base/text.h"
#include "trainwright/calibrate/calibrate.h"

namespace trainwright {
namespace {

constexpr double kExpected = 0.05;       // what a good prediction is off by
constexpr double kExpectedOfFew = 0.1;   // likewise where few runs tell no more than a scale
constexpr double kMachine = 0.14;        // what machines of one stack differ by
constexpr double kSay = 40;              // rows that one source counts for at most
constexpr std::size_t kMostAlone = 250;  // rows that are fitted to, of one source by itself
constexpr std::size_t kMostEach = 60;    // and of each of several
constexpr std::size_t kFitted = kStackConstants - 1;  // all but the scale, which follows

// What may move, and how far it is expected to.
struct Free {
  std::size_t constant = 0;
  double spread = 0;
};
std::vector<Free> free_constants(const Learning& how) {
  std::vector<Free> free;
  for (std::size_t k = 0; k < kFitted; ++k) {
    const double spread = spread_of(static_cast<StackConstant>(k), how);
    if (spread > 0) free.push_back({k, spread});
  }
  return free;
}

// Constants as logarithms: all are positive, and factors are as likely as their inverses.
StackConstants from_logs(std::span<const double> logs, std::span<const Free> free,
                         const StackConstants& prior) {
  StackConstants constants = prior;
  for (std::size_t i = 0; i < free.size(); ++i) {
    constants.values[free[i].constant] = std::exp(logs[i]);
  }
  return constants;
}

std::vector<FreeConstant> fitted_constants(std::span<const Free> free,
                                           const StackConstants& prior) {
  std::vector<FreeConstant> constants;
  for (const auto& [k, spread] : free) {
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

// The runs that are fitted to, with the number of their machine and their weight.
struct FittedRuns {
  std::vector<const TimedRun*> runs;
  std::vector<StepPieces> pieces;
  std::vector<std::size_t> machine;
  std::vector<double> weight;
  std::size_t machines = 0;
  double expected = kExpected;
};

// Every so many-th run of sources with more than determine anything; no source has more say than
// kSay rows where there are several.
FittedRuns chosen(std::span<const TimedRun* const> all, const StackConstants& prior) {
  std::map<std::string, std::vector<const TimedRun*>> by_source;
  for (const TimedRun* run : all) by_source[run->source].push_back(run);
  FittedRuns fitted;
  if (std::ssize(all) < kFewRuns) fitted.expected = kExpectedOfFew;
  const bool several = by_source.size() > 1;
  const std::size_t most = several ? kMostEach : kMostAlone;
  for (const auto& [source, runs] : by_source) {
    const std::size_t every = (runs.size() + most - 1) / most;
    const std::size_t rows = (runs.size() + every - 1) / every;
    const double say = several ? std::min(1.0, kSay / static_cast<double>(rows)) : 1.0;
    std::map<std::string, std::size_t> machines;
    for (std::size_t i = 0; i < runs.size(); i += every) {
      const std::string& machine = several ? runs[i]->accelerator : source;
      const auto at = machines.try_emplace(machine, fitted.machines + machines.size()).first;
      fitted.runs.push_back(runs[i]);
      fitted.machine.push_back(at->second);
      fitted.weight.push_back(std::sqrt(say));
    }
    fitted.machines += machines.size();
  }
  // The bubble's share is nearly the same for all constants, and costs most to find.
  fitted.pieces = parallel_map(fitted.runs.size(), {}, [&](std::size_t i) {
    return with_known_idle(fitted.runs[i]->pieces, prior);
  });
  return fitted;
}

// log(predicted / measured) of every run.
std::vector<double> errors_of(const FittedRuns& fitted, StackConstants constants) {
  std::vector<double> errors;
  errors.reserve(fitted.runs.size());
  for (std::size_t i = 0; i < fitted.runs.size(); ++i) {
    if (fitted.runs[i]->host > Seconds(0)) constants.host = fitted.runs[i]->host;
    errors.push_back(
        std::log(step_time(fitted.pieces[i], constants).step.value() / fitted.runs[i]->measured));
  }
  return errors;
}

// The logarithm of the scale of each machine that suits the errors best, in closed form so that the
// fit need not search for it: a mean, in which errors count the less the further off they are.
std::vector<double> scales_of(const FittedRuns& fitted, std::span<const double> errors) {
  constexpr int kRounds = 4;
  std::vector<double> scales(fitted.machines);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> sum(fitted.machines),
        weight(fitted.machines, fitted.expected * fitted.expected / (kMachine * kMachine));
    for (std::size_t i = 0; i < errors.size(); ++i) {
      const std::size_t machine = fitted.machine[i];
      const double off = (errors[i] + scales[machine]) / (2 * fitted.expected);
      const double counts = fitted.weight[i] * fitted.weight[i] / (1 + (round > 0 ? off * off : 0));
      sum[machine] -= counts * errors[i];
      weight[machine] += counts;
    }
    for (std::size_t k = 0; k < scales.size(); ++k) scales[k] = sum[k] / weight[k];
  }
  return scales;
}

}  // namespace

double spread_of(StackConstant which, const Learning& how) {
  const StackPrior& known = stack_priors()[static_cast<std::size_t>(which)];
  if (how.from != Learning::From::Own && which == StackConstant::Host) return 0;
  switch (how.from) {
    case Learning::From::AllStacks: return known.spread;
    case Learning::From::OneStack: return known.deviation;
    case Learning::From::Own: return how.width * std::hypot(known.spread, known.deviation);
  }
  return 0;
}

StackConstants fit_stack(std::span<const TimedRun* const> runs, const StackConstants& prior,
                         const Learning& how) {
  if (runs.empty()) return prior;
  const std::vector<Free> moved = free_constants(how);
  const std::size_t constants_moved = moved.size();
  const FittedRuns fitted = chosen(runs, prior);
  const std::size_t rows = fitted.runs.size();
  const auto residuals = [&](std::span<const double> logs, std::span<double> residual) {
    const std::vector<double> errors = errors_of(fitted, from_logs(logs, moved, prior));
    const std::vector<double> scales = scales_of(fitted, errors);
    for (std::size_t i = 0; i < rows; ++i) {
      residual[i] = fitted.weight[i] * (errors[i] + scales[fitted.machine[i]]) / fitted.expected;
    }
    for (std::size_t k = 0; k < constants_moved; ++k) {
      residual[rows + k] = (logs[k] - std::log(prior.values[moved[k].constant])) / moved[k].spread;
    }
    for (std::size_t k = 0; k < fitted.machines; ++k) {
      residual[rows + constants_moved + k] = scales[k] / kMachine;
    }
    return true;
  };
  const auto found = fit(fitted_constants(moved, prior), rows + constants_moved + fitted.machines,
                         residuals, {.robust_from = 2, .most_iterations = 40});
  if (!found) return prior;
  StackConstants constants = from_logs(found->values, moved, prior);
  if (fitted.machines == 1) {
    const StackPrior& known = stack_priors()[kFitted];
    double& scale = constants.values[kFitted];
    scale *= std::exp(scales_of(fitted, errors_of(fitted, constants)).front());
    scale = std::clamp(scale, known.least, known.most);
  }
  return constants;
}

std::vector<StackConstant> determined_by(std::span<const TimedRun* const> runs,
                                         const StackConstants& fitted, const Learning& how) {
  constexpr double kNudge = 1e-3;  // of a logarithm
  std::vector<StackConstant> determined;
  if (runs.empty()) return determined;
  const FittedRuns chosen_runs = chosen(runs, fitted);
  const std::vector<double> at = errors_of(chosen_runs, fitted);
  const double noise = chosen_runs.expected * chosen_runs.expected, machine = kMachine * kMachine;
  const double rows = static_cast<double>(at.size());
  for (std::size_t k = 0; k < kFitted; ++k) {
    StackConstants nudged = fitted;
    nudged.values[k] *= std::exp(kNudge);
    const std::vector<double> moved = errors_of(chosen_runs, nudged);
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double slope = (moved[i] - at[i]) / kNudge;
      sum += slope;
      squares += slope * slope;
    }
    // What a scale of all runs could explain as well does not count.
    const double told =
        squares / noise - (sum / noise) * (sum / noise) / (rows / noise + 1 / machine);
    const double known = spread_of(static_cast<StackConstant>(k), how);
    if (told > 1 / (known * known)) determined.push_back(static_cast<StackConstant>(k));
  }
  // Of the scale itself the runs tell rows / noise.
  if (rows / noise > 1 / machine) determined.push_back(StackConstant::Scale);
  return determined;
}

}  // namespace trainwright
