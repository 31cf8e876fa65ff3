// Bounded robust least squares. This file alone includes Ceres.
#include <ceres/ceres.h>
#include <ceres/crs_matrix.h>
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <deque>

#include "trainwright/base/parallel.h"
#include "trainwright/calibrate/calibrate.h"

namespace trainwright {
namespace {

// All residuals and their derivatives at the solver's current point. Ceres wants one cost function
// per row, because the loss is robust row by row, while our function gives all rows at once: so it
// is evaluated when Ceres announces a new point, and each row then only looks itself up.
class Evaluation : public ceres::EvaluationCallback {
 public:
  Evaluation(const ResidualFunction& function, const std::vector<FreeConstant>& constants,
             std::vector<double>& values, std::size_t rows)
      : function_(function), constants_(constants), values_(values), residuals_(rows) {}

  void PrepareForEvaluation(bool evaluate_jacobians, bool new_point) override {
    if (new_point) {
      valid_ = evaluate(values_, residuals_);
      differentiated_ = false;
    }
    if (evaluate_jacobians && valid_ && !differentiated_) differentiate();
  }

  bool valid() const { return valid_; }
  double residual(std::size_t row) const { return residuals_[row]; }
  double derivative(std::size_t row, std::size_t constant) const {
    return derivatives_[constant][row];
  }
  const std::vector<double>& residuals() const { return residuals_; }

 private:
  bool evaluate(const std::vector<double>& at, std::vector<double>& residuals) const {
    return function_(at, residuals) && std::all_of(residuals.begin(), residuals.end(),
                                                   [](double r) { return std::isfinite(r); });
  }

  // Central differences, one-sided at a bound so that the function never sees a forbidden value.
  std::vector<double> derivatives_by(std::size_t k) const {
    const FreeConstant& constant = constants_[k];
    const double range = constant.upper - constant.lower;
    const double step = 1e-6 * std::max(std::abs(values_[k]), 1e-2 * range);
    std::vector<double> above = values_;
    std::vector<double> below = values_;
    above[k] = std::min(values_[k] + step, constant.upper);
    below[k] = std::max(values_[k] - step, constant.lower);
    std::vector<double> high(residuals_.size());
    std::vector<double> low(residuals_.size());
    if (!(above[k] > below[k]) || !evaluate(above, high) || !evaluate(below, low)) return {};
    for (std::size_t row = 0; row < high.size(); ++row) {
      high[row] = (high[row] - low[row]) / (above[k] - below[k]);
    }
    return high;
  }

  void differentiate() {
    derivatives_ =
        parallel_map(constants_.size(), {}, [&](std::size_t k) { return derivatives_by(k); });
    differentiated_ = true;
    valid_ = std::none_of(derivatives_.begin(), derivatives_.end(),
                          [&](const auto& column) { return column.size() != residuals_.size(); });
  }

  const ResidualFunction& function_;
  const std::vector<FreeConstant>& constants_;
  std::vector<double>& values_;
  std::vector<double> residuals_;
  std::vector<std::vector<double>> derivatives_;  // by constant, then row
  bool valid_ = false;
  bool differentiated_ = false;
};

class RowCost : public ceres::CostFunction {
 public:
  RowCost(const Evaluation& evaluation, std::size_t row, std::size_t constants)
      : evaluation_(evaluation), row_(row) {
    set_num_residuals(1);
    mutable_parameter_block_sizes()->assign(constants, 1);
  }

  bool Evaluate(const double* const*, double* residuals, double** jacobians) const override {
    if (!evaluation_.valid()) return false;
    residuals[0] = evaluation_.residual(row_);
    if (jacobians == nullptr) return true;
    for (std::size_t k = 0; k < parameter_block_sizes().size(); ++k) {
      if (jacobians[k] != nullptr) jacobians[k][0] = evaluation_.derivative(row_, k);
    }
    return true;
  }

