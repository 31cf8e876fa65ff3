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
  RealBytes product_workspace;   // of one thread
  bool experts_overlap = false;  // their all-to-all behind another micro-batch
  bool graphs = false;           // passes run from one CUDA graph, with a pool of its own
  bool part_graphs = false;      // or parts of layers do
};
Result<LayoutRules> layout_rules(const Layout& layout, const Job& job, const Trainer& trainer,
                                 const Cluster& cluster);
// Of layouts that differ in their pipeline alone the rules differ in the moments alone.
Result<MomentKey> moment_key(const Layout& layout, const LayoutRules& rules);

// One content of an inventory, and what each chunk that has it adds to its rank.
struct ContentTerms {
  const ChunkBytes* bytes = nullptr;
  ChunkTerms chunk;
  bool whole = false;   // all_whole(chunk)
  RealBytes transport;  // buffers between stages that stand
  RealBytes left;       // by the last micro-batch until the next one begins
  bool own_products = false;
};
ContentTerms content_terms(const ChunkBytes& bytes, const StageContent& content,
                           const LayoutRules& rules);

// A group of pipeline ranks that hold the same.
struct GroupTerms {
  TermsOfChunks chunks;    // of the contents that they were filled from
  TermsOfChunks distinct;  // of `chunks`, as PipelineGroup has them
  bool whole = false;      // all of them are
  States states;
  RealBytes transport;          // buffers between stages that stand
  RealBytes stand_ins;          // empty gradients that stand
  RealBytes workspaces;         // of libraries
  RealBytes left;               // by the last micro-batch and the step until the next one begins
  RealBytes left_behind;        // logits of other micro-batches than those in flight
  RealBytes step;               // alive at the step beside what stands
  RealBytes largest;            // peak of the largest list by itself
  RealBytes gather_buffers;     // of products over tp: all lists share them
  RealBytes product_workspace;  // of the threads that run forward and backward
  RealBytes graphs;             // temporaries that stay in the pool of graphs of parts
  RealBytes beside;             // of a forward pass, layer by layer beside a backward pass
  bool shares_embedding = false;
};
// Overwrites `terms`, so that a search allocates nothing; `contents` of the inventory, of which
// those of the group are read.
void fill_terms(GroupTerms& terms, const PipelineGroup& group,
                std::span<const ContentTerms> contents, const LayoutRules& rules);

// What stands all step: whole bytes; 0 in the categories that come and go.
using CategoryBytes = std::array<RealBytes, kCategories>;
CategoryBytes standing_bytes(const GroupTerms& terms);

// Beside the highest moment of the passes, and not when the optimizer steps.
RealBytes beside_passes(const GroupTerms& terms, const LayoutRules& rules);
struct ClassPeak {
  RealBytes coming;        // alive at the peak beside what stands
  RealBytes moments;       // the same before the step begins
  bool at_step = false;    // else
  std::size_t moment = 0;  // of the given moments
};
ClassPeak class_peak(const GroupTerms& terms, const Moments& moments, const LayoutRules& rules);
// ClassPeak::coming alone, from the same moments summed up by content where that is exact.
RealBytes coming_at_peak(const GroupTerms& terms, const Moments& moments, const MomentSums& sums,
                         const LayoutRules& rules);
// The parts of `peak.coming`.
CategoryBytes coming_bytes(const GroupTerms& terms, const Moments& moments,
                           const LayoutRules& rules, const ClassPeak& peak);

}  // namespace trainwright::detail
