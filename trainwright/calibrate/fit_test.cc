#include <doctest/doctest.h>

#include <cmath>

#include "trainwright/base/random.h"
#include "trainwright/calibrate/calibrate.h"

namespace trainwright {
namespace {

FreeConstant constant(std::string name, double lower, double upper, double start) {
  return {.name = std::move(name),
          .unit = "1",
          .meaning = "a test",
          .source = "made up",
          .lower = lower,
          .upper = upper,
          .start = start};
}

// y = 3 exp(0.5 x) + 1 at x = 0, 0.1, ..., 3.9; every `bad`-th row is off by 50.
std::vector<double> curve(int bad) {
  std::vector<double> rows;
  for (int i = 0; i < 40; ++i) {
    const double outlier = bad > 0 && i % bad == 0 ? 50 : 0;
    rows.push_back(3 * std::exp(0.5 * 0.1 * i) + 1 + outlier);
  }
  return rows;
}
ResidualFunction against(const std::vector<double>& measured) {
  return [measured](std::span<const double> c, std::span<double> residuals) {
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      const double predicted = c[0] * std::exp(c[1] * 0.1 * static_cast<double>(i)) + c[2];
      residuals[i] = (predicted - measured[i]) / 0.1;
    }
    return true;
  };
}
std::vector<FreeConstant> three() {
  return {constant("height", 0, 10, 1), constant("rate", 0, 2, 0.1), constant("base", -5, 5, 0)};
}

TEST_CASE("a fit finds the constants that made the rows") {
  const auto fitted = fit(three(), 40, against(curve(0)));
  REQUIRE(fitted.has_value());
  CHECK(fitted->converged);
  CHECK(fitted->values[0] == doctest::Approx(3).epsilon(1e-5));
  CHECK(fitted->values[1] == doctest::Approx(0.5).epsilon(1e-5));
  CHECK(fitted->values[2] == doctest::Approx(1).epsilon(1e-5));
  CHECK(fitted->cost < 1e-8);
}

TEST_CASE("a fit begins at the best of the places it is given, and at no worse one") {
  // Rows c^2 - 4 and (c - 2) / 2: 2 satisfies both, and near -2 the sum has a minimum of its own.
  const ResidualFunction two_minima = [](std::span<const double> c, std::span<double> residuals) {
    residuals[0] = c[0] * c[0] - 4;
    residuals[1] = (c[0] - 2) / 2;
    return true;
  };
  const auto found = [&](std::vector<std::vector<double>> starts) {
    return fit({constant("c", -10, 10, -2)}, 2, two_minima, {.other_starts = std::move(starts)})
        ->values.front();
  };
  CHECK(found({}) == doctest::Approx(-1.9).epsilon(0.05));
  CHECK(found({{9}, {1.8}, {5}}) == doctest::Approx(2));
  CHECK(found({{9}}) == found({}));
}

TEST_CASE("a robust fit hardly notices that every eighth row is nonsense") {
  const auto robust = fit(three(), 40, against(curve(8)), {.robust_from = 1});
  const auto plain = fit(three(), 40, against(curve(8)), {.robust_from = 0});
  REQUIRE(robust.has_value());
  REQUIRE(plain.has_value());
  // Prediction at x = 2 is 3 e + 1 = 9.15.
  const auto at_two = [](const Fitted& f) {
    return f.values[0] * std::exp(2 * f.values[1]) + f.values[2];
  };
  CHECK(at_two(*robust) == doctest::Approx(9.155).epsilon(0.01));
  CHECK(std::abs(at_two(*plain) - 9.155) > 1);
}

TEST_CASE("a constant stops at its bound, and the others do their best") {
  auto bounded = three();
  bounded[0].upper = 2;  // truth is 3
  const auto fitted = fit(bounded, 40, against(curve(0)));
  REQUIRE(fitted.has_value());
  CHECK(fitted->values[0] == doctest::Approx(2));
  CHECK(fitted->values[0] <= 2);
  CHECK_FALSE(fitted->standard_errors[0].has_value());
  REQUIRE(fitted->standard_errors[1].has_value());
  CHECK(*fitted->standard_errors[1] > 0);
  CHECK(fitted->values[1] > 0.5);
}

TEST_CASE("the function is never called outside the bounds") {
  auto bounded = three();
  bounded[0].upper = 2;
  const auto inner = against(curve(0));
  bool outside = false;
  const auto watched = [&](std::span<const double> c, std::span<double> residuals) {
    for (std::size_t k = 0; k < 3; ++k) {
      if (c[k] < bounded[k].lower || c[k] > bounded[k].upper) outside = true;
    }
    return inner(c, residuals);
  };
  REQUIRE(fit(bounded, 40, watched).has_value());
  CHECK_FALSE(outside);
}

TEST_CASE("standard errors are those of the linear regression through noisy rows") {
  // y = a + b x with unit noise; the textbook error of b is s / sqrt(sum (x - mean)^2).
  Random random(7);
  std::vector<double> measured;
  for (int i = 0; i < 50; ++i) {
    double noise = -6;  // a sum of 12 uniforms has variance 1
    for (int k = 0; k < 12; ++k) noise += random.real();
    measured.push_back(2 + 0.3 * i + noise);
  }
  const auto line = [&](std::span<const double> c, std::span<double> residuals) {
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      residuals[i] = c[0] + c[1] * static_cast<double>(i) - measured[i];
    }
    return true;
  };
  const auto fitted =
      fit({constant("a", -100, 100, 0), constant("b", -100, 100, 0)}, 50, line, {.robust_from = 0});
  REQUIRE(fitted.has_value());
  double squares = 0;
  for (const double r : fitted->residuals) squares += r * r;
  // sum over 0..49 of (i - 24.5)^2 = (50^3 - 50) / 12 = 10412.5
  const double textbook = std::sqrt(squares / 48 / 10412.5);
  REQUIRE(fitted->standard_errors[1].has_value());
  CHECK(*fitted->standard_errors[1] == doctest::Approx(textbook).epsilon(1e-4));
  CHECK(fitted->values[1] == doctest::Approx(0.3).epsilon(0.1));
}

