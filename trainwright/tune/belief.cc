// What trials teach about those that were not run.
#include <algorithm>
#include <cmath>

#include "trainwright/base/check.h"
#include "trainwright/tune/normal.h"
#include "trainwright/tune/tune.h"

namespace trainwright {
namespace {

constexpr double kInside90 =
    1.6448536269514722;  // standard deviations on either side that hold 90 %

using detail::below;

// The z with below(z) = share, between -6 and 6. 50 halvings: to the last digits of a double.
double quantile(double share) {
  double low = -6, high = 6;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (below(middle) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

// exp(-|x_a - x_b|^2 / 2 reach^2)
double nearness(const Trial& a, const Trial& b, double reach) {
  double apart = 0;
  for (std::size_t k = 0; k < a.place.size(); ++k) {
    apart += (a.place[k] - b.place[k]) * (a.place[k] - b.place[k]);
  }
  return std::exp(-apart / (2 * reach * reach));
}

double covariance(const Trial& a, const Trial& b, const Doubt& doubt) {
  TW_CHECK(a.slopes.size() == b.slopes.size() && a.place.size() == b.place.size(),
           "trials of several kinds");
  double sum = doubt.scale * doubt.scale;
  for (std::size_t k = 0; k < a.slopes.size(); ++k) {
    sum += a.slopes[k] * b.slopes[k];
  }
  return sum + doubt.residual * doubt.residual * nearness(a, b, doubt.reach);
}

// A lower triangle, by rows.
using Triangle = std::vector<std::vector<double>>;

// A = L L^T of a positive definite matrix, of which only the lower half is read.
Triangle cholesky(Triangle a) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j][j];
    }
  }
  return a;
}

// L^-1 b
std::vector<double> solved(const Triangle& l, std::vector<double> b) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= l[i][k] * b[k];
    b[i] /= l[i][i];
  }
  return b;
}

// What was measured beside what was thought possible: the mean square of errors in standard
// deviations, where it is beyond chance. Then the doubts are too small by that much, for all
// layouts (Birge, Phys. Rev. 40, 1932, for constants measured by several).
double underrated(const std::vector<double>& standardised) {
  constexpr double kChance = 4;  // two standard deviations
  double sum = 0;
  for (const double error : standardised) sum += error * error;
  const double mean = standardised.empty() ? 0 : sum / static_cast<double>(standardised.size());
  return mean > kChance ? mean : 1;
}

void learn_times(std::span<const Trial> trials, std::span<const TrialOutcome> ran,
                 const Doubt& doubt, std::vector<Belief>& beliefs) {
  Triangle known;
  std::vector<double> errors;
  for (std::size_t i = 0; i < ran.size(); ++i) {
    const Trial& trial = trials[ran[i].trial];
    errors.push_back(std::log(ran[i].step / trial.predicted));
    known.emplace_back();
    for (std::size_t j = 0; j <= i; ++j) {
      known[i].push_back(covariance(trial, trials[ran[j].trial], doubt));
    }
    known[i][i] += doubt.measuring * doubt.measuring + doubt.own * doubt.own;
  }
  const Triangle l = cholesky(std::move(known));
  const std::vector<double> explained = solved(l, errors);
  const double wider = std::sqrt(underrated(explained));
  for (std::size_t i = 0; i < trials.size(); ++i) {
    std::vector<double> with;
    for (const TrialOutcome& outcome : ran) {
      with.push_back(covariance(trials[i], trials[outcome.trial], doubt));
    }
    with = solved(l, std::move(with));
    double mean = 0, variance = covariance(trials[i], trials[i], doubt) + doubt.own * doubt.own;
    for (std::size_t k = 0; k < with.size(); ++k) {
      mean += with[k] * explained[k];
      variance -= with[k] * with[k];
    }
    Belief& belief = beliefs[i];
    belief.log_error = mean;
    belief.spread = wider * std::sqrt(std::max(variance, doubt.own * doubt.own));
    belief.expected = trials[i].predicted * std::exp(mean);
    belief.low = belief.expected * std::exp(-kInside90 * belief.spread);
    belief.high = belief.expected * std::exp(kInside90 * belief.spread);
  }
}

double room_of(const Trial& trial) { return -quantile(std::clamp(trial.oom, 1e-6, 1 - 1e-6)); }

// Errors of memory in standard deviations, jointly normal.
struct MemoryErrors {
  std::vector<double> mean;
  std::vector<std::vector<double>> covariance;
};

