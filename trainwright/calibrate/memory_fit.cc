// The constants of memory: which of them rows can tell, and their values.
#include "trainwright/calibrate/memory_fit.h"

#include <algorithm>
#include <cmath>

namespace trainwright {
namespace detail {
namespace {

constexpr double kMiB = 1048576;

// In the order of the enumerators. The start is what holds before any fit.
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
      {"slack_scores", "share",
       "reserved beyond allocated, of head and loss, where scores of "
       "attention are made again between two losses",
       "none; a guess before any fit", 0, 2, 0},
  }};
  return constants;
}

MemoryFit starting_values() {
  MemoryFit values{};
  for (std::size_t i = 0; i < kMemoryConstants; ++i) values[i] = all_constants()[i].start;
  return values;
}

bool is_allocated(const ScoredRow& row) {
  return !row.verdict && row.kind == MemoryKind::Allocated;
}

// A constant is fitted where rows see it; workspace and context are one where nothing tells them
// apart, and so are context and communicators below a hundred verdicts.
std::vector<MemoryConstant> active_constants(const std::vector<ScoredRow>& rows,
                                             const Indices& among) {
  std::int64_t allocated = 0, reserved = 0, driver = 0, replayed = 0, scores = 0;
  for (const std::size_t i : among) {
    const ScoredRow& row = rows[i];
    if (row.ranks.empty()) continue;
    const MemoryFit& times = row.ranks.front().times;
    const bool is_driver = row.verdict || row.kind == MemoryKind::Driver;
    for (const MemoryTerms& rank : row.ranks) {
      scores += of(rank.times, MemoryConstant::SlackScores) > 0;
    }
    replayed += of(times, MemoryConstant::SlackMissed) > 0;
    driver += is_driver;
    reserved += !is_driver && of(times, MemoryConstant::Slack) > 0;
    allocated += !is_driver && of(times, MemoryConstant::Workspace) > 0;
  }
  std::vector<MemoryConstant> active;
  if (allocated > 0) active.push_back(MemoryConstant::Workspace);
  if (reserved > 0 || driver >= 100) active.push_back(MemoryConstant::Slack);
  if (driver > 0) active.push_back(MemoryConstant::Context);
  if (driver >= 100) active.push_back(MemoryConstant::Communicator);
  if (replayed > 0) active.push_back(MemoryConstant::SlackMissed);
  if (scores > 0) active.push_back(MemoryConstant::SlackScores);
  return active;
}

// Relative errors count in units of 2 %, or of what rounding leaves open; a verdict's margin in
// units of 3 % of the capacity.
double residual(const ScoredRow& row, const MemoryFit& values, Learned learned) {
  const double bytes = std::max(predicted(row, values, learned), 1.0);
  if (row.verdict) return verdict_residual(std::log(bytes / row.measured), row.out_of_memory, 0.03);
  const double expected = std::hypot(0.02, row.rounding / row.measured);
  return std::log(bytes / row.measured) / expected;
}

// Rows to fit on, and how they are read.
struct RowsToFit {
  const std::vector<ScoredRow>& rows;
  Indices among;
  Learned learned;
};

// What `fit` minimises, for comparing readings of the same rows.
double cost_of(const RowsToFit& of, const MemoryFit& values) {
  const double from = FitOptions{}.robust_from;
  double cost = 0;
  for (std::size_t i = 0; i < of.among.size(); ++i) {
    const double r = std::abs(residual(of.rows[of.among[i]], values, of.learned));
    cost += r <= from ? r * r / 2 : from * r - from * from / 2;
  }
  return cost;
}

// `values`: of the constants that are not fitted.
MemoryFit fitted(const RowsToFit& on, const std::vector<MemoryConstant>& active,
                 const MemoryFit& values) {
  if (active.empty() || on.among.size() < active.size()) return values;
  // Constants of gigabytes beside shares: every one is measured by its upper bound.
  std::vector<Constant> constants;
  std::vector<double> units;
  for (const MemoryConstant which : active) {
    Constant constant = all_constants()[static_cast<std::size_t>(which)];
    units.push_back(constant.upper);
    constant.start /= constant.upper;
    constant.lower /= constant.upper;
    constant.upper = 1;
    constants.push_back(std::move(constant));
  }
  const auto spread_out = [&](std::span<const double> chosen) {
    MemoryFit all = values;
    for (std::size_t i = 0; i < active.size(); ++i) of(all, active[i]) = chosen[i] * units[i];
    return all;
  };
  const auto result = fit(constants, on.among.size(),
                          [&](std::span<const double> chosen, std::span<double> residuals) {
                            const MemoryFit all = spread_out(chosen);
                            for (std::size_t i = 0; i < on.among.size(); ++i) {
                              residuals[i] = residual(on.rows[on.among[i]], all, on.learned);
                            }
                            return true;
                          });
  return result ? spread_out(result->values) : values;
}