 private:
  const Evaluation& evaluation_;
  std::size_t row_;
};

Diagnostics faults(const std::vector<FreeConstant>& constants, std::size_t rows) {
  Diagnostics found;
  for (const FreeConstant& constant : constants) {
    if (!std::isfinite(constant.lower) || !std::isfinite(constant.upper) ||
        !(constant.lower < constant.upper)) {
      found.push_back({constant.name, "the bounds leave no room", "lower must be below upper"});
    } else if (!(constant.lower <= constant.start && constant.start <= constant.upper)) {
      found.push_back({constant.name,
                       fmt::format("the start {} lies outside [{}, {}]", constant.start,
                                   constant.lower, constant.upper),
                       "start within the bounds"});
    }
  }
  if (constants.empty()) found.push_back({"fit", "there is no constant to fit", {}});
  if (rows < constants.size()) {
    found.push_back({"fit",
                     fmt::format("{} rows cannot determine {} constants", rows, constants.size()),
                     "fit fewer constants"});
  }
  return found;
}

bool at_bound(const FreeConstant& constant, double value) {
  const double near = 1e-9 * (constant.upper - constant.lower);
  return value <= constant.lower + near || value >= constant.upper - near;
}

// sqrt of the diagonal of s^2 (J^T J)^-1 with s^2 = 2 cost / (rows - free), robust weights
// included. Ceres' own covariance prints to stderr where the rows do not determine the constants.
void add_standard_errors(Fitted& fitted, ceres::Problem& problem, std::vector<double>& values) {
  fitted.standard_errors.assign(values.size(), std::nullopt);
  ceres::Problem::EvaluateOptions options;
  std::vector<std::size_t> free;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (at_bound(fitted.constants[k], values[k])) continue;
    free.push_back(k);
    options.parameter_blocks.push_back(&values[k]);
  }
  const std::size_t rows = fitted.residuals.size();
  if (free.empty() || rows <= free.size()) return;
  ceres::CRSMatrix sparse;
  if (!problem.Evaluate(options, nullptr, nullptr, nullptr, &sparse)) return;
  Eigen::MatrixXd jacobian = Eigen::MatrixXd::Zero(sparse.num_rows, sparse.num_cols);
  for (int row = 0; row < sparse.num_rows; ++row) {
    for (int at = sparse.rows[static_cast<std::size_t>(row)];
         at < sparse.rows[static_cast<std::size_t>(row) + 1]; ++at) {
      const auto entry = static_cast<std::size_t>(at);
      jacobian(row, sparse.cols[entry]) = sparse.values[entry];
    }
  }
  const Eigen::VectorXd sizes = jacobian.colwise().norm();
  if (sizes.minCoeff() <= 0) return;
  // Columns of length 1, so that units do not decide what counts as singular.
  const Eigen::MatrixXd scaled = jacobian * sizes.cwiseInverse().asDiagonal();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> parts(scaled.transpose() * scaled);
  constexpr double kSingular = 1e-12;
  if (parts.eigenvalues().minCoeff() < kSingular * parts.eigenvalues().maxCoeff()) return;
  const Eigen::MatrixXd inverse = parts.eigenvectors() *
                                  parts.eigenvalues().cwiseInverse().asDiagonal() *
                                  parts.eigenvectors().transpose();
  const double variance = 2 * fitted.cost / static_cast<double>(rows - free.size());
  for (std::size_t i = 0; i < free.size(); ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    fitted.standard_errors[free[i]] = std::sqrt(variance * inverse(at, at)) / sizes(at);
  }
}

// Each costs one evaluation, where a fit takes hundreds. `values` are the problem's own.
void begin_at_least(ceres::Problem& problem, const std::vector<std::vector<double>>& starts,
                    std::vector<double>& values) {
  if (starts.empty()) return;
  const auto cost_at = [&](const std::vector<double>& start) {
    std::copy(start.begin(), start.end(), values.begin());
    double cost = 0;
    const bool valid = problem.Evaluate({}, &cost, nullptr, nullptr, nullptr);
    return valid ? cost : std::numeric_limits<double>::infinity();
  };
  std::vector<double> best = values;
  double least = cost_at(best);
  for (const std::vector<double>& start : starts) {
    const double cost = cost_at(start);
    if (cost >= least) continue;
    least = cost;
    best = start;
  }
  std::copy(best.begin(), best.end(), values.begin());
}

ceres::Solver::Options solver_options(const FitOptions& options) {
  ceres::Solver::Options chosen;
  chosen.linear_solver_type = ceres::DENSE_QR;
  chosen.max_num_iterations = options.most_iterations;
  chosen.function_tolerance = 1e-10;
  chosen.parameter_tolerance = 1e-10;
  chosen.gradient_tolerance = 1e-12;
  chosen.num_threads = 1;
  chosen.logging_type = ceres::SILENT;
  return chosen;
}

}  // namespace

Result<Fitted> fit(const std::vector<FreeConstant>& constants, std::size_t rows,
                   const ResidualFunction& residuals, const FitOptions& options) {
  if (Diagnostics found = faults(constants, rows); !found.empty()) return fail(std::move(found));
  std::vector<double> values;
  for (const FreeConstant& constant : constants) values.push_back(constant.start);
  Evaluation evaluation(residuals, constants, values, rows);
  evaluation.PrepareForEvaluation(true, true);
  if (!evaluation.valid()) {
    return fail("fit", "the residuals cannot be evaluated at the start", "start elsewhere");
  }
  ceres::Problem::Options borrowing;
  borrowing.evaluation_callback = &evaluation;
  borrowing.cost_function_ownership = ceres::DO_NOT_TAKE_OWNERSHIP;
  borrowing.loss_function_ownership = ceres::DO_NOT_TAKE_OWNERSHIP;
  ceres::HuberLoss huber(options.robust_from > 0 ? options.robust_from : 1);
  std::deque<RowCost> costs;
  ceres::Problem problem(borrowing);
  std::vector<double*> blocks;
  for (double& value : values) blocks.push_back(&value);
  for (std::size_t row = 0; row < rows; ++row) {
    problem.AddResidualBlock(&costs.emplace_back(evaluation, row, constants.size()),
                             options.robust_from > 0 ? &huber : nullptr, blocks);
  }
  for (std::size_t k = 0; k < constants.size(); ++k) {
    problem.SetParameterLowerBound(&values[k], 0, constants[k].lower);
    problem.SetParameterUpperBound(&values[k], 0, constants[k].upper);
  }
  begin_at_least(problem, options.other_starts, values);
  ceres::Solver::Summary summary;
  ceres::Solve(solver_options(options), &problem, &summary);

  Fitted fitted;
  fitted.constants = constants;
  fitted.values = values;
  fitted.residuals.resize(rows);
  if (!residuals(values, fitted.residuals)) return fail("fit", "no residuals at the solution");
  fitted.cost = summary.final_cost;
  fitted.iterations = static_cast<int>(summary.iterations.size());
  fitted.converged = summary.termination_type == ceres::CONVERGENCE;
  fitted.message = summary.message;
  add_standard_errors(fitted, problem, values);
  return fitted;
}

double verdict_residual(double excess, bool out_of_memory, double scale) {
  const double against = (out_of_memory ? -excess : excess) / scale;
  // log(1 + e^x) without overflow.
  const double surprise =
      against > 0 ? against + std::log1p(std::exp(-against)) : std::log1p(std::exp(against));
  return std::sqrt(2 * surprise);
}

}  // namespace trainwright