MemoryErrors unknown_errors(std::span<const Trial> trials, const Doubt& doubt) {
  const std::size_t n = trials.size();
  MemoryErrors errors{std::vector<double>(n), std::vector(n, std::vector<double>(n))};
  const double near = 1 - doubt.memory_shared - doubt.memory_own;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      errors.covariance[i][j] = doubt.memory_shared + near * nearness(trials[i], trials[j], 1);
    }
    errors.covariance[i][i] += doubt.memory_own;
  }
  return errors;
}

// A trial cuts its error off at its room, from below or from above. What is left of the joint law
// is taken for normal again, with the same means and variances.
void hear(MemoryErrors& errors, std::size_t trial, double room, bool failed) {
  const double variance = errors.covariance[trial][trial], spread = std::sqrt(variance);
  const double side = failed ? 1 : -1;
  const double z = side * (errors.mean[trial] - room) / spread;
  // phi(z) / Phi(z); far below it is -z.
  const double pull = z < -8 ? -z : std::exp(-z * z / 2) / std::sqrt(2 * M_PI) / below(z);
  const std::vector<double> with = errors.covariance[trial];
  for (std::size_t i = 0; i < with.size(); ++i) {
    errors.mean[i] += side * with[i] * pull / spread;
    for (std::size_t j = 0; j < with.size(); ++j) {
      errors.covariance[i][j] -= with[i] * with[j] * pull * (pull + z) / variance;
    }
  }
}

// What a log sees is off = share x error + what the rest of the error hides, whose variance is
// share x (1 - share): so off / share is the error with noise. An error beyond all that was thought
// possible is one of the reading as likely as of the prediction, and counts as the largest.
void see(MemoryErrors& errors, std::size_t trial, const SeenMemory& seen, const Doubt& doubt) {
  constexpr double kMost = 4;  // standard deviations of what is seen
  const double most = kMost * std::sqrt(seen.share);
  const double error = std::clamp(seen.off, -most, most) / seen.share;
  const double measuring = doubt.memory_measuring / seen.share;
  const double noise = (1 - seen.share) / seen.share + measuring * measuring;
  const double whole = errors.covariance[trial][trial] + noise;
  const double off = error - errors.mean[trial];
  const std::vector<double> with = errors.covariance[trial];
  for (std::size_t i = 0; i < with.size(); ++i) {
    errors.mean[i] += with[i] * off / whole;
    for (std::size_t j = 0; j < with.size(); ++j) {
      errors.covariance[i][j] -= with[i] * with[j] / whole;
    }
  }
}

void learn_memory(std::span<const Trial> trials, std::span<const TrialOutcome> outcomes,
                  const Doubt& doubt, std::vector<Belief>& beliefs) {
  constexpr double kSurest = 1e-3;  // variance that is always left
  MemoryErrors errors = unknown_errors(trials, doubt);
  for (const TrialOutcome& outcome : outcomes) {
    const bool failed = outcome.end == TrialEnd::OutOfMemory;
    if ((!failed && outcome.end != TrialEnd::Ok) || outcome.host) continue;
    if (outcome.memory) see(errors, outcome.trial, *outcome.memory, doubt);
    hear(errors, outcome.trial, room_of(trials[outcome.trial]), failed);
  }
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const double spread = std::sqrt(std::max(errors.covariance[i][i], kSurest));
    beliefs[i].oom = below((errors.mean[i] - room_of(trials[i])) / spread);
  }
  for (const TrialOutcome& outcome : outcomes) {
    if (outcome.end == TrialEnd::Ok) beliefs[outcome.trial].oom = 0;
    if (outcome.end == TrialEnd::OutOfMemory) beliefs[outcome.trial].oom = 1;
  }
}

}  // namespace

std::vector<Belief> learn(std::span<const Trial> trials, std::span<const TrialOutcome> outcomes,
                          const Doubt& doubt) {
  std::vector<TrialOutcome> ran;
  for (const TrialOutcome& outcome : outcomes) {
    TW_CHECK(outcome.trial < trials.size(), "an outcome of no trial");
    if (outcome.end == TrialEnd::Ok) ran.push_back(outcome);
  }
  std::vector<Belief> beliefs(trials.size());
  learn_times(trials, ran, doubt, beliefs);
  learn_memory(trials, outcomes, doubt, beliefs);
  return beliefs;
}

}  // namespace trainwright