// Allocated bytes hold the workspace and no other constant: where there are such rows, they alone
// say what it is, so that it does not make up for what another one gets wrong.
MemoryFit fitted_in_turn(const RowsToFit& on, std::vector<MemoryConstant> active) {
  RowsToFit allocated{on.rows, {}, on.learned};
  for (std::size_t i = 0; i < on.among.size(); ++i) {
    if (!is_allocated(on.rows[on.among[i]])) continue;
    allocated.among.push_back(on.among[i]);
  }
  MemoryFit values = starting_values();
  if (!allocated.among.empty()) {
    values = fitted(allocated, {MemoryConstant::Workspace}, values);
    std::erase(active, MemoryConstant::Workspace);
  }
  return fitted(on, active, values);
}

// The law of errors: from verdicts where there are enough of them, else from what was measured.
// That of several sources is centred: which way one of them errs says nothing about the next.
std::optional<ErrorLaw> law_of(const std::vector<double>& excess,
                               const std::vector<VerdictRow>& verdicts,
                               const std::vector<double>& log_errors, bool several) {
  if (verdicts.size() >= 40) {
    if (const auto law = fit_error_law(excess, verdicts, 4, several)) return *law;
  }
  if (const auto law = fit_error_law(log_errors)) return *law;
  return std::nullopt;
}

RowsToFit without_crashes(const std::vector<ScoredRow>& rows, const Indices& among,
                          Learned learned) {
  RowsToFit on{rows, {}, learned};
  for (const std::size_t i : among) {
    if (!rows[i].crash_likely) on.among.push_back(i);
  }
  return on;
}

// What these rows say about the errors of those values.
MemoryLesson lesson_of(const RowsToFit& on, const MemoryFit& values, bool several) {
  MemoryLesson lesson;
  lesson.values = values;
  lesson.cost = cost_of(on, values);
  std::vector<double> excess, log_errors;
  std::vector<VerdictRow> verdicts;
  for (const std::size_t i : on.among) {
    const ScoredRow& row = on.rows[i];
    const double bytes = std::max(predicted(row, values, on.learned), 1.0);
    if (row.verdict) {
      excess.push_back(std::log(bytes / row.measured));
      verdicts.push_back({0, row.out_of_memory, row.fold});
    } else {
      log_errors.push_back(std::log(row.measured / bytes));
    }
  }
  lesson.log_interval = conformal_log_interval(log_errors);
  lesson.law = law_of(excess, verdicts, log_errors, several);
  return lesson;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

MemoryLesson learn_memory(const std::vector<ScoredRow>& rows, const Indices& among,
                          Learned learned) {
  const RowsToFit on = without_crashes(rows, among, learned);
  const std::vector<MemoryConstant> active = active_constants(rows, on.among);
  MemoryLesson lesson = lesson_of(on, fitted_in_turn(on, active), false);
  lesson.constants = std::ssize(active);
  return lesson;
}

OwnValues own_values(const std::vector<ScoredRow>& rows) {
  std::map<std::string, Indices> by_source;
  for (std::size_t i = 0; i < rows.size(); ++i) by_source[rows[i].source].push_back(i);
  OwnValues own;
  for (const auto& [source, mine] : by_source) {
    const RowsToFit on = without_crashes(rows, mine, Learned::Taken);
    const std::vector<MemoryConstant> active = active_constants(rows, on.among);
    const MemoryFit values = fitted_in_turn(on, active);
    // A verdict tells a sum and not what of it is context.
    const bool read = std::any_of(mine.begin(), mine.end(), [&](std::size_t i) {
      return !rows[i].verdict && rows[i].kind == MemoryKind::Driver;
    });
    for (const MemoryConstant which : active) {
      if (which == MemoryConstant::Context && !read) continue;
      own[source].emplace(which, of(values, which));
    }
  }
  return own;
}

MemoryFit agreed(const OwnValues& own, const std::string& but) {
  std::map<MemoryConstant, std::vector<double>> told;
  for (const auto& [source, values] : own) {
    if (source == but) continue;
    for (const auto& [which, value] : values) told[which].push_back(value);
  }
  MemoryFit values = starting_values();
  for (auto& [which, all] : told) of(values, which) = median(std::move(all));
  return values;
}

MemoryLesson judged_on(const std::vector<ScoredRow>& rows, const Indices& among,
                       const MemoryFit& values) {
  return lesson_of(without_crashes(rows, among, Learned::Taken), values, true);
}

}  // namespace detail

std::string_view name_of(MemoryConstant constant) {
  switch (constant) {
    case MemoryConstant::Workspace: return "workspace_bytes";
    case MemoryConstant::Slack: return "slack_share";
    case MemoryConstant::Context: return "context_bytes";
    case MemoryConstant::Communicator: return "communicator_bytes";
    case MemoryConstant::SlackMissed: return "slack_missed_share";
    case MemoryConstant::SlackScores: return "slack_scores_share";
  }
  return {};
}

MemoryFit fit_memory(const ScoredRows& scored) {
  return detail::agreed(detail::own_values(scored.rows), {});
}

}  // namespace trainwright
