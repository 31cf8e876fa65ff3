#pragma once
// Which layouts to run: list them, drop what does not fit, rank the rest.
//
// Listed are all products tp x pp x cp x dp of the cluster whose parts divide what they split, with
// every micro-batch, number of chunks, kind of recompute and of sharding that the trainer offers.
// Reported is what fits (chance.h): the chance that some rank runs out of memory is at most `risk`.
// They are ranked by their step time (simulate.h). In a cluster of several kinds of accelerators
// every rank has the memory, the peak and the links of the smallest and slowest.
//
// Cost: O(layouts) memory and time evaluations of some microseconds each; the trainer's rules are
// asked and the allocator is replayed for the best few only.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/parallel.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/memory/memory.h"
#include "trainwright/search/limits.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright {

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
  Threads threads = {};
};
// The first of bf16, fp16 and fp32 that all accelerators multiply and the trainer offers.
PrecisionKind usual_precision(const Cluster& cluster, const Trainer& trainer);

// A layout that fits, with slower ones of its family: those that differ in the number of chunks
// and in how layers are dealt out alone.
struct PlannedLayout {
  Layout layout;
  StepTime time;
  MemoryEstimate memory;
  std::vector<std::pair<Layout, Seconds>> alike = {};  // that fit, and their step times
};

// Why there are no further layouts.
enum class SearchEnd : std::uint8_t {
  Found,           // `best` are the fastest that fit
  NothingFits,     // `smallest` needs least
  AllRefused,      // the trainer accepts none; `refusal` says why
  NothingDivides,  // batch, model and cluster have no common divisors
};
std::string_view name_of(SearchEnd end);  // "found", "nothing-fits", ...

// What speaks against most of the refused layouts, in the words it has for the first of them.
struct Refusal {
  LayoutViolation violation;
  std::int64_t layouts = 0;  // it speaks against
  std::int64_t refused = 0;  // of so many
};

// With other runs of a source measured, half of its predictions are off by 2 to 6 % (docs/time.md).
inline constexpr double kMargin = 0.05;

struct SearchResult {
  SearchEnd end = SearchEnd::Found;
  // Of each family the fastest, fastest first; equal times in order of their text.
  std::vector<PlannedLayout> best;
  // Of these the simplest that takes at most kMargin longer than the first: the fewest ways of
  // splitting, then the least chance of OOM. Predictions do not tell such layouts apart.
  std::size_t recommended = 0;
  // What became of the layouts: listed = best + alike + tight + too_large + refused + not_asked.
  // Most are judged without a replay, which could only be worse for them.
  std::int64_t listed = 0;
  std::int64_t tight = 0;      // more risk than asked for, but at most one half
  std::int64_t too_large = 0;  // does not fit
  std::int64_t refused = 0;    // by the trainer, among those that fit and were asked about
  std::int64_t not_asked = 0;  // slower than the reported ones
  // When nothing fits: the accepted layout that needs least.
  std::optional<PlannedLayout> smallest;
  std::optional<Refusal> refusal;  // when all are refused
};
Result<SearchResult> search(const SearchQuestion& question);

// Every layout that divides, in a fixed order. Not yet asked whether the trainer accepts it.
std::vector<Layout> list_layouts(const SearchQuestion& question);

Json to_json(const SearchResult& result);

}  // namespace trainwright
