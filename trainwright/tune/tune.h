#pragma once
// Which layouts are worth a real trial, what each trial teaches, and when to stop.
//
// Predictions are off by a few per cent, and the errors of layouts are not independent: a slow
// network slows all that use it. So one measured step says something about all others. With
//
//   e_i = log(measured_i / predicted_i)
//
// for every layout that could be run, the errors are jointly normal beforehand, with covariance
//
//   K_ij = scale^2 + sum_k a_ik a_jk + residual^2 exp(-|x_i - x_j|^2 / 2 reach^2) + own^2 [i = j]
//
//   scale       machines of one stack differ as a whole
//   a_ik        d log(step_i) / d log(c_k) of a constant of the stack, times how far a machine that
//               nobody has measured is from it (StackPrior::machine); and the same of what starts a
//               kernel, which stacks do not have as a constant
//   residual    what no constant explains; x: place of a layout, neighbours are one apart
//   own         what not even neighbours share,
//
// and learning is conditioning on what was measured: the linear form of the fit of calibrate's
// time.h that also tells how sure each prediction still is. Where steps are
// further off than two standard deviations in the mean, all doubts grow by what they were off.
//
// Memory likewise: a layout runs out of memory if its error exceeds its room. Part of the errors is
// common to all layouts, part to neighbours, and every trial tells one side of its own: it fitted,
// or it did not. Memory that its log prints tells more: the error itself, up to what lies outside
// the allocator, which no log sees. A crash, a hang, a lost node or a full host tells nothing about
// memory.
//
// The next trial is the one with the highest expected improvement of the best measured step for its
// cost (Jones, Schonlau and Welch, J. Global Optimization 13, 1998, equation 15, here of a
// log-normal time), times the chance that it fits. The first is the one with the least predicted /
// (1 - oom).
//
// Pure functions over values: the same trials and ends, the same belief and proposal. O(n^2 m) for
// n layouts and m measured ones.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/units.h"
#include "trainwright/layout/layout.h"
#include "trainwright/logs/logs.h"
#include "trainwright/memory/memory.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright {

// What memory that a log prints is compared with.
struct TrialMemory {
  Layout layout;
  std::vector<RankClass> ranks;  // by pipeline rank
  std::size_t worst = 0;
};

// A layout that could be tried.
struct Trial {
  std::string layout;          // its text
  Seconds predicted;           // of a step
  std::vector<double> slopes;  // a_i above, of all trials equally many
  std::vector<double> place;   // x_i above, likewise
  double oom = 0;              // chance, before any trial
  std::optional<TrialMemory> memory = {};
};
// Nudges every constant of the stack, and the start of kernels.
Trial trial_of(const Layout& layout, const StepPieces& pieces, const StackConstants& stack,
               double oom);
Trial trial_of(const Layout& layout, const StepPieces& pieces, const StackConstants& stack,
               const MemoryEstimate& memory);
// Logarithms of degrees and of the micro-batch, recompute from none to full, sequence parallelism,
// ZeRO's stage, chunks, schedule: one apart is the next value of one knob.
std::vector<double> place_of(const Layout& layout);

// How a trial ended, by its root cause.
enum class TrialEnd : std::uint8_t {
  Ok,
  OutOfMemory,
  Crash,      // of another kind: blames the layout
  Hang,       // the log fell silent
  TimeLimit,  // slower than anybody waits for
  NodeFailure,
  Preempted,  // these two say nothing about the layout: it may be tried again
  Refused,    // the trainer does not take the settings
};
std::string_view name_of(TrialEnd end);  // "out-of-memory"
std::optional<TrialEnd> trial_end_named(std::string_view name);
bool blames_layout(TrialEnd end);

