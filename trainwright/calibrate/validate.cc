// Judges every row by constants that never saw it: fold by fold, and source by source.
#include <algorithm>
#include <cmath>
#include <set>

#include "trainwright/calibrate/memory_fit.h"

namespace trainwright {
namespace {

using detail::Indices;
using detail::MemoryLesson;

// Rows of one source with what was predicted for each when it was not fitted on.
struct Judged {
  std::vector<HeldOut> errors;
  std::vector<const ScoredRow*> error_rows;
  std::vector<Interval> intervals;  // from the rows fitted on
  std::vector<VerdictRow> verdicts;
  std::vector<VerdictRow> crashes;      // verdicts of failures that are probably none of memory
  std::map<std::size_t, double> bytes;  // predicted, by index of the row
};

void judge(const std::vector<ScoredRow>& rows, std::size_t index, const MemoryLesson& lesson,
           Learned learned, Judged& judged) {
  const ScoredRow& row = rows[index];
  const double bytes = std::max(predicted(row, lesson.values, learned), 1.0);
  judged.bytes[index] = bytes;
  if (row.verdict) {
    const ErrorLaw law = lesson.law.value_or(ErrorLaw{0, 0.05, 4});
    const double chance = oom_probability(std::log(bytes / row.measured), law);
    (row.crash_likely ? judged.crashes : judged.verdicts)
        .push_back({chance, row.out_of_memory, row.fold});
    return;
  }
  judged.errors.push_back({bytes, row.measured, row.fold});
  judged.error_rows.push_back(&row);
  judged.intervals.push_back(
      {bytes * std::exp(lesson.log_interval.low), bytes * std::exp(lesson.log_interval.high)});
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

std::map<std::string, ErrorScore> scored_by_kind(const Judged& judged) {
  std::set<MemoryKind> kinds;
  for (const ScoredRow* row : judged.error_rows) kinds.insert(row->kind);
  std::map<std::string, ErrorScore> scores;
  if (kinds.size() < 2) return scores;
  for (const MemoryKind kind : kinds) {
    const auto part = score_where(
        judged, [kind](const ScoredRow& row) { return row.kind == kind && !row.undetermined; });
    if (part) scores.emplace(name_of(kind), *part);
  }
  return scores;
}

MemoryScore scored(const Judged& judged, const std::vector<Interval>& intervals) {
  MemoryScore score;
  score.rows = std::ssize(judged.errors) + std::ssize(judged.verdicts);
  score.errors = score_where(judged, [](const ScoredRow& row) { return !row.undetermined; });
  score.by_kind = scored_by_kind(judged);
  if (std::any_of(judged.error_rows.begin(), judged.error_rows.end(),
                  [](const ScoredRow* row) { return row->broken; })) {
    score.without_broken =
        score_where(judged, [](const ScoredRow& row) { return !row.broken && !row.undetermined; });
  }
  score.undetermined = score_where(judged, [](const ScoredRow& row) { return row.undetermined; });
  if (!judged.verdicts.empty()) {
    score.verdicts = score_verdicts(judged.verdicts);
    score.calibrated = calibrated(reliability(judged.verdicts));
  }
  if (!judged.crashes.empty()) {
    std::vector<VerdictRow> all = judged.verdicts;
    all.insert(all.end(), judged.crashes.begin(), judged.crashes.end());
    score.with_crashes = score_verdicts(all);
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

bool anything_learned(const std::vector<ScoredRow>& rows, const Indices& mine) {
  return std::any_of(mine.begin(), mine.end(),
                     [&](std::size_t i) { return !rows[i].unlearned.empty(); });
}

// Puts held-out scores into `score`; the bytes they were made from, by index of the row. A source
// of one fold has no other to learn from: it is judged by what ships without it.
std::map<std::size_t, double> hold_out(const std::vector<ScoredRow>& rows, const Indices& mine,
                                       const MemoryLesson& shipped, SourceScore& score) {
  std::vector<std::string> labels;
  for (const std::size_t i : mine) labels.push_back(rows[i].fold);
  const bool choose = anything_learned(rows, mine);
  Judged judged, without;
  std::int64_t constants = 0;
  for (const Fold& fold : leave_one_out(labels)) {
    Indices among;
    for (const std::size_t i : fold.outside) among.push_back(mine[i]);
    const auto learn = [&](Learned which) {
      return among.empty() ? shipped : detail::learn_memory(rows, among, which);
    };
    MemoryLesson lesson = learn(Learned::Taken);
    Learned learned = Learned::Taken;
    if (choose) {
      const MemoryLesson left = learn(Learned::Left);
      for (const std::size_t i : fold.inside) judge(rows, mine[i], left, Learned::Left, without);
      // With no other fold to tell, what was learned would come from the very rows scored.
      if (among.empty() || left.cost < lesson.cost) {
        learned = Learned::Left;
        lesson = left;
      }
    }
    ++score.folds;
    score.folds_with_learned += choose && learned == Learned::Taken;
    constants = lesson.constants;
    for (const std::size_t i : fold.inside) judge(rows, mine[i], lesson, learned, judged);
  }
  score.held_out = scored(judged, held_out_intervals(judged.errors));
  score.held_out.constants = constants;
  score.held_out.values = detail::learn_memory(rows, mine, Learned::Taken).values;
  if (choose) {
    score.held_out_without_learned = scored(without, held_out_intervals(without.errors));
    score.held_out_without_learned->constants = constants;
  }
  return judged.bytes;
}

std::map<std::size_t, double> ship(const std::vector<ScoredRow>& rows, const Indices& mine,
                                   const MemoryLesson& lesson, SourceScore& score) {
  const auto judged_with = [&](Learned learned) {
    Judged judged;
    for (const std::size_t i : mine) judge(rows, i, lesson, learned, judged);
    return judged;
  };
  const Judged judged = judged_with(Learned::Taken);
  score.as_shipped = scored(judged, judged.intervals);
  score.as_shipped.values = lesson.values;
  if (anything_learned(rows, mine)) {
    const Judged without = judged_with(Learned::Left);
    score.as_shipped_without_learned = scored(without, without.intervals);
    score.as_shipped_without_learned->values = lesson.values;
  }
  return judged.bytes;
}

RowResult result_of(const ScoredRow& row, double held, double shipped, const MemoryFit& values) {
  RowResult result{row.label,    row.fold, row.kind, row.verdict, row.out_of_memory,
                   row.measured, held,     shipped,  {}};
  double most = -1;
  for (const MemoryTerms& rank : row.ranks) {
    const double bytes = bytes_of(rank, values);
    if (bytes > most) result.terms = rank;
    most = std::max(most, bytes);
  }
  return result;
}

}  // namespace

double bytes_of(const MemoryTerms& rank, const MemoryFit& constants) {
  double bytes = rank.fixed;
  for (std::size_t i = 0; i < kMemoryConstants; ++i) bytes += rank.times[i] * constants[i];
  return bytes;
}

double predicted(const ScoredRow& row, const MemoryFit& constants, Learned learned) {
  const bool left = learned == Learned::Left && !row.unlearned.empty();
  double most = 0;
  for (const MemoryTerms& rank : left ? row.unlearned : row.ranks) {
    most = std::max(most, bytes_of(rank, constants));
  }
  return most;
}

std::vector<SourceScore> validate_memory(const ScoredRows& scored_rows) {
  const std::vector<ScoredRow>& rows = scored_rows.rows;
  std::set<std::string> sources;
  for (const ScoredRow& row : rows) sources.insert(row.source);
  const detail::OwnValues own = detail::own_values(rows);
  std::vector<SourceScore> scores;
  for (const std::string& source : sources) {
    SourceScore score;
    score.source = source;
    const Indices mine = rows_of(rows, source, true);
    const MemoryLesson lesson =
        detail::judged_on(rows, rows_of(rows, source, false), detail::agreed(own, source));
    const auto held = hold_out(rows, mine, lesson, score);
    const auto shipped = ship(rows, mine, lesson, score);
    for (const std::size_t i : mine) {
      score.rows.push_back(result_of(rows[i], held.at(i), shipped.at(i), score.as_shipped.values));
    }
    for (const SkippedRun& run : scored_rows.skipped) {
      if (run.source == source) ++score.skipped[run.reason];
    }
    scores.push_back(std::move(score));
  }
  return scores;
}

}  // namespace trainwright
