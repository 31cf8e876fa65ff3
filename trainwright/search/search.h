#pragma once
// Which layouts to run: the fastest that the trainer accepts and that fit.
//
// The space is all products tp x pp x cp x dp of the cluster whose parts divide what they split,
// with every expert split, micro-batch up to 64, way to recompute (none, selective, modules, the
// first n layers of each stage, full), way to share weights, schedule, number of chunks and split
// of layers that the trainer offers; where asked for, ways to offload states and weights. tp stays
// in one domain of fast links, with sequence parallelism where sequences split. Axes of `also` come
// on top: losses, compiling and the dispatcher (manners.h), overlaps, CUDA graphs and the order of
// ranks (late.h), weights gathered in 8 bits; what else a layout may say is as the trainer does it
// unasked, or as a limit fixes it.
// Optimal is the least step time (simulate.h) among accepted layouts whose chance that some rank
// runs out of memory (memory.h) is at most `risk`. In a cluster of several kinds of accelerators
// every rank has the memory, the peak and the links of the smallest and slowest.
//
// Branches of the space are looked at in the order of lower bounds of their step time (branch.h),
// so what is reported first is optimal, unless the budget ended the search: then `bound` says how
// much faster any other could be at most. Each reported figure is made again without any cache.
//
// Cost: O(branches whose bound is below the answer), a few microseconds each, and each list of
// operators once; rules are asked and the allocator is replayed for the fastest few only.
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/memory/memory.h"
#include "trainwright/search/changes.h"
#include "trainwright/search/explain.h"
#include "trainwright/search/limits.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright {

// What may end a search before its proof: then it answers with the best so far and its gap. Soon
// does not end it: an end is near, so what fits is looked for before anything is proven.
enum class SearchStop : std::uint8_t { Not, Budget, Time, Interrupt, Soon };
std::string_view name_of(SearchStop stop);  // "", "budget", "time-limit", "interrupt"

// More than two changes at once and nobody knows which of them helped.
inline constexpr int kMostChanges = 2;

struct SearchQuestion {
  const Model& model;
  const Cluster& cluster;
  const Trainer& trainer;
  const Job& job;
  std::int64_t gbs = 1;  // sequences in a step
  std::int64_t seq = 1;  // tokens in a sequence
  PrecisionKind precision = PrecisionKind::Bf16;
  std::optional<AttentionKernel> attention = std::nullopt;  // the trainer's, unless asked
  const MemoryConstants& constants;
  const TimeConstants& time;
  double risk = kUsualRisk;  // highest chance of running out of memory that still counts as fitting
  std::size_t most = 10;     // families of layouts to report
  Limits limits = {};        // what is fixed beforehand
  Flags<Also> also = {};     // axes to look at too; not with `from`
  bool recipes = false;      // take what published recipes share and no axis decides (recipes.h)
  bool foreign = true;       // also ways to shard that recipes of the trainer do not share
  bool offload = false;      // states and weights may lie on the host: a last resort
  // What is run today: only layouts that differ in at most kMostChanges knobs (changes.h), and have
  // all else of it. Neither with an order of its own nor with recompute by stages.
  std::optional<Layout> from = std::nullopt;
  std::vector<std::int64_t> ramp = {};  // smaller batches that every layout has to run as well
  // Bounds and memory evaluations after which a search ends with what it has, once it has anything.
  std::int64_t budget = std::numeric_limits<std::int64_t>::max();
  // Asked before every branch, with the branches so far; all but Not and Soon end the search.
  std::function<SearchStop(std::int64_t)> stop = {};
  // Asked once stopped, before anything but a first layout is judged in full.
  std::function<bool()> late = {};
  // Lists that another search of this model, trainer and job on these accelerators has timed.
  StepModel* steps = nullptr;
  bool remember = false;      // what was looked at, for pictures
  bool find_smallest = true;  // when nothing fits; else nobody asks whether that is accepted
  bool find_riskier = false;
  // Times the memory, above 1: what it would be worth is looked for too.
  std::optional<double> more_memory = std::nullopt;
};
StepModel step_model(const SearchQuestion& question);
// The same about one layout.
MemoryQuestion memory_question(const SearchQuestion& question, const Layout& layout);
StepQuestion step_question(const SearchQuestion& question, const Layout& layout);
// The same of another cluster, which must outlive it.
SearchQuestion with_cluster(const SearchQuestion& question, const Cluster& cluster);
// The first of bf16, fp16 and fp32 that all accelerators multiply and the trainer offers.
PrecisionKind usual_precision(const Cluster& cluster, const Trainer& trainer);

// A layout that fits, with slower ones of its family: those that differ in recompute, schedule,
// chunks, split of layers, replicas of sharded weights and what was looked at too.
struct PlannedLayout {
  Layout layout;
  StepTime time;
  MemoryEstimate memory;
  std::vector<PlannedLayout> alike = {};  // the next four that fit; theirs are empty
};

