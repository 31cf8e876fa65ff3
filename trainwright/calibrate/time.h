#pragma once
// Step times: what measured runs say about a software stack, and how wrong predictions are. Part of
// calibrate.h: include that one.
//
// One function learns, whether from a user's single run or from thousands: constants start at a
// prior and move as far as the runs make them,
//
//   minimise  sum_i w_i^2 rho(((log(predicted_i / measured_i) + b) / s)^2)
//             + sum_k (log(c_k / prior_k) / (width p_k))^2 + sum_machines (b / 0.14)^2
//
// with s = 5 %, rho as in calibrate.h and p_k how well the constant is known beforehand. b is a
// scale that each machine (an accelerator of a source) has for itself: machines of one stack differ
// by 14 %, and without it constants are bent to explain that. Of one source alone it is one for all
// of its machines, and becomes the constant `scale`. What ships is
// fitted in two steps, all stacks together from the usual values and then each of them from there,
// in which each source has the say of at most 40 rows. A row has up to three
// figures:
//
//   as shipped   with the stack's constants when its source is left out of them;
//   one row      with these as the prior, and one other run of its source: the mean over such runs;
//   held out     with these as the prior, and the other folds of its source as runs.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/measured/measured.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright {

struct TimedRun {
  std::string source, pool, label, fold;
  std::string accelerator;
  std::size_t of_case = 0;
  double measured = 0;  // seconds
  StepPieces pieces;
  std::string stack;
  Seconds host;  // of an operator, of its stack: measured, not fitted
  bool broken = false, undetermined = false;
};
struct TimedRuns {
  std::vector<TimedRun> runs;
  std::vector<SkippedRun> skipped;  // that could not be asked, and why
};
// The pieces of a case's step, with its schedule as it was.
Result<StepPieces> pieces_of(const Case& made, const Cases& cases, const Kernels& kernels);
// The stack of its trainer, or the one that its source's rules name.
const std::string& stack_name_of(const Case& made, const Cases& cases, const Stacks& stacks);
// Every case with a step time, on all cores. O(cases).
TimedRuns time_runs(const Cases& cases, const Kernels& kernels, const Stacks& stacks);

// What runs are learned from, and with it how far constants may move: of all stacks as far as is
// known beforehand, of one stack from there as far as stacks differ, of one's own runs both, times
// `width`. What the host takes was measured by itself: only one's own runs move it.
struct Learning {
  enum class From : std::uint8_t { AllStacks, OneStack, Own };
  From from = From::Own;
  double width = 1;
};
double spread_of(StackConstant which, const Learning& how);  // of its logarithm; 0: it stays
// The constants that runs make of a prior; the prior where there are none. Deterministic.
StackConstants fit_stack(std::span<const TimedRun* const> runs, const StackConstants& prior,
                         const Learning& how = {});
// The constants that these runs tell more about than was known before, at the values that they were
// fitted to: where what they add to the precision of log c_k (the curvature of the first sum above,
// with b free) is more than the prior's. One run determines no more than the scale.
std::vector<StackConstant> determined_by(std::span<const TimedRun* const> runs,
                                         const StackConstants& fitted, const Learning& how = {});
// What is learned of a source's runs with one stack: the constants of that stack when the source
// has no say, and from there on by each fold without its runs, and by some of its runs alone.
struct WithoutSource {
  StackConstants constants;
  std::map<std::string, StackConstants> by_fold;
  std::vector<std::pair<const TimedRun*, StackConstants>> alone;
  // Those that never saw a fold; a fold of broken runs alone taught nothing.
  const StackConstants& without(const std::string& fold) const;
};
struct SourceStack {
  std::string source, stack;
  friend auto operator<=>(const SourceStack&, const SourceStack&) = default;
};
using LeftOut = std::map<SourceStack, WithoutSource>;
// `stacks` says which trainers make up a stack and what intervals hang on. Some fits for each
// source.
LeftOut leave_sources_out(const TimedRuns& runs, const Stacks& stacks);
// The same of one source.
LeftOut leave_source_out(const TimedRuns& runs, const std::string& source);
// The same for a user's own runs, which have no say in what ships.
LeftOut shipped(const TimedRuns& runs, const Stacks& stacks);
// A user's own: stacks that have runs learn from them, from what ships on, with half the prior's
// width where they are few.
inline constexpr std::int64_t kFewRuns = 5;
inline constexpr double kWidthOfFew = 0.5;
Stacks learned_from(const TimedRuns& runs, const Stacks& shipped);
// What ships: all stacks with constants fitted to all runs, and with intervals as they were.
Stacks fit_stacks(const TimedRuns& runs, const Stacks& stacks);

struct TimeScore {
  std::optional<ErrorScore> errors;
  std::optional<ErrorScore> without_broken;
  std::optional<Coverage> coverage;  // of the 90 % interval
  double width = 0;                  // median half width, as a share
};
struct TimeRow {
  std::string pool, label, fold;
  double measured = 0, as_shipped = 0, low = 0, high = 0, held_out = 0;  // seconds
  bool broken = false;
  std::size_t of_case = 0;
  // The command that answers with `as_shipped`, as a program takes it; empty where nobody asked.
  std::vector<std::string> estimate = {};
};
struct TimeSourceScore {
  std::string source;
  std::vector<std::string> stacks;
  TimeScore as_shipped, held_out;
  std::optional<double> one_row;  // mean error with one measured run of the same stack
  std::int64_t folds = 0;
  std::vector<TimeRow> rows;
  std::map<std::string, std::int64_t> skipped;  // by reason
};
// All sources, or one; then pools of several sources, whose rows are taken from those of the
// sources.
std::vector<TimeSourceScore> validate_time(const TimedRuns& runs, const LeftOut& left,
                                           const std::optional<std::string>& only = {});
Json to_json(const std::vector<TimeSourceScore>& scores, bool with_rows);

}  // namespace trainwright
