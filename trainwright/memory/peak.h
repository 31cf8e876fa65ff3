#pragma once
// Private: the bytes of one class of ranks, the same for a single estimate and for a search.
#include <cstdint>
#include <span>
#include <vector>

#include "trainwright/memory/memory.h"
#include "trainwright/memory/terms.h"
#include "trainwright/memory/workspaces.h"

namespace trainwright::detail {

// What a layout says about memory, whatever the stage.
struct LayoutRules {
  StateRules states;
  PipelineRules pipeline;
  MomentKey moments;
  std::int64_t microbatches = 1;
  Workspaces workspaces;
  double gathered_head = 0;      // times its input: a buffer that stays
  double product_workspace = 0;  // of one thread
};
Result<LayoutRules> layout_rules(const Layout& layout, const Job& job, const Trainer& trainer,
                                 const Cluster& cluster);

// A group of pipeline ranks that hold the same.
struct GroupTerms {
  std::vector<ChunkTerms> chunks;
  States states;
  double transport = 0;          // buffers between stages that stand
  double stand_ins = 0;          // empty gradients that stand
  double workspaces = 0;         // of libraries
  double left = 0;               // by the last micro-batch and the step until the next one begins
  double left_behind = 0;        // logits of other micro-batches than those in flight
  double step = 0;               // alive at the step beside what stands
  double largest = 0;            // peak of the largest list by itself
  double gather_buffers = 0;     // of products over tp: all lists share them
  double product_workspace = 0;  // of the threads that run forward and backward
  bool shares_embedding = false;
};
// Overwrites `terms`, so that a search allocates nothing.
void fill_terms(GroupTerms& terms, const PipelineGroup& group, const Partition& partition,
                std::span<const ChunkBytes> bytes, const LayoutRules& rules);

// What stands all step: whole bytes, as doubles; 0 in the categories that come and go.
using CategoryNumbers = std::array<double, kCategories>;
CategoryNumbers standing_bytes(const GroupTerms& terms);

struct ClassPeak {
  double coming = 0;       // alive at the peak beside what stands
  double moments = 0;      // the same before the step begins
  bool at_step = false;    // else
  std::size_t moment = 0;  // of the given moments
};
ClassPeak class_peak(const GroupTerms& terms, const Moments& moments, const LayoutRules& rules);
// The parts of `peak.coming`.
CategoryNumbers coming_bytes(const GroupTerms& terms, const Moments& moments,
                             const LayoutRules& rules, const ClassPeak& peak);

}  // namespace trainwright::detail
