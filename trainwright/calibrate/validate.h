#pragma once
// How wrong the memory model is on published runs. Part of calibrate.h: include that one.
//
// What is scored is what estimate_memory answers for a row's question, and nothing else. A row has
// three figures:
//
//   as shipped       with the constants that ship when its source is left out of them, which is
//                    what somebody on a new cluster gets;
//   held out         with constants fitted on the other folds of its source (sweep, model size,
//                    test case);
//   without learned  as shipped, but without facts that only measured rows could tell (trainer.h,
//                    case.h: "learned:").
//
// Two constants are fitted, both within physical bounds: where context and communicators lie
// between the ends of their ranges, and how far the host is ahead of the device in a pipeline. Of
// the first the central value ships, since what is left in one source says nothing about another;
// of the second the median of what the sources say by themselves. Verdicts compare the chance of
// OOM with one half.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/measured/measured.h"
#include "trainwright/memory/memory.h"

namespace trainwright {

// Leads that are tried, in kernels, with a pipeline.
inline constexpr std::array<double, 3> kLeads{32, 64, 128};
struct FittedConstants {
  std::optional<double> outside;    // -1 to 1; nullopt: the rows do not tell
  std::optional<std::size_t> lead;  // into kLeads
  friend bool operator==(const FittedConstants&, const FittedConstants&) = default;
};
// The constants with those that were fitted in their places.
MemoryConstants with_fitted(MemoryConstants constants, const FittedConstants& fitted);

// One published figure or verdict.
struct ScoredRow {
  std::string source, label, fold;
  std::size_t run = 0;      // its index among the runs
  std::size_t of_case = 0;  // and among the cases
  std::size_t reading = 0;  // which of the case's; a verdict comes after all readings
  MemoryKind kind = MemoryKind::Driver;
  ReadAt at = ReadAt::WorstRank;
  std::int64_t pipeline_rank = 0;  // where it was read, if not on the fullest
  double measured = 0;             // bytes; of a verdict the capacity
  double rounding = 0;             // bytes that the printed figure leaves open
  bool verdict = false;
  bool out_of_memory = false;
  bool crash_likely = false;  // a failure for another reason, probably: scored apart
  bool broken = false;        // in the words of its source: scored with and without
  bool undetermined = false;  // something memory hangs on had to be guessed: scored apart
};
// A row's case with its estimate for every lead that was tried; one where the lead does not matter.
struct EstimatedCase {
  std::map<std::size_t, MemoryEstimate> by_lead;
  const MemoryEstimate& at(std::size_t lead) const {
    const auto found = by_lead.find(lead);
    return found == by_lead.end() ? by_lead.begin()->second : found->second;
  }
};
struct ScoredRows {
  std::vector<ScoredRow> rows;
  std::vector<EstimatedCase> estimates;  // by case; empty where there is none
  std::vector<SkippedRun> skipped;       // that could not be asked, and why
  std::vector<SkippedRun> refused;       // that ran although our own rules call them illegal
};
// Asks estimate_memory for every case, on all cores, with each of the leads; with intervals only
// where they are wanted, since the longest lead takes one more replay. O(cases x replays).
struct Asking {
  std::vector<std::size_t> leads = {0, 1, 2};
  bool intervals = true;
};
ScoredRows score_rows(const Cases& cases, const MemoryConstants& constants,
                      const Asking& asking = {});

struct Predicted {
  double bytes = 0, low = 0, high = 0;  // of the row's counter, with its 90 % interval
  double oom = 0;
};
Predicted predicted(const ScoredRow& row, const ScoredRows& of, const MemoryConstants& constants,
                    const FittedConstants& fitted);

// What is printed of one source under one set of constants; absent where it does not apply.
struct MemoryScore {
  std::int64_t rows = 0;
  std::optional<ErrorScore> errors;
  std::map<std::string, ErrorScore> by_kind;  // "allocated", "reserved" where there are both
  std::optional<ErrorScore> without_broken;
  std::optional<ErrorScore> undetermined;
  std::optional<VerdictScore> verdicts;
  std::optional<VerdictScore> with_crashes;  // verdicts, those of likely crashes among them
  std::optional<Coverage> coverage;          // of rows that are determined and not broken
  double width = 0;                          // median of half an interval over its figure
  std::optional<bool> calibrated;            // OOM chances, by accuracy's rule
};
// A row beside what was predicted for it.
struct RowResult {
  ScoredRow row;
  Predicted as_shipped;
  double held_out = 0;         // bytes
  double without_learned = 0;  // bytes
  // The command that answers with `as_shipped`, as a program takes it; empty where nobody asked.
  std::vector<std::string> estimate = {};
};
struct SourceScore {
  std::string source;
  FittedConstants constants;  // what ships without this source
  MemoryScore as_shipped, held_out;
  std::optional<MemoryScore> without_learned;  // absent where nothing was learned
  std::int64_t folds = 0;
  std::vector<RowResult> rows;                  // in the order of the cases
  std::map<std::string, std::int64_t> skipped;  // by reason
  std::map<std::string, std::int64_t> refused;  // by rule
};
// Sources in order of their names; `left` are the same runs without what was learned.
// Deterministic. O(folds x fit).
std::vector<SourceScore> validate_memory(const ScoredRows& rows, const Cases& left,
                                         const MemoryConstants& constants);
// What ships: the median of the leads that sources say by themselves, one of them left out.
FittedConstants fit_memory(const ScoredRows& rows, const MemoryConstants& constants,
                           const std::string& without = {});

// {"sources": [...]}, with every row where they are wanted.
Json to_json(const std::vector<SourceScore>& scores, bool with_rows);
// One line per row, in MiB: source, label, fold, kind, outcome, measured, as_shipped, low, high,
// held_out, without_learned, oom, and the command for a shell.
std::string to_csv(const std::vector<SourceScore>& scores);

}  // namespace trainwright
