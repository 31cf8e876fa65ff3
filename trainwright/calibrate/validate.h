#pragma once
// How wrong the memory model is on published runs. Part of calibrate.h: include that one.
//
// A case's bytes are linear in six constants, each a number that no list of work can tell:
//
//   allocated = tensors + workspace            reserved = allocated + slack x what is cut up
//   driver    = reserved + context + communicator x communicators
//
// so the lists are made once per case and fitting is arithmetic. Cut up is all that comes and goes
// if collectives run between the operators of a micro-batch, else nothing; what the loss needs is
// cut once more (slack_scores) where recompute makes the scores of attention again between two
// losses. Where the allocator was replayed, the slack is what the replay says and a share that it
// misses. Held out: constants from the other
// folds of the source. As shipped: of every constant the median of what each other source says by
// itself, which is what somebody on a new cluster gets. Verdicts compare the driver's bytes of the
// fullest rank with the capacity.
//
// Some facts only the rows could tell (trainer.h, case.h: "learned:"). Every row is also counted
// without them. Held out, each fold takes them if the other folds are predicted better with them;
// as shipped is given with and without.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/calibrate/case.h"

namespace trainwright {

enum class MemoryConstant : std::size_t {
  Workspace,
  Slack,
  Context,
  Communicator,
  SlackMissed,
  SlackScores,
};
inline constexpr std::size_t kMemoryConstants = 6;
std::string_view name_of(MemoryConstant constant);  // "workspace_bytes", "slack_share"
// By constant: values, or what each is multiplied by.
using MemoryFit = std::array<double, kMemoryConstants>;
constexpr double& of(MemoryFit& fit, MemoryConstant c) { return fit[static_cast<std::size_t>(c)]; }
constexpr double of(const MemoryFit& fit, MemoryConstant c) {
  return fit[static_cast<std::size_t>(c)];
}
struct MemoryTerms {
  double fixed = 0;  // bytes
  MemoryFit times{};
  friend bool operator==(const MemoryTerms&, const MemoryTerms&) = default;
};
double bytes_of(const MemoryTerms& rank, const MemoryFit& constants);

// One published figure, or one verdict, as the constants see it: the largest of `ranks`.
struct ScoredRow {
  std::string source, label, fold;
  std::size_t run = 0, reading = 0;  // which it is; a verdict comes after all readings
  MemoryKind kind = MemoryKind::Driver;
  std::vector<MemoryTerms> ranks;
  std::vector<MemoryTerms> unlearned;  // without what only the rows could tell; empty: the same
  double measured = 0;                 // bytes; of a verdict the capacity
  double rounding = 0;                 // bytes that the printed figure leaves open
  bool verdict = false;
  bool out_of_memory = false;
  bool crash_likely = false;  // a failure for another reason, probably: scored apart
  bool broken = false;        // in the words of its source: scored with and without
  bool undetermined = false;  // something memory hangs on had to be guessed: scored apart
};
double predicted(const ScoredRow& row, const MemoryFit& constants,
                 Learned learned = Learned::Taken);

struct ScoredRows {
  std::vector<ScoredRow> rows;
  std::vector<SkippedRun> skipped;
};
// Lists of work are made for every distinct case, on all cores. O(cases x layers kinds).
ScoredRows score_rows(const Cases& cases);
// Of the same runs, made from what is known with and without the help of the rows.
ScoredRows score_rows(const Cases& learned, const Cases& left);

// What is printed of one source under one set of constants; absent where it does not apply.
struct MemoryScore {
  std::int64_t rows = 0;
  std::int64_t constants = 0;
  std::optional<ErrorScore> errors;
  std::map<std::string, ErrorScore> by_kind;  // "allocated", "reserved" where there are both
  std::optional<ErrorScore> without_broken;
  std::optional<ErrorScore> undetermined;
  std::optional<VerdictScore> verdicts;
  std::optional<VerdictScore> with_crashes;  // verdicts, those of likely crashes among them
  std::optional<Coverage> coverage;
  std::optional<bool> calibrated;  // OOM chances, by accuracy's rule
  MemoryFit values{};              // of all rows, for information
};
// A row beside what was predicted for it, for whoever wants to see what is left.
struct RowResult {
  std::string label, fold;
  MemoryKind kind = MemoryKind::Driver;
  bool verdict = false, out_of_memory = false;
  double measured = 0;                  // bytes; of a verdict the capacity
  double held_out = 0, as_shipped = 0;  // bytes
  MemoryTerms terms{};                  // of the rank with most, as shipped
};
struct SourceScore {
  std::string source;
  MemoryScore held_out, as_shipped;
  // Absent where nothing was learned from the rows.
  std::optional<MemoryScore> held_out_without_learned, as_shipped_without_learned;
  std::int64_t folds = 0, folds_with_learned = 0;
  std::vector<RowResult> rows;                  // in the order of the cases
  std::map<std::string, std::int64_t> skipped;  // by reason
};
// Sources in order of their names. Deterministic. O(folds x fit).
std::vector<SourceScore> validate_memory(const ScoredRows& rows);
// Of every constant the median of what each source says by itself: what ships.
MemoryFit fit_memory(const ScoredRows& rows);

// {"sources": [...], "constants": what ships}.
Json to_json(const std::vector<SourceScore>& scores, const MemoryFit& shipped);
// One line per row, in MiB: source, label, fold, kind, outcome, measured, held_out, as_shipped,
// fixed, coming (what slack multiplies), communicators.
std::string to_csv(const std::vector<SourceScore>& scores);

}  // namespace trainwright