// How far the memory that a trial's log prints is off. With bytes d that must fit, of which the log
// sees r (d = r + o, and of o nothing is learned), in standard deviations of d beforehand:
//   off = r measured - r predicted,   share = variance of r / variance of d.
// A log tells r on the fullest of its ranks, as reserved bytes or, where it has none, allocated.
struct SeenMemory {
  Counter counter = Counter::Reserved;
  Bytes measured, predicted;
  double off = 0, share = 1;
};
std::optional<SeenMemory> seen_memory(std::span<const LoggedMemory> logged,
                                      const TrialMemory& memory);

struct TrialOutcome {
  std::size_t trial = 0;
  TrialEnd end = TrialEnd::Ok;
  Seconds step = {};  // of Ok: measured after warm-up
  std::optional<SeenMemory> memory = {};
  bool host = false;  // of OutOfMemory: not the accelerator's
  std::string cause = {};
  bool stepped = false;  // it came to a step before it failed
};

// Standard deviations of logarithms. `scale` is what machines of one stack differ by (time.h), the
// others are what is left of an error when neighbours are measured (docs/dev/tune.md).
struct Doubt {
  double scale = 0.14;
  double residual = 0.05, reach = 2, own = 0.01, measuring = 0.01;  // the second: in places
  double memory_shared = 0.5, memory_own = 0.1;  // of the variance; the rest is that of neighbours
  double memory_measuring = 0.1;                 // of the standard deviation: ranks, rounding
};
struct Belief {
  Seconds expected, low, high;  // median and 90 % interval of a step
  double log_error = 0, spread = 0;
  double oom = 0;
};
// One for each trial. Outcomes of trials that are not there are a bug of the caller.
std::vector<Belief> learn(std::span<const Trial> trials, std::span<const TrialOutcome> outcomes,
                          const Doubt& doubt = {});

// What trials cost and what they are for.
struct TuneTerms {
  Seconds start_up{120};     // until the first step; what an OOM costs
  std::int64_t steps = 20;   // of a trial
  double run_steps = 0;      // of the run that is tuned for; 0: not told
  double worth = 0.001;      // where it is not: the least share of a step worth a trial
  double most_oom = 0.7;     // no trial is that likely to fail
  std::int64_t repeats = 2;  // of a layout whose trial was lost for no fault of its own
  std::optional<std::int64_t> most_trials = {};
  std::optional<Seconds> most_time = {};  // of all trials together
};
// Of one trial of steps of that length.
Seconds trial_cost(const TuneTerms& terms, TrialEnd end, Seconds step);

enum class TuneStop : std::uint8_t {
  Not,
  Proven,      // no interval reaches the best measured step
  NotWorthIt,  // what can be expected of another trial is less than it costs
  Budget,
  NothingLeft,  // all were tried, or are too likely to run out of memory
  SameCause,    // different layouts failed alike before a step: it is not the layout
};
std::string_view name_of(TuneStop stop);  // "proven"

struct Proposal {
  TuneStop stop = TuneStop::Not;
  std::size_t trial = 0;                 // the next, where it does not stop
  double gain = 0;                       // expected, as a share of the best measured step
  Seconds cost;                          // expected
  std::optional<std::size_t> best = {};  // of the outcomes: the fastest that ran
  std::string why;                       // a sentence
};
// A cause without what differs from trial to trial: numbers and what stands in quotes or folders.
std::string normalised_cause(std::string_view cause);
// `spent`: by the trials so far.
Proposal propose(std::span<const Trial> trials, std::span<const TrialOutcome> outcomes,
                 std::span<const Belief> beliefs, const TuneTerms& terms, Seconds spent);

// E[max(0, best - t)] of a time t whose logarithm is normal around log(median). 0 without spread
// and gain.
double expected_improvement(double best, double median, double spread);

}  // namespace trainwright

// The rest of the public face; include this header only.
#include "trainwright/tune/ending.h"   // logs and exit codes as ends of trials
#include "trainwright/tune/history.h"  // trials that outlive the program
#include "trainwright/tune/offline.h"  // tuners replayed on tables of outcomes
#include "trainwright/tune/process.h"  // trials as processes
#include "trainwright/tune/run.h"      // one after the other
