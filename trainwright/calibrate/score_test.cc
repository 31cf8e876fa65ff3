#include <doctest/doctest.h>

#include <cmath>

#include "trainwright/base/random.h"
#include "trainwright/calibrate/calibrate.h"
#include "trainwright/calibrate/distributions.h"

namespace trainwright {
namespace {

doctest::Approx near(double value) { return doctest::Approx(value).epsilon(1e-6); }

TEST_CASE("leaving one out deals every row to exactly one fold") {
  const std::vector<std::string> labels{"b", "a", "b", "c"};
  const auto folds = leave_one_out(labels);
  REQUIRE(folds.size() == 3);
  CHECK(folds[0].name == "a");
  CHECK(folds[0].inside == std::vector<std::size_t>{1});
  CHECK(folds[0].outside == std::vector<std::size_t>{0, 2, 3});
  CHECK(folds[1].inside == std::vector<std::size_t>{0, 2});
  CHECK(folds[2].outside == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("errors are relative to what was measured") {
  // 10 %, 20 %, 30 % and 0 %: mean 15 %, median 15 %, worst 30 %; fold b has (20 + 30) / 2.
  const std::vector<HeldOut> rows{{110, 100, "a"}, {80, 100, "b"}, {130, 100, "b"}, {7, 7, "a"}};
  const ErrorScore score = score_errors(rows);
  CHECK(score.rows == 4);
  CHECK(score.mape == near(0.15));
  CHECK(score.median == near(0.15));
  CHECK(score.worst == near(0.30));
  CHECK(score.worst_row == 2);
  CHECK(score.bias == near(0.05));
  CHECK(score.worst_fold == "b");
  CHECK(score.worst_fold_mape == near(0.25));
  CHECK(score_errors({}).rows == 0);
}

TEST_CASE("a verdict is wrong in one of two ways") {
  const std::vector<VerdictRow> rows{
      {0.9, true, "a"}, {0.2, true, "a"}, {0.7, false, "b"}, {0.1, false, "b"}, {0, false, "b"}};
  const VerdictScore score = score_verdicts(rows);
  CHECK(score.rows == 5);
  CHECK(score.right == 3);
  CHECK(score.false_fits == 1);
  CHECK(score.false_ooms == 1);
  // (0.01 + 0.64 + 0.49 + 0.01 + 0) / 5
  CHECK(score.brier == near(0.23));
  CHECK(score.worst_fold == "a");
  CHECK(score.worst_fold_right == near(0.5));
}

TEST_CASE("Clopper-Pearson limits are the published ones") {
  // R's example of binom.test, Mendel's 682 of 925 (Conover 1971, p. 97): 0.7076683 0.7654066.
  const Interval mendel = clopper_pearson(682, 925, 0.95);
  CHECK(mendel.low == near(0.7076683));
  CHECK(mendel.high == near(0.7654066));
  // No hit in n: the upper limit is 1 - (a / 2)^(1 / n); here 1 - 0.025^0.1 = 0.3084971.
  CHECK(clopper_pearson(0, 10, 0.95).low == 0);
  CHECK(clopper_pearson(0, 10, 0.95).high == near(1 - std::pow(0.025, 0.1)));
  CHECK(clopper_pearson(10, 10, 0.95).low == near(std::pow(0.025, 0.1)));
  CHECK(clopper_pearson(0, 0, 0.99) == Interval{0, 1});
}

// P(X >= hits) of a binomial law, summed term by term.
double at_least(std::int64_t hits, std::int64_t trials, double p) {
  double sum = 0;
  for (std::int64_t k = hits; k <= trials; ++k) {
    const auto n = static_cast<double>(trials);
    const auto x = static_cast<double>(k);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) +
                    x * std::log(p) + (n - x) * std::log1p(-p));
  }
  return sum;
}

TEST_CASE("at each limit the observed count is just as improbable as allowed") {
  for (const std::int64_t hits : {1, 7, 50, 199}) {
    const Interval limits = clopper_pearson(hits, 200, 0.99);
    CAPTURE(hits);
    CHECK(at_least(hits, 200, limits.low) == near(0.005));
    CHECK(1 - at_least(hits + 1, 200, limits.high) == near(0.005));
  }
}

TEST_CASE("reliability judges bins of twenty rows and more") {
  std::vector<VerdictRow> rows;
  // 40 rows at 0.05 of which 2 ran out: fine. 30 rows at 0.95 of which 15 did: not.
  for (int i = 0; i < 40; ++i) rows.push_back({0.05, i < 2, ""});
  for (int i = 0; i < 30; ++i) rows.push_back({0.95, i < 15, ""});
  for (int i = 0; i < 19; ++i) rows.push_back({0.55, false, ""});
  const auto bins = reliability(rows);
  REQUIRE(bins.size() == 10);
  CHECK(bins[0].rows == 40);
  CHECK(bins[0].judged);
  CHECK(bins[0].calibrated);
  CHECK(bins[0].limits == clopper_pearson(2, 40, 0.99));
  CHECK(bins[9].judged);
  CHECK_FALSE(bins[9].calibrated);
  CHECK_FALSE(bins[5].judged);
  CHECK_FALSE(calibrated(bins));
  // A certain OOM belongs to the last bin.
  CHECK(reliability(std::vector<VerdictRow>{{1.0, true, ""}})[9].rows == 1);
}

TEST_CASE("coverage may miss by two points or two standard errors") {
  const auto covered = [](int inside, int rows) {
    std::vector<HeldOut> list(static_cast<std::size_t>(rows), {1, 1, ""});
    std::vector<Interval> intervals(list.size(), {2, 3});
    std::fill_n(intervals.begin(), inside, Interval{1, 2});
    return coverage(list, intervals);
  };
  // 2 sqrt(0.09 / 51) = 0.084: 51 rows may lie between 0.816 and 0.984.
  CHECK(covered(42, 51).calibrated);
  CHECK_FALSE(covered(41, 51).calibrated);
  CHECK_FALSE(covered(51, 51).calibrated);
  // 10,000 rows: 2 sqrt(0.09 / 10000) = 0.006, so the two points count.
  CHECK(covered(8800, 10000).calibrated);
  CHECK_FALSE(covered(8799, 10000).calibrated);
  CHECK(covered(8800, 10000).share == near(0.88));
}

TEST_CASE("a conformal interval takes the errors at the right ranks") {
  // 99 errors 0.01 .. 0.99: 5 % tails are the 5th smallest and the ceil(100 * 0.95) = 95th.
  std::vector<double> errors;
  for (int i = 1; i <= 99; ++i) errors.push_back(0.01 * i);
  CHECK(conformal_log_interval(errors).low == near(0.05));
  CHECK(conformal_log_interval(errors).high == near(0.95));
  // 9 errors: symmetric, the ceil(10 * 0.9) = 9th largest absolute value; 8 are too few.
  const std::vector<double> nine{0.1, -0.9, 0.2, 0.3, -0.4, 0.5, 0.6, 0.7, 0.8};
  CHECK(conformal_log_interval(nine).low == near(-0.9));
  CHECK(conformal_log_interval(nine).high == near(0.9));
  CHECK(std::isinf(conformal_log_interval(std::vector<double>(8, 0.1)).high));
}

// A normal number from twelve uniform ones.
double normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.real();
  return sum;
}

TEST_CASE("held-out intervals cover what is drawn from the same law") {
  Random random(3);
  std::vector<HeldOut> rows;
  for (int i = 0; i < 2000; ++i) {
    rows.push_back({10, 10 * std::exp(0.02 + 0.05 * normal(random)), i % 5 == 0 ? "a" : "b"});
  }
  const auto intervals = held_out_intervals(rows);
  CHECK(coverage(rows, intervals).calibrated);
  // 5 % and 95 % of that law: 10 exp(0.02 -+ 1.645 * 0.05).
  CHECK(intervals[0].low == doctest::Approx(10 * std::exp(0.02 - 0.08224)).epsilon(0.01));
  CHECK(intervals[0].high == doctest::Approx(10 * std::exp(0.02 + 0.08224)).epsilon(0.01));
}

TEST_CASE("symmetric intervals take the size of errors, and broken rows have no say") {
  Random random(5);
  std::vector<HeldOut> rows;
  for (int i = 0; i < 2000; ++i) {
    rows.push_back({10, 10 * std::exp(0.05 * normal(random)), i % 5 == 0 ? "a" : "b"});
  }
  // One in nine of a fold is off by a factor of e.
  for (int i = 0; i < 200; ++i) rows.push_back({10, 27.2, "b", true});
  const auto intervals = symmetric_intervals(rows);
  // 90 % of that law: 10 exp(-+ 1.645 * 0.05).
  CHECK(intervals[0].high == doctest::Approx(10 * std::exp(0.08224)).epsilon(0.01));
  CHECK(intervals[0].low == doctest::Approx(100 / intervals[0].high));
}

}  // namespace
}  // namespace trainwright
