#pragma once
// Why this layout and not another. Part of search.h: include that one.
#include <optional>
#include <string>
#include <vector>

#include "trainwright/layout/layout.h"
#include "trainwright/memory/memory.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright {

struct SearchQuestion;
struct PlannedLayout;

// A layout that somebody asks about: what forbids it, or its time and memory.
struct Judged {
  Layout layout;
  std::vector<LayoutViolation> refused = {};
  std::optional<StepTime> time = {};
  std::optional<MemoryEstimate> memory = {};
};
Result<Judged> judged(const SearchQuestion& question, const Layout& layout);

// What one step aside would do: each degree, the micro-batch and the chunks halved and doubled, the
// next cheaper and dearer way to recompute and to share weights. The accelerators stay the same, dp
// takes what is left. Where that does not divide there is none. O(20) estimates with a replay.
struct Neighbour {
  std::string knob;      // "tp", "recompute"
  std::string from, to;  // "1", "full"
  Judged judged;
};
Result<std::vector<Neighbour>> neighbours(const SearchQuestion& question, const Layout& layout);

// The same, but that every accelerator has so many times the memory.
Cluster with_memory(Cluster cluster, double times);
// The fastest layout if every accelerator had so many times the memory; nullopt if none fits.
Result<std::optional<PlannedLayout>> fastest_with_memory(const SearchQuestion& question,
                                                         double times);

// By how much parts of b's step are longer than a's, largest difference first.
std::vector<std::pair<TimePart, Seconds>> differences(const StepTime& a, const StepTime& b);

}  // namespace trainwright