// What layouts are ranked by, in nine digits (base/digits.h); ties by the order of their text.
Seconds rank_of(const PlannedLayout& plan);

// Why there are no further layouts.
enum class SearchEnd : std::uint8_t {
  Found,           // `best` are the fastest that fit
  Tight,           // the same at a higher risk than was asked for, where nothing fits at that
  NothingFits,     // `smallest` needs least, unless the search was stopped before that was known
  AllRefused,      // the trainer accepts none; `refusal` says why
  Stopped,         // before any that fits was met
  NothingDivides,  // batch, model and cluster have no common divisors
};
std::string_view name_of(SearchEnd end);  // "found", "nothing-fits", ...

// What speaks against most of the refused layouts, in the words it has for the first of them.
struct Refusal {
  LayoutViolation violation;
  std::int64_t layouts = 0;  // it speaks against
  std::int64_t refused = 0;  // of so many
};

// A layout whose memory was asked for. No rank but the fullest needs more, without slack; of one
// that does not fit some rank needs that much.
struct Considered {
  Layout layout;
  Bytes driver;
  Seconds step;  // at least
  Fit fit = Fit::Fits;
  bool timed = false;  // `step` is its time
};
// More than so many are thinned out evenly.
inline constexpr std::int64_t kMostConsidered = 1500;

// With other runs of a source measured, half of its predictions are off by 2 to 6 % (docs/time.md).
inline constexpr double kMargin = 0.05;

// Once the first is proven, rows below it are looked for in so many bounds and memory evaluations;
// what was timed until then is told beyond.
inline constexpr std::int64_t kFurther = 10'000;

struct SearchResult {
  SearchEnd end = SearchEnd::Found;
  // Of each family the fastest, fastest first; equal times in order of their text.
  std::vector<PlannedLayout> best;
  // Of `best` the first so many are the fastest families there are; the others are the fastest of
  // those that were looked at until kFurther branches after the first.
  std::size_t ranked = 0;
  // Of `best`, what is to be run: recommend.h chooses it. A search leaves it at the fastest.
  std::size_t recommended = 0;
  bool proven = false;  // no layout of the space beats the first; false: `stopped`
  SearchStop stopped = SearchStop::Not;
  Seconds bound;               // none takes less
  std::int64_t space = 0;      // layouts in it
  std::int64_t bounded = 0;    // branches that a bound was asked for
  std::int64_t cut = 0;        // layouts too large by lower bounds of states and activations
  std::int64_t evaluated = 0;  // of the others, whose memory was asked for; the rest is slower
  std::int64_t timed = 0;      // of these, whose step was timed
  std::int64_t simulated = 0;  // of these, that were accepted and judged with a replay
  std::int64_t tight = 0;      // of those evaluated: more risk than asked for, at most one half
  std::int64_t too_large = 0;  // of those evaluated: do not fit
  std::int64_t refused = 0;    // by the trainer, of those that it was asked about
  // When nothing fits, and the question asks for it: the accepted layout that needs least.
  std::optional<PlannedLayout> smallest;
  std::optional<Refusal> refusal;  // when all are refused
  // If asked for: the fastest with more risk, up to kEvenOdds, at least kMargin below the best.
  std::optional<PlannedLayout> riskier;
  // If asked for and proven: the fastest with more memory, as fastest_with_memory has it; the first
  // of `best` where none is faster.
  std::optional<PlannedLayout> with_more_memory;
  // Where the question asks to remember them: in the order in which they were met, and why the
  // trainer refused others, most frequent first.
  std::vector<Considered> considered;
  std::vector<Refusal> refusals;
};
Result<SearchResult> search(const SearchQuestion& question);
// One layout as the referee has it: no caches, with a replay. Nobody asks whether it is accepted.
Result<PlannedLayout> planned(const SearchQuestion& question, const Layout& layout);

// The whole space, in a fixed order. Not yet asked whether the trainer accepts it.
std::vector<Layout> list_layouts(const SearchQuestion& question);
std::int64_t count_layouts(const SearchQuestion& question);  // of them, without making any
// Axes of `Also` of which the trainer offers a choice that this search leaves alone.
std::vector<std::string> not_looked_at(const SearchQuestion& question);

// What is taken from recipes for this question: "bf16-gradients".
std::vector<std::string> taken_from_recipes(const SearchQuestion& question);

Json to_json(const SearchResult& result);

}  // namespace trainwright

// The rest of the public face, one idea each; include this header only.
#include "trainwright/search/batches.h"    // batches and sizes that divide better
#include "trainwright/search/own_order.h"  // an order of actions made for a layout
#include "trainwright/search/recommend.h"  // which of the best is to be run
#include "trainwright/search/sizes.h"      // other numbers of accelerators
