// Intervals and chances from the errors of rows that were held out.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "trainwright/base/check.h"
#include "trainwright/calibrate/calibrate.h"
#include "trainwright/calibrate/distributions.h"

namespace trainwright {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The ceil((n + 1) share)-th smallest, infinite when there is no such.
double conformal_quantile(std::vector<double> scores, double share) {
  const auto n = static_cast<double>(scores.size());
  // The product is a whole number too large by rounding at most; 1e-9 undoes that.
  const double rank = std::ceil((n + 1) * share - 1e-9);
  if (rank > n) return kInfinity;
  const auto at = static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
  std::nth_element(scores.begin(), scores.begin() + at, scores.end());
  return scores[static_cast<std::size_t>(at)];
}

std::vector<double> mapped(std::span<const double> values, double (*function)(double)) {
  std::vector<double> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), function);
  return result;
}

double log_error(const HeldOut& row) {
  TW_CHECK(row.measured > 0 && row.predicted > 0, "only positive values have logarithms");
  return std::log(row.measured / row.predicted);
}

// Most likely location and scale for given degrees, by the EM iteration in which a row weighs
// (degrees + 1) / (degrees + z^2) (Lange, Little and Taylor, JASA 1989).
ErrorLaw likeliest(std::span<const double> errors, double degrees, double least_scale) {
  constexpr int kIterations = 200;
  ErrorLaw law{.location = 0, .scale = 0, .degrees = degrees};
  for (const double error : errors) law.location += error / static_cast<double>(errors.size());
  for (const double error : errors) law.scale += std::pow(error - law.location, 2);
  law.scale = std::max(std::sqrt(law.scale / static_cast<double>(errors.size())), least_scale);
  for (int i = 0; i < kIterations; ++i) {
    double weights = 0;
    double sum = 0;
    double squares = 0;
    for (const double error : errors) {
      const double z = (error - law.location) / law.scale;
      const double weight = (degrees + 1) / (degrees + z * z);
      weights += weight;
      sum += weight * error;
      squares += weight * (error - law.location) * (error - law.location);
    }
    law.location = sum / weights;
    law.scale = std::max(std::sqrt(squares / static_cast<double>(errors.size())), least_scale);
  }
  return law;
}

double log_likelihood(std::span<const double> errors, const ErrorLaw& law) {
  double sum = 0;
  for (const double error : errors) {
    sum += detail::student_t_log_density((error - law.location) / law.scale, law.degrees) -
           std::log(law.scale);
  }
  return sum;
}

}  // namespace

Interval conformal_log_interval(std::span<const double> log_errors, double level) {
  TW_CHECK(level > 0 && level < 1, "a level lies between 0 and 1");
  const double tail = (1 - level) / 2;
  const double high = conformal_quantile({log_errors.begin(), log_errors.end()}, 1 - tail);
  const double low = conformal_quantile(mapped(log_errors, [](double e) { return -e; }), 1 - tail);
  // Equal tails need more rows than a symmetric interval; 1 / tail of them are a fair number.
  if (static_cast<double>(log_errors.size()) >= 2 / tail - 1 - 1e-9) return {-low, high};
  const double both =
      conformal_quantile(mapped(log_errors, [](double e) { return std::abs(e); }), level);
  return {-both, both};
}

std::vector<Interval> held_out_intervals(std::span<const HeldOut> rows, double level) {
  std::vector<std::string> labels;
  for (const HeldOut& row : rows) labels.push_back(row.fold);
  std::vector<Interval> intervals(rows.size());
  for (const Fold& fold : leave_one_out(labels)) {
    std::vector<double> errors;
    for (const std::size_t i : fold.outside) errors.push_back(log_error(rows[i]));
    const Interval ratio = conformal_log_interval(errors, level);
    for (const std::size_t i : fold.inside) {
      intervals[i] = {rows[i].predicted * std::exp(ratio.low),
                      rows[i].predicted * std::exp(ratio.high)};
    }
  }
  return intervals;
}

Result<ErrorLaw> fit_error_law(std::span<const double> log_errors, double least_scale) {
  const auto [low, high] = std::minmax_element(log_errors.begin(), log_errors.end());
  const bool finite = std::all_of(log_errors.begin(), log_errors.end(),
                                  [](double error) { return std::isfinite(error); });
  if (log_errors.size() < 2 || !finite || !(*low < *high)) {
    return fail("error law", "two different finite errors are needed at least");
  }
  constexpr std::array<double, 5> kDegrees{3, 4, 6, 10, 30};
  ErrorLaw best;
  double best_likelihood = -kInfinity;
  for (const double degrees : kDegrees) {
    const ErrorLaw law = likeliest(log_errors, degrees, least_scale);
    const double likelihood = log_likelihood(log_errors, law);
    if (likelihood > best_likelihood) {
      best = law;
      best_likelihood = likelihood;
    }
  }
  return best;
}

Result<ErrorLaw> fit_error_law(std::span<const double> excess, std::span<const VerdictRow> verdicts,
                               double degrees, bool centred) {
  if (excess.size() != verdicts.size()) return fail("error law", "one verdict per row is needed");
  // Half the square of each residual is the surprise of the verdict.
  const auto surprises = [&](std::span<const double> c, std::span<double> residuals) {
    const ErrorLaw law{.location = centred ? 0 : c[1], .scale = std::exp(c[0]), .degrees = degrees};
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      const double z = (excess[i] + law.location) / law.scale;
      const double right = detail::student_t_cdf(verdicts[i].out_of_memory ? z : -z, degrees);
      residuals[i] = std::sqrt(-2 * std::log(std::max(right, 1e-300)));
    }
    return true;
  };
  std::vector<Constant> constants{{.name = "log scale",
                                   .unit = "log of a log ratio",
                                   .meaning = "spread",
                                   .source = "fitted",
                                   .lower = std::log(1e-4),
                                   .upper = 0,
                                   .start = std::log(0.03)}};
  if (!centred) {
    constants.push_back({.name = "location",
                         .unit = "log ratio",
                         .meaning = "typical error",
                         .source = "fitted",
                         .lower = -1,
                         .upper = 1,
                         .start = 0});
  }
  const Fitted fitted = TW_TRY(fit(constants, excess.size(), surprises, {.robust_from = 0}));
  return ErrorLaw{centred ? 0 : fitted.values[1], std::exp(fitted.values[0]), degrees};
}

double oom_probability(double excess, const ErrorLaw& law) {
  return detail::student_t_cdf((excess + law.location) / law.scale, law.degrees);
}

}  // namespace trainwright
