// Judges every row by constants that never saw it: fold by fold, and source by source.
#include <algorithm>
#include <set>

#include "trainwright/calibrate/memory_fit.h"

namespace trainwright {
namespace {

using detail::Indices;

// Rows of one source with what was predicted for each, by index of the row.
struct Judged {
  const ScoredRows& of;
  std::map<std::size_t, Predicted> figures = {};
};

std::vector<HeldOut> errors_where(const Judged& judged, auto keep) {
  std::vector<HeldOut> kept;
  for (const auto& [i, figure] : judged.figures) {
    const ScoredRow& row = judged.of.rows[i];
    if (row.verdict || !keep(row)) continue;
    kept.push_back({std::max(figure.bytes, 1.0), row.measured, row.fold});
  }
  return kept;
}

std::optional<ErrorScore> score_where(const Judged& judged, auto keep) {
  const std::vector<HeldOut> kept = errors_where(judged, keep);
  if (kept.empty()) return std::nullopt;
  return score_errors(kept);
}

bool determined(const ScoredRow& row) { return !row.undetermined; }
bool sound(const ScoredRow& row) { return !row.undetermined && !row.broken; }

std::map<std::string, ErrorScore> scored_by_kind(const Judged& judged) {
  std::set<MemoryKind> kinds;
  for (const auto& [i, figure] : judged.figures) {
    if (!judged.of.rows[i].verdict) kinds.insert(judged.of.rows[i].kind);
  }
  std::map<std::string, ErrorScore> scores;
  if (kinds.size() < 2) return scores;
  for (const MemoryKind kind : kinds) {
    const auto part = score_where(
        judged, [kind](const ScoredRow& row) { return row.kind == kind && sound(row); });
    if (part) scores.emplace(name_of(kind), *part);
  }
  return scores;
}

void score_judgements(const Judged& judged, MemoryScore& score) {
  std::vector<VerdictRow> verdicts, all;
  for (const auto& [i, figure] : judged.figures) {
    const ScoredRow& row = judged.of.rows[i];
    if (!row.verdict) continue;
    all.push_back({figure.oom, row.out_of_memory, row.fold});
    if (!row.crash_likely) verdicts.push_back(all.back());
  }
  if (verdicts.empty()) return;
  score.verdicts = score_verdicts(verdicts);
  score.calibrated = calibrated(reliability(verdicts));
  if (all.size() > verdicts.size()) score.with_crashes = score_verdicts(all);
}

// Static bytes and activations have no interval of their own: they are parts of a counter.
bool has_interval(const ScoredRow& row) {
  return row.kind != MemoryKind::Static && row.kind != MemoryKind::Activations;
}

void score_intervals(const Judged& judged, MemoryScore& score) {
  std::vector<HeldOut> rows;
  std::vector<Interval> intervals;
  std::vector<double> widths;
  for (const auto& [i, figure] : judged.figures) {
    const ScoredRow& row = judged.of.rows[i];
    if (row.verdict || !sound(row) || !has_interval(row)) continue;
    rows.push_back({std::max(figure.bytes, 1.0), row.measured, row.fold});
    intervals.push_back({figure.low, figure.high});
    widths.push_back((figure.high - figure.low) / 2 / std::max(figure.bytes, 1.0));
  }
  if (rows.empty()) return;
  score.coverage = coverage(rows, intervals);
  std::sort(widths.begin(), widths.end());
  score.width = widths[widths.size() / 2];
}

MemoryScore scored(const Judged& judged) {
  MemoryScore score;
  score.rows = std::ssize(judged.figures);
  score.errors = score_where(judged, determined);
  score.by_kind = scored_by_kind(judged);
  const bool any_broken =
      score_where(judged, [](const ScoredRow& row) { return row.broken; }).has_value();
  if (any_broken) score.without_broken = score_where(judged, sound);
  score.undetermined = score_where(judged, [](const ScoredRow& row) { return row.undetermined; });
  score_judgements(judged, score);
  score_intervals(judged, score);
  return score;
}

Indices rows_of(const ScoredRows& scored, const std::string& source) {
  Indices indices;
  for (std::size_t i = 0; i < scored.rows.size(); ++i) {
    if (scored.rows[i].source == source) indices.push_back(i);
  }
  return indices;
}

// A source of one fold has no other to learn from: it is judged by what ships without it. What the
// other folds do not tell is as it ships, too. Intervals are those of the other folds' errors.
Judged held_out(const ScoredRows& rows, const Indices& mine, const MemoryConstants& constants,
                const FittedConstants& shipped, SourceScore& score) {
  std::vector<std::string> labels;
  for (const std::size_t i : mine) labels.push_back(rows.rows[i].fold);
  Judged judged{rows};
  for (const Fold& fold : leave_one_out(labels)) {
    ++score.folds;
    Indices among;
    for (const std::size_t i : fold.outside) among.push_back(mine[i]);
    FittedConstants fitted = detail::fitted_on(rows, among, constants);
    if (!fitted.outside) fitted.outside = shipped.outside;
    if (!fitted.lead) fitted.lead = shipped.lead;
    for (const std::size_t i : fold.inside) {
      judged.figures[mine[i]] = predicted(rows.rows[mine[i]], rows, constants, fitted);
    }
  }
  std::vector<HeldOut> errors;
  Indices readings;
  for (const auto& [i, figure] : judged.figures) {
    const ScoredRow& row = rows.rows[i];
    if (row.verdict || !sound(row) || !has_interval(row)) continue;
    errors.push_back({std::max(figure.bytes, 1.0), row.measured, row.fold});
    readings.push_back(i);
  }
  const std::vector<Interval> intervals = held_out_intervals(errors);
  for (std::size_t k = 0; k < readings.size(); ++k) {
    judged.figures[readings[k]].low = intervals[k].low;
    judged.figures[readings[k]].high = intervals[k].high;
  }
  return judged;
}

Judged judged_by(const ScoredRows& rows, const Indices& mine, const MemoryConstants& constants,
                 const FittedConstants& fitted) {
  Judged judged{rows};
  for (const std::size_t i : mine) {
    judged.figures[i] = predicted(rows.rows[i], rows, constants, fitted);
  }
  return judged;
}

// The figures as shares of what was read as measured, by run and reading: without what was learned
// a printed figure may have another unit.
std::map<std::pair<std::size_t, std::size_t>, double> shares_of_measured(const Judged& left) {
  std::map<std::pair<std::size_t, std::size_t>, double> shares;
  for (const auto& [i, figure] : left.figures) {
    const ScoredRow& row = left.of.rows[i];
    shares[{row.run, row.reading}] = figure.bytes / row.measured;
  }
  return shares;
}

bool differ(const Judged& with, const Judged& without) {
  return shares_of_measured(with) != shares_of_measured(without);
}

void count(const std::vector<SkippedRun>& runs, const std::string& source,
           std::map<std::string, std::int64_t>& counts) {
  for (const SkippedRun& run : runs) {
    if (run.source == source) ++counts[run.reason];
  }
}

// With the leads that ship without one source or another, and no intervals.
Asking unlearned_asking(const detail::OwnLeads& own) {
  std::set<std::size_t> leads;
  for (const auto& [source, told] : own) leads.insert(detail::agreed(own, source).lead.value_or(0));
  return {.leads = {leads.begin(), leads.end()}, .intervals = false};
}

}  // namespace

std::vector<SourceScore> validate_memory(const ScoredRows& rows, const Cases& left_cases,
                                         const MemoryConstants& constants) {
  std::set<std::string> sources;
  for (const ScoredRow& row : rows.rows) sources.insert(row.source);
  const detail::OwnLeads own = detail::own_leads(rows, constants);
  const ScoredRows left = score_rows(left_cases, constants, unlearned_asking(own));
  std::vector<SourceScore> scores;
  for (const std::string& source : sources) {
    SourceScore score;
    score.source = source;
    score.constants = detail::agreed(own, source);
    const Indices mine = rows_of(rows, source);
    const Judged shipped = judged_by(rows, mine, constants, score.constants);
    const Judged held = held_out(rows, mine, constants, score.constants, score);
    const Judged without = judged_by(left, rows_of(left, source), constants, score.constants);
    score.as_shipped = scored(shipped);
    score.held_out = scored(held);
    if (differ(shipped, without)) score.without_learned = scored(without);
    const auto shares = shares_of_measured(without);
    for (const std::size_t i : mine) {
      const ScoredRow& row = rows.rows[i];
      const auto share = shares.find({row.run, row.reading});
      score.rows.push_back({row, shipped.figures.at(i), held.figures.at(i).bytes,
                            share == shares.end() ? 0 : share->second * row.measured});
    }
    count(rows.skipped, source, score.skipped);
    count(rows.refused, source, score.refused);
    scores.push_back(std::move(score));
  }
  return scores;
}

}  // namespace trainwright
