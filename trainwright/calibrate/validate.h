#pragma once
// How wrong the memory model is on published runs. Part of calibrate.h: include that one.
//
// A case's bytes are linear in four constants, each a number that no list of work can tell:
//
//   allocated = tensors + workspace            reserved = allocated + slack x what comes and goes
//   driver    = reserved + context + communicator x communicators
//
// so the lists are made once per case and fitting is arithmetic. Held out: constants from the other
// folds of the source. As shipped: constants from all other sources, which is what somebody on a
// new cluster gets. Verdicts compare the driver's bytes of the fullest rank with the capacity.
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

// Workspace, slack, context, communicator, and what a replay misses of the slack.
inline constexpr std::size_t kMemoryConstants = 5;
using MemoryTerms = std::array<double, kMemoryConstants + 1>;  // the last one stands alone

// One published figure, or one verdict, as the constants see it: predicted is the largest of
// `ranks`, each fixed + terms . constants.
struct ScoredRow {
  std::string source, label, fold;
  MemoryKind kind = MemoryKind::Driver;
  std::vector<MemoryTerms> ranks;
  double measured = 0;  // bytes; of a verdict the capacity
  double rounding = 0;  // bytes that the printed figure leaves open
  bool verdict = false;
  bool out_of_memory = false;
  bool broken = false;        // in the words of its source: scored with and without
  bool undetermined = false;  // something memory hangs on had to be guessed: scored apart
  bool learned = false;       // read by a switch that only the rows could tell
};
using MemoryFit = std::array<double, kMemoryConstants>;
double predicted(const ScoredRow& row, const MemoryFit& constants);

struct ScoredRows {
  std::vector<ScoredRow> rows;
  std::vector<SkippedRun> skipped;
};
// Lists of work are made for every distinct case, on all cores. O(cases x layers kinds).
ScoredRows score_rows(const Cases& cases);

// What is printed of one source under one set of constants; absent where it does not apply.
struct MemoryScore {
  std::int64_t rows = 0;
  std::int64_t constants = 0;
  std::optional<ErrorScore> errors;
  std::map<std::string, ErrorScore> by_kind;  // "allocated", "reserved" where there are both
  std::optional<ErrorScore> without_broken;
  std::optional<ErrorScore> undetermined;
  std::optional<VerdictScore> verdicts;
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
  std::vector<RowResult> rows;                  // in the order of the cases
  std::map<std::string, std::int64_t> skipped;  // by reason
};
// Sources in order of their names. Deterministic.
Result<std::vector<SourceScore>> validate_memory(const ScoredRows& rows);

Json to_json(const std::vector<SourceScore>& scores);
// One line per row, in MiB: source, label, fold, kind, outcome, measured, held_out, as_shipped,
// fixed, coming (what slack multiplies), communicators.
std::string to_csv(const std::vector<SourceScore>& scores);

}  // namespace trainwright
