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

// Rows to fit on, each with a weight.
struct Weighted {
  const std::vector<ScoredRow>& rows;
  Indices among;
  std::vector<double> weights;
  Learned learned;
};

// What `fit` minimises, for comparing readings of the same rows.
double cost_of(const Weighted& of, const MemoryFit& values) {
  const double from = FitOptions{}.robust_from;
  double cost = 0;
  for (std::size_t i = 0; i < of.among.size(); ++i) {
    const double r = std::abs(residual(of.rows[of.among[i]], values, of.learned) * of.weights[i]);
    cost += r <= from ? r * r / 2 : from * r - from * from / 2;
  }
  return cost;
}

// `values`: of the constants that are not fitted.
MemoryFit fitted(const Weighted& on, const std::vector<MemoryConstant>& active,
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
  const auto result = fit(
      constants, on.among.size(), [&](std::span<const double> chosen, std::span<double> residuals) {
        const MemoryFit all = spread_out(chosen);
        for (std::size_t i = 0; i < on.among.size(); ++i) {
          residuals[i] = residual(on.rows[on.among[i]], all, on.learned) * on.weights[i];
        }
        return true;
      });
  return result ? spread_out(result->values) : values;
}

// Allocated bytes hold the workspace and no other constant: where there are such rows, they alone
// say what it is, so that it does not make up for what another one gets wrong.
MemoryFit fitted_in_turn(const Weighted& on, std::vector<MemoryConstant> active) {
  Weighted allocated{on.rows, {}, {}, on.learned};
  for (std::size_t i = 0; i < on.among.size(); ++i) {
    if (!is_allocated(on.rows[on.among[i]])) continue;
    allocated.among.push_back(on.among[i]);
    allocated.weights.push_back(on.weights[i]);
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

}  // namespace

std::vector<double> weights_by_source(const std::vector<ScoredRow>& rows, const Indices& among) {
  std::map<std::string, double> counts;
  for (const std::size_t i : among) counts[rows[i].source] += 1;
  std::vector<double> weights;
  for (const std::size_t i : among) weights.push_back(std::sqrt(25 / counts[rows[i].source]));
  return weights;
}

MemoryLesson learn_memory(const std::vector<ScoredRow>& rows, const Indices& among,
                          const std::vector<double>& weights, Learned learned) {
  Weighted on{rows, {}, {}, learned};
  for (std::size_t i = 0; i < among.size(); ++i) {
    if (rows[among[i]].crash_likely) continue;
    on.among.push_back(among[i]);
    on.weights.push_back(weights[i]);
  }
  MemoryLesson lesson;
  const std::vector<MemoryConstant> active = active_constants(rows, on.among);
  lesson.constants = std::ssize(active);
  lesson.values = fitted_in_turn(on, active);
  lesson.cost = cost_of(on, lesson.values);
  std::vector<double> excess, log_errors;
  std::vector<VerdictRow> verdicts;
  for (const std::size_t i : on.among) {
    const double bytes = std::max(predicted(rows[i], lesson.values, learned), 1.0);
    if (rows[i].verdict) {
      excess.push_back(std::log(bytes / rows[i].measured));
      verdicts.push_back({0, rows[i].out_of_memory, rows[i].fold});
    } else {
      log_errors.push_back(std::log(rows[i].measured / bytes));
    }
  }
  lesson.log_interval = conformal_log_interval(log_errors);
  const bool several = std::any_of(on.among.begin(), on.among.end(), [&](std::size_t i) {
    return rows[i].source != rows[on.among.front()].source;
  });
  lesson.law = law_of(excess, verdicts, log_errors, several);
  return lesson;
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
  detail::Indices all(scored.rows.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return detail::learn_memory(scored.rows, all, detail::weights_by_source(scored.rows, all),
                              Learned::Taken)
      .values;
}

}  // namespace trainwright
