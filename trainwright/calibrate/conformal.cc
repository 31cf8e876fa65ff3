// Intervals from the errors of rows that were held out.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "trainwright/base/check.h"
#include "trainwright/calibrate/calibrate.h"

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

// Intervals by fold: `ratio` of the errors outside.
template <class Ratio>
std::vector<Interval> by_fold(std::span<const HeldOut> rows, Ratio ratio) {
  std::vector<std::string> labels;
  for (const HeldOut& row : rows) labels.push_back(row.fold);
  std::vector<Interval> intervals(rows.size());
  for (const Fold& fold : leave_one_out(labels)) {
    std::vector<double> errors;
    for (const std::size_t i : fold.outside) {
      if (!rows[i].broken) errors.push_back(log_error(rows[i]));
    }
    const Interval of = ratio(errors);
    for (const std::size_t i : fold.inside) {
      intervals[i] = {rows[i].predicted * std::exp(of.low), rows[i].predicted * std::exp(of.high)};
    }
  }
  return intervals;
}

}  // namespace

Interval conformal_log_interval(std::span<const double> log_errors, double level) {
  TW_CHECK(level > 0 && level < 1, "a level lies between 0 and 1");
  const double tail = (1 - level) / 2;
  const double high = conformal_quantile({log_errors.begin(), log_errors.end()}, 1 - tail);
  const double low = conformal_quantile(mapped(log_errors, [](double e) { return -e; }), 1 - tail);
  // Equal tails need more rows than a symmetric interval: 2 / tail - 1 of them, so that
  // a row lies beyond each end.
  if (static_cast<double>(log_errors.size()) >= 2 / tail - 1 - 1e-9) return {-low, high};
  const double both =
      conformal_quantile(mapped(log_errors, [](double e) { return std::abs(e); }), level);
  return {-both, both};
}

std::vector<Interval> held_out_intervals(std::span<const HeldOut> rows, double level) {
  return by_fold(rows, [&](const std::vector<double>& errors) {
    return conformal_log_interval(errors, level);
  });
}

std::vector<Interval> symmetric_intervals(std::span<const HeldOut> rows, double level) {
  return by_fold(rows, [&](const std::vector<double>& errors) {
    const double both =
        conformal_quantile(mapped(errors, [](double e) { return std::abs(e); }), level);
    return Interval{-both, both};
  });
}

}  // namespace trainwright
