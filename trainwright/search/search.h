#pragma once
// Which layouts to run: list them, drop what does not fit, rank the rest.
//
// Listed are all products tp x pp x cp x dp of the cluster whose parts divide what they split, with
// every micro-batch, number of chunks, kind of recompute and of sharding that the trainer offers.
// A layout is dropped when the chance that its fullest rank runs out of memory is above `risk`. The
// rest are ranked by a rough time model, in which nothing overlaps and nothing is measured:
//
//   step = (m + (p - 1) / v) x t + d
//   t   the slowest pipeline rank's time for one micro-batch: FLOPs at half of the peak, and every
//       collective's bytes over the slowest link its group spans
//   d   what data parallelism moves once a step, likewise
//
// m micro-batches, p pipeline ranks, v chunks (the bubble of interleaved 1F1B, arXiv:2104.04473).
// It puts layouts into an order; it does not predict a run.
//
// Cost: O(layouts) memory and time evaluations of some microseconds each; the trainer's rules are
// asked and the allocator is replayed for the best few only.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/memory/memory.h"

namespace trainwright {

struct SearchQuestion {
  const Model& model;
  const Cluster& cluster;
  const Trainer& trainer;
  const Job& job;
  std::int64_t gbs = 1;  // sequences in a step
  std::int64_t seq = 1;  // tokens in a sequence
  PrecisionKind precision = PrecisionKind::Bf16;
  const MemoryConstants& constants;
  double risk = kUsualRisk;  // highest chance of running out of memory that still counts as fitting
  std::size_t most = 10;  // layouts to report
};

// Seconds of a step by part; they add up to `step`.
struct RoughTime {
  Seconds step, compute, bubble, tensor, context, expert, data, pipeline;
};
// Of a layout whose layers can be dealt out.
RoughTime rough_time(const SearchQuestion& question, const Layout& layout, WorkCache& work);

struct PlannedLayout {
  Layout layout;
  RoughTime time;
  double mfu = 0;  // by the rough time, of the gradients that the job makes and the pairs of
                   // attention below the diagonal
  MemoryEstimate memory;
};

struct SearchResult {
  std::vector<PlannedLayout> best;  // fastest first; equal times in order of their text
  // What became of the layouts: listed = too_large + refused + not_asked, of which the last are
  // slower than the reported ones, whose number is included.
  std::int64_t listed = 0;
  std::int64_t too_large = 0;  // more memory than there is
  std::int64_t refused = 0;    // by the trainer, among those that were asked about
  std::int64_t not_asked = 0;
  // When nothing fits: the layout that needs least.
  std::optional<PlannedLayout> smallest;
};
Result<SearchResult> search(const SearchQuestion& question);

// Every layout that divides, in a fixed order. Not yet asked whether the trainer accepts it.
std::vector<Layout> list_layouts(const SearchQuestion& question);

Json to_json(const SearchResult& result);

}  // namespace trainwright
