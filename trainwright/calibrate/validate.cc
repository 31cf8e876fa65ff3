// Fits the constants of memory fold by fold and source by source, and scores what was left out.
#include <algorithm>
#include <cmath>
#include <set>

#include "trainwright/calibrate/calibrate.h"

namespace trainwright {
namespace {

constexpr double kMiB = 1048576;
// Before any fit; see data/calibrations/memory.json.
const std::array<Constant, kMemoryConstants>& all_constants() {
  static const std::array<Constant, kMemoryConstants> constants = {{
      {"workspace", "bytes", "what libraries allocate once", "PyTorch: cuBLAS workspaces", 0,
       4096 * kMiB, 64 * kMiB},
      {"slack", "share", "reserved beyond allocated, of what comes and goes",
       "replays through the allocator", 0, 0.6, 0.06},
      {"context", "bytes", "driver, kernels and libraries", "nvidia-smi after the first kernel", 0,
       12288 * kMiB, 600 * kMiB},
      {"communicator", "bytes", "of one communicator", "NCCL buffers and connections", 0,
       1024 * kMiB, 160 * kMiB},
      {"slack_missed", "share", "reserved beyond a replay, of what comes and goes",
       "several streams, buffers of libraries", 0, 0.2, 0.05},
  }};
  return constants;
}

MemoryFit starting_values() {
  MemoryFit values{};
  for (std::size_t i = 0; i < kMemoryConstants; ++i) values[i] = all_constants()[i].start;
  return values;
}

using Indices = std::vector<std::size_t>;

// A constant is fitted where rows see it; workspace and context are one where nothing tells them
// apart, and so are context and communicators below a hundred verdicts.
std::vector<std::size_t> active_constants(const std::vector<ScoredRow>& rows,
                                          const Indices& among) {
  std::int64_t allocated = 0, reserved = 0, driver = 0, replayed = 0;
  for (const std::size_t i : among) {
    const ScoredRow& row = rows[i];
    const bool is_driver = row.verdict || row.kind == MemoryKind::Driver;
    replayed += !row.ranks.empty() && row.ranks.front()[4] > 0;
    driver += is_driver;
    reserved += !is_driver && !row.ranks.empty() && row.ranks.front()[1] > 0;
    allocated += !is_driver && !row.ranks.empty() && row.ranks.front()[0] > 0;
  }
  std::vector<std::size_t> active;
  if (allocated > 0) active.push_back(0);
  if (reserved > 0 || driver >= 100) active.push_back(1);
  if (driver > 0) active.push_back(2);
  if (driver >= 100) active.push_back(3);
  if (replayed > 0) active.push_back(4);
  return active;
}

// Relative errors count in units of 2 %, or of what rounding leaves open; a verdict's margin in
// units of 3 % of the capacity.
double residual(const ScoredRow& row, const MemoryFit& values) {
  const double bytes = std::max(predicted(row, values), 1.0);
  if (row.verdict) return verdict_residual(std::log(bytes / row.measured), row.out_of_memory, 0.03);
  const double expected = std::hypot(0.02, row.rounding / row.measured);
  return std::log(bytes / row.measured) / expected;
}

// `weights`: of each row among those fitted; `values`: of the constants that are not.
MemoryFit fitted(const std::vector<ScoredRow>& rows, const Indices& among,
                 const std::vector<double>& weights, const std::vector<std::size_t>& active,
                 const MemoryFit& values) {
  if (active.empty() || among.size() < active.size()) return values;
  std::vector<Constant> constants;
  for (const std::size_t i : active) constants.push_back(all_constants()[i]);
  // Constants of gigabytes beside shares: every one is measured by its upper bound.
  std::vector<double> units;
  for (Constant& constant : constants) {
    units.push_back(constant.upper);
    constant.start /= constant.upper;
    constant.lower /= constant.upper;
    constant.upper = 1;
  }
  const auto spread_out = [&](std::span<const double> chosen) {
    MemoryFit all = values;
    for (std::size_t i = 0; i < active.size(); ++i) all[active[i]] = chosen[i] * units[i];
    return all;
  };
  const auto result = fit(constants, among.size(),
                          [&](std::span<const double> chosen, std::span<double> residuals) {
                            const MemoryFit all = spread_out(chosen);
                            for (std::size_t i = 0; i < among.size(); ++i) {
                              residuals[i] = residual(rows[among[i]], all) * weights[i];
                            }
                            return true;
                          });
  return result ? spread_out(result->values) : values;
}

// Allocated bytes hold the workspace and no other constant: where there are such rows, they alone
// say what it is, so that it does not make up for what another one gets wrong.
MemoryFit fitted(const std::vector<ScoredRow>& rows, const Indices& among,
                 const std::vector<double>& weights) {
  Indices allocated;
  std::vector<double> their_weights;
  for (std::size_t i = 0; i < among.size(); ++i) {
    const ScoredRow& row = rows[among[i]];
    if (row.verdict || row.kind != MemoryKind::Allocated) continue;
    allocated.push_back(among[i]);
    their_weights.push_back(weights[i]);
  }
  MemoryFit values = starting_values();
  std::vector<std::size_t> active = active_constants(rows, among);
  if (!allocated.empty()) {
    values = fitted(rows, allocated, their_weights, {0}, values);
    std::erase(active, std::size_t{0});
  }
  return fitted(rows, among, weights, active, values);
}

// Everything learned from the rows that were fitted on.
struct Learned {
  MemoryFit values{};
  std::vector<double> log_errors;  // of those rows
  std::optional<ErrorLaw> law;     // for verdicts
};

Learned learn(const std::vector<ScoredRow>& rows, const Indices& among,
              const std::vector<double>& weights) {
  Learned learned;
  learned.values = fitted(rows, among, weights);
  std::vector<double> excess;
  std::vector<VerdictRow> verdicts;
  for (const std::size_t i : among) {
    const double bytes = std::max(predicted(rows[i], learned.values), 1.0);
    if (rows[i].verdict) {
      excess.push_back(std::log(bytes / rows[i].measured));
      verdicts.push_back({0, rows[i].out_of_memory, rows[i].fold});
    } else {
      learned.log_errors.push_back(std::log(rows[i].measured / bytes));
    }
  }
  const auto by_verdicts = fit_error_law(excess, verdicts);
  const auto by_errors = fit_error_law(learned.log_errors);
  if (by_verdicts && verdicts.size() >= 40) {
    learned.law = *by_verdicts;
  } else if (by_errors) {
    learned.law = *by_errors;
  }
  return learned;
}

// Rows of one source with what was predicted for each when it was not fitted on.
struct Judged {
  std::vector<HeldOut> errors;
  std::vector<const ScoredRow*> error_rows;
  std::vector<Interval> intervals;  // as shipped only; held out come from the folds
  std::vector<VerdictRow> verdicts;
  std::map<std::size_t, double> bytes;  // predicted, by index of the row
};

void judge(const std::vector<ScoredRow>& rows, std::size_t index, const Learned& learned,
           Judged& judged) {
  const ScoredRow& row = rows[index];
  const double bytes = std::max(predicted(row, learned.values), 1.0);
  judged.bytes[index] = bytes;
  if (row.verdict) {
    const ErrorLaw law = learned.law.value_or(ErrorLaw{0, 0.05, 4});
    judged.verdicts.push_back(
        {oom_probability(std::log(bytes / row.measured), law), row.out_of_memory, row.fold});
    return;
  }
  judged.errors.push_back({bytes, row.measured, row.fold});
  judged.error_rows.push_back(&row);
  const Interval log = conformal_log_interval(learned.log_errors);
  judged.intervals.push_back({bytes * std::exp(log.low), bytes * std::exp(log.high)});
}

template <class Keep>
std::optional<ErrorScore> score_where(const Judged& judged, const Keep& keep) {
  std::vector<HeldOut> kept;
  for (std::size_t i = 0; i < judged.errors.size(); ++i) {
    if (keep(*judged.error_rows[i])) kept.push_back(judged.errors[i]);
  }
  if (kept.empty()) return std::nullopt;
  return score_errors(kept);
}

MemoryScore scored(const Judged& judged, const std::vector<Interval>& intervals) {
  MemoryScore score;
  score.rows = static_cast<std::int64_t>(judged.errors.size() + judged.verdicts.size());
  score.errors = score_where(judged, [](const ScoredRow& row) { return !row.undetermined; });
  std::set<MemoryKind> kinds;
  bool broken = false;
  for (const ScoredRow* row : judged.error_rows) {
    kinds.insert(row->kind);
    broken |= row->broken;
  }
  if (kinds.size() > 1) {
    for (const MemoryKind kind : kinds) {
      const auto part = score_where(
          judged, [kind](const ScoredRow& row) { return row.kind == kind && !row.undetermined; });
      if (part) score.by_kind.emplace(name_of(kind), *part);
    }
  }
  if (broken) {
    score.without_broken =
        score_where(judged, [](const ScoredRow& row) { return !row.broken && !row.undetermined; });
  }
  score.undetermined = score_where(judged, [](const ScoredRow& row) { return row.undetermined; });
  if (!judged.verdicts.empty()) {
    score.verdicts = score_verdicts(judged.verdicts);
    score.calibrated = calibrated(reliability(judged.verdicts));
  }
  if (judged.errors.size() >= 20) score.coverage = coverage(judged.errors, intervals);
  return score;
}

Indices rows_of(const std::vector<ScoredRow>& rows, const std::string& source, bool of_source) {
  Indices indices;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if ((rows[i].source == source) == of_source) indices.push_back(i);
  }
  return indices;
}

// A score, and the bytes it was made from by index of the row.
using ScoreAndBytes = std::pair<MemoryScore, std::map<std::size_t, double>>;

ScoreAndBytes held_out(const std::vector<ScoredRow>& rows, const Indices& mine) {
  std::vector<std::string> labels;
  for (const std::size_t i : mine) labels.push_back(rows[i].fold);
  Judged judged;
  std::int64_t constants = 0;
  for (const Fold& fold : leave_one_out(labels)) {
    Indices among;
    for (const std::size_t i : fold.outside) among.push_back(mine[i]);
    const Learned learned = learn(rows, among, std::vector<double>(among.size(), 1.0));
    constants = static_cast<std::int64_t>(active_constants(rows, among).size());
    for (const std::size_t i : fold.inside) judge(rows, mine[i], learned, judged);
  }
  MemoryScore score = scored(judged, held_out_intervals(judged.errors));
  score.constants = constants;
  score.values = fitted(rows, mine, std::vector<double>(mine.size(), 1.0));
  return {score, judged.bytes};
}

// Every other source weighs as much as 25 rows, however many it has.
ScoreAndBytes as_shipped(const std::vector<ScoredRow>& rows, const std::string& source) {
  const Indices others = rows_of(rows, source, false);
  std::map<std::string, double> counts;
  for (const std::size_t i : others) counts[rows[i].source] += 1;
  std::vector<double> weights;
  for (const std::size_t i : others) weights.push_back(std::sqrt(25 / counts[rows[i].source]));
  const Learned learned = learn(rows, others, weights);
  Judged judged;
  for (const std::size_t i : rows_of(rows, source, true)) judge(rows, i, learned, judged);
  MemoryScore score = scored(judged, judged.intervals);
  score.values = learned.values;
  return {score, judged.bytes};
}

RowResult result_of(const ScoredRow& row, double held, double shipped, const MemoryFit& values) {
  RowResult result{row.label,    row.fold, row.kind, row.verdict, row.out_of_memory,
                   row.measured, held,     shipped,  {}};
  double most = -1;
  for (const MemoryTerms& rank : row.ranks) {
    ScoredRow one;
    one.ranks = {rank};
    const double bytes = predicted(one, values);
    if (bytes > most) result.terms = rank;
    most = std::max(most, bytes);
  }
  return result;
}

}  // namespace

Result<std::vector<SourceScore>> validate_memory(const ScoredRows& scored_rows) {
  std::set<std::string> sources;
  for (const ScoredRow& row : scored_rows.rows) sources.insert(row.source);
  std::vector<SourceScore> scores;
  for (const std::string& source : sources) {
    SourceScore score;
    score.source = source;
    const Indices mine = rows_of(scored_rows.rows, source, true);
    const ScoreAndBytes held = held_out(scored_rows.rows, mine);
    const ScoreAndBytes shipped = as_shipped(scored_rows.rows, source);
    score.held_out = held.first;
    score.as_shipped = shipped.first;
    for (const std::size_t i : mine) {
      score.rows.push_back(result_of(scored_rows.rows[i], held.second.at(i), shipped.second.at(i),
                                     shipped.first.values));
    }
    for (const SkippedRun& run : scored_rows.skipped) {
      if (run.source == source) ++score.skipped[run.reason];
    }
    scores.push_back(std::move(score));
  }
  return scores;
}

}  // namespace trainwright
