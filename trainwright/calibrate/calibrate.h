#pragma once
// From measured runs to constants that can be trusted, and to how far.
//
// 1. Runs are read and become cases: model, cluster, trainer, layout, and what their source means
//    by "memory" (measured.h).
// 2. Runs are dealt into folds by what a user would not have measured yet. Constants are fitted on
//    all folds but one and judged on the one left out, so no row is scored by constants that saw
//    it; "as shipped" leaves a whole source out.
// 3. A constant has a meaning, a unit, bounds and a source, and there are few of them. They are
//    fitted by bounded least squares with a robust loss, because published tables hold mistakes:
//        minimise  sum_i rho(r_i(c)^2) / 2   over  lower <= c <= upper
//    with rho(s) = s for s <= k^2 and 2 k sqrt(s) - k^2 beyond (Huber).
// 4. The errors on rows left out are the uncertainty: with n of them, the ceil((n + 1)(1 - a))-th
//    smallest bounds the next one with probability 1 - a if it is like the others (split conformal
//    prediction; Lei et al., JASA 2018).
//
// Errors are relative, of the logarithm where they become intervals: log(measured / predicted).
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/measured/measured.h"

namespace trainwright {

struct Fold {
  std::string name;
  std::vector<std::size_t> inside, outside;  // indices of rows, ascending: judged, fitted on
};
// One fold per distinct label, sorted by name.
std::vector<Fold> leave_one_out(std::span<const std::string> labels);

struct FreeConstant {
  std::string name, unit, meaning, source;
  double lower = 0, upper = 0, start = 0;
};
// Fills one residual per row, in units of its expected error; false where it cannot be evaluated.
// Must be a pure function: it is called from several threads.
using ResidualFunction =
    std::function<bool(std::span<const double> constants, std::span<double> residuals)>;
struct FitOptions {
  double robust_from = 2;  // k above, in units of the residuals; 0: plain squares
  int most_iterations = 200;
  // Within the bounds. A fit begins where the sum above is least, of these and the constants' own.
  std::vector<std::vector<double>> other_starts = {};
};
struct Fitted {
  std::vector<FreeConstant> constants;
  std::vector<double> values;
  // Nullopt at a bound, and for all where the rows do not determine the constants.
  std::vector<std::optional<double>> standard_errors;
  std::vector<double> residuals;
  double cost = 0;  // the sum above
  int iterations = 0;
  bool converged = false;
  std::string message;  // of the solver
};
// Diagnoses bounds that cross, a start outside them, fewer rows than constants, residuals that
// cannot be evaluated at the start. The same bytes for any number of threads.
Result<Fitted> fit(const std::vector<FreeConstant>& constants, std::size_t rows,
                   const ResidualFunction& residuals, const FitOptions& options = {});
// For rows of which only the verdict is known: half its square is -log of the probability that a
// logistic law with this scale gives the verdict. `excess` is log(predicted / capacity).
double verdict_residual(double excess, bool out_of_memory, double scale);

// One row that was held out.
struct HeldOut {
  double predicted = 0;  // > 0, the same unit as measured
  double measured = 0;   // > 0
  std::string fold;
  bool broken = false;  // tells nothing about others
};
struct ErrorScore {
  std::int64_t rows = 0;
  double mape = 0, median = 0, worst = 0;  // of |predicted / measured - 1|, as fractions
  double bias = 0;                         // mean of predicted / measured - 1
  std::size_t worst_row = 0;
  std::string worst_fold;  // the one with the largest mean error
  double worst_fold_mape = 0;
};
ErrorScore score_errors(std::span<const HeldOut> rows);

struct VerdictRow {
  double oom_probability = 0;  // said to fit up to one half
  bool out_of_memory = false;
  std::string fold;
};
struct VerdictScore {
  std::int64_t rows = 0, right = 0;
  std::int64_t false_fits = 0;  // said to fit, ran out of memory
  std::int64_t false_ooms = 0;
  // Of all of them, those that fit by a hair: a chance above the usual risk and up to one half; and
  // how many of these ran out of memory.
  std::int64_t tight = 0, tight_ooms = 0;
  double brier = 0;  // mean of (probability - outcome)^2
  std::string worst_fold;
  double worst_fold_right = 1;  // share
};
VerdictScore score_verdicts(std::span<const VerdictRow> rows);

struct Interval {
  double low = 0, high = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};
// The exact interval for a share, from `hits` of `trials` (Clopper and Pearson, Biometrika 1934).
Interval clopper_pearson(std::int64_t hits, std::int64_t trials, double confidence);

struct ReliabilityBin {
  Interval probabilities;  // [0, 0.1), ..., [0.9, 1]
  std::int64_t rows = 0, ooms = 0;
  double mean_probability = 0;
  Interval limits;         // for the share of OOMs, 99 % Clopper-Pearson
  bool judged = false;     // at least 20 rows
  bool calibrated = true;  // not judged, or the mean probability lies within the limits
};
std::vector<ReliabilityBin> reliability(std::span<const VerdictRow> rows);  // ten
bool calibrated(std::span<const ReliabilityBin> bins);

struct Coverage {
  std::int64_t rows = 0, inside = 0;
  double share = 0;
  Interval tolerated;  // level +- 2 points or two binomial standard errors, whichever is wider
  bool calibrated = false;
};
// `intervals[i]` is that of rows[i], both in the unit of the rows; both ends count as inside.
Coverage coverage(std::span<const HeldOut> rows, std::span<const Interval> intervals,
                  double level = 0.9);

// [low, high] such that log(measured / predicted) of one more row of the same kind lies inside with
// probability `level`: equal tails from 39 rows on (at 90 %), fewer rows a symmetric interval, too
// few (below 9) everything.
Interval conformal_log_interval(std::span<const double> log_errors, double level = 0.9);
// For each row the interval from the errors of all rows outside its fold.
std::vector<Interval> held_out_intervals(std::span<const HeldOut> rows, double level = 0.9);
// The same, symmetric: what holds 90 % of sizes is better determined than each end by itself.
std::vector<Interval> symmetric_intervals(std::span<const HeldOut> rows, double level = 0.9);

}  // namespace trainwright

// The rest of the public face; include this header only.
#include "trainwright/calibrate/choice.h"    // which layout would be picked, and what it costs
#include "trainwright/calibrate/time.h"      // step times, fitted and scored
#include "trainwright/calibrate/validate.h"  // memory, scored on published runs
