#include "trainwright/calibrate/distributions.h"

#include <cmath>
#include <numbers>

namespace trainwright::detail {
namespace {

// Lentz's method for the continued fraction of I_x(a, b); converges fast for x < (a + 1)/(a + b +
// 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr double kEnough = 1e-15;
  constexpr int kMostTerms = 10'000;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    fraction *= d * c;
    if (std::abs(d * c - 1) < kEnough) break;
  }
  return fraction;
}

}  // namespace

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  const double log_front =
      std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  return std::exp(log_front) * beta_fraction(a, b, x) / a;
}

double beta_quantile(double a, double b, double probability) {
  double low = 0;
  double high = 1;
  constexpr int kHalvings = 60;  // below the spacing of doubles near 1
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (incomplete_beta(a, b, middle) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace trainwright::detail
