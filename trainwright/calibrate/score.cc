// Errors, verdicts and whether probabilities mean what they say.
#include <algorithm>
#include <cmath>
#include <map>

#include "trainwright/base/check.h"
#include "trainwright/calibrate/calibrate.h"
#include "trainwright/calibrate/distributions.h"

namespace trainwright {
namespace {

struct Mean {
  double sum = 0;
  std::int64_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

ErrorScore score_errors(std::span<const HeldOut> rows) {
  ErrorScore score;
  if (rows.empty()) return score;
  std::vector<double> errors;
  std::map<std::string, Mean> folds;
  Mean all;
  Mean bias;
  for (const HeldOut& row : rows) {
    TW_CHECK(row.measured > 0, "a measured value of zero has no relative error");
    const double error = row.predicted / row.measured - 1;
    errors.push_back(std::abs(error));
    all.add(std::abs(error));
    bias.add(error);
    folds[row.fold].add(std::abs(error));
  }
  score.rows = all.count;
  score.mape = all.value();
  score.bias = bias.value();
  score.worst_row =
      static_cast<std::size_t>(std::max_element(errors.begin(), errors.end()) - errors.begin());
  score.worst = errors[score.worst_row];
  score.median = median_of(std::move(errors));
  for (const auto& [name, mean] : folds) {
    if (score.worst_fold.empty() || mean.value() > score.worst_fold_mape) {
      score.worst_fold = name;
      score.worst_fold_mape = mean.value();
    }
  }
  return score;
}

VerdictScore score_verdicts(std::span<const VerdictRow> rows) {
  VerdictScore score;
  std::map<std::string, Mean> folds;
  Mean brier;
  for (const VerdictRow& row : rows) {
    const bool says_oom = fit_of(row.oom_probability) == Fit::DoesNotFit;
    const bool tight = fit_of(row.oom_probability) == Fit::Tight;
    score.tight += tight;
    score.tight_ooms += tight && row.out_of_memory;
    score.right += says_oom == row.out_of_memory;
    score.false_fits += !says_oom && row.out_of_memory;
    score.false_ooms += says_oom && !row.out_of_memory;
    const double miss = row.oom_probability - (row.out_of_memory ? 1 : 0);
    brier.add(miss * miss);
    folds[row.fold].add(says_oom == row.out_of_memory ? 1 : 0);
  }
  score.rows = brier.count;
  score.brier = brier.value();
  for (const auto& [name, share] : folds) {
    if (score.worst_fold.empty() || share.value() < score.worst_fold_right) {
      score.worst_fold = name;
      score.worst_fold_right = share.value();
    }
  }
  return score;
}

Interval clopper_pearson(std::int64_t hits, std::int64_t trials, double confidence) {
  TW_CHECK(0 <= hits && hits <= trials, "more hits than trials");
  TW_CHECK(confidence > 0 && confidence < 1, "a confidence lies between 0 and 1");
  const double tail = (1 - confidence) / 2;
  const auto k = static_cast<double>(hits);
  const auto n = static_cast<double>(trials);
  return {.low = hits == 0 ? 0 : detail::beta_quantile(k, n - k + 1, tail),
          .high = hits == trials ? 1 : detail::beta_quantile(k + 1, n - k, 1 - tail)};
}

std::vector<ReliabilityBin> reliability(std::span<const VerdictRow> rows) {
  constexpr std::size_t kBins = 10;
  constexpr std::int64_t kLeastRows = 20;
  constexpr double kConfidence = 0.99;
  std::vector<ReliabilityBin> bins(kBins);
  std::vector<Mean> means(kBins);
  for (const VerdictRow& row : rows) {
    const double scaled = std::clamp(row.oom_probability, 0.0, 1.0) * kBins;
    const auto at = std::min(static_cast<std::size_t>(scaled), kBins - 1);
    bins[at].ooms += row.out_of_memory;
    means[at].add(row.oom_probability);
  }
  for (std::size_t i = 0; i < kBins; ++i) {
    ReliabilityBin& bin = bins[i];
    bin.probabilities = {static_cast<double>(i) / kBins, static_cast<double>(i + 1) / kBins};
    bin.rows = means[i].count;
    bin.mean_probability = means[i].value();
    bin.limits = clopper_pearson(bin.ooms, bin.rows, kConfidence);
    bin.judged = bin.rows >= kLeastRows;
    bin.calibrated = !bin.judged || (bin.limits.low <= bin.mean_probability &&
                                     bin.mean_probability <= bin.limits.high);
  }
  return bins;
}

bool calibrated(std::span<const ReliabilityBin> bins) {
  return std::all_of(bins.begin(), bins.end(), [](const auto& bin) { return bin.calibrated; });
}

Coverage coverage(std::span<const HeldOut> rows, std::span<const Interval> intervals,
                  double level) {
  TW_CHECK(rows.size() == intervals.size(), "one interval per row");
  Coverage result;
  result.rows = static_cast<std::int64_t>(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    result.inside += intervals[i].low <= rows[i].measured && rows[i].measured <= intervals[i].high;
  }
  if (rows.empty()) return result;
  const auto n = static_cast<double>(rows.size());
  result.share = static_cast<double>(result.inside) / n;
  const double slack = std::max(0.02, 2 * std::sqrt(level * (1 - level) / n));
  result.tolerated = {std::max(0.0, level - slack), std::min(1.0, level + slack)};
  result.calibrated = result.tolerated.low <= result.share && result.share <= result.tolerated.high;
  return result;
}

}  // namespace trainwright