TEST_CASE("constants that the rows do not tell apart have no standard error") {
  const auto sum = [](std::span<const double> c, std::span<double> residuals) {
    for (double& r : residuals) r = c[0] + c[1] - 1;
    return true;
  };
  const auto fitted = fit({constant("a", -10, 10, 3), constant("b", -10, 10, 3)}, 5, sum);
  REQUIRE(fitted.has_value());
  CHECK(fitted->values[0] + fitted->values[1] == doctest::Approx(1));
  CHECK_FALSE(fitted->standard_errors[0].has_value());
}

TEST_CASE("the same rows give the same bytes") {
  const auto first = fit(three(), 40, against(curve(8)));
  const auto again = fit(three(), 40, against(curve(8)));
  REQUIRE(first.has_value());
  REQUIRE(again.has_value());
  CHECK(first->values == again->values);
  CHECK(first->standard_errors == again->standard_errors);
}

TEST_CASE("bad bounds, bad starts and too few rows are told together") {
  const auto zero = [](std::span<const double>, std::span<double> residuals) {
    for (double& r : residuals) r = 0;
    return true;
  };
  const auto fitted = fit({constant("a", 1, 0, 0), constant("b", 0, 1, 2)}, 1, zero);
  REQUIRE_FALSE(fitted.has_value());
  REQUIRE(fitted.error().diagnostics.size() == 3);
  CHECK(fitted.error().diagnostics[0].where == "a");
  CHECK(fitted.error().diagnostics[1].where == "b");
  const auto never = [](std::span<const double>, std::span<double>) { return false; };
  CHECK_FALSE(fit({constant("a", 0, 1, 0)}, 3, never).has_value());
}

TEST_CASE("fitting verdicts finds the threshold that parts them") {
  // Rows at 10, 20, ..., 400 ran out of memory from 250 on; in between lies the capacity.
  const auto verdicts = [](std::span<const double> c, std::span<double> residuals) {
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      const double size = 10 * static_cast<double>(i + 1);
      residuals[i] = verdict_residual(std::log(size / c[0]), size >= 250, 0.05);
    }
    return true;
  };
  const auto fitted = fit({constant("capacity", 100, 400, 150)}, 40, verdicts, {.robust_from = 0});
  REQUIRE(fitted.has_value());
  CHECK(fitted->values[0] > 240);
  CHECK(fitted->values[0] < 250);
}

TEST_CASE("a verdict's residual squared over two is its surprise") {
  // At the threshold both verdicts have probability 1/2: r^2 / 2 = log 2.
  CHECK(std::pow(verdict_residual(0, true, 0.1), 2) / 2 == doctest::Approx(std::log(2.0)));
  // Ten scales above, an OOM surprises nobody, and a run that fits costs ten.
  CHECK(verdict_residual(1, true, 0.1) < 0.01);
  CHECK(std::pow(verdict_residual(1, false, 0.1), 2) / 2 == doctest::Approx(10).epsilon(1e-4));
  CHECK(std::isfinite(verdict_residual(1e6, false, 1e-3)));
}

}  // namespace
}  // namespace trainwright
