#pragma once
// Private: what a caching allocator reserves for the step of one class of ranks.
//
// Two steps are played through the allocator, action by action and tensor by tensor: what stands is
// there first, the optimizer's states come at the end of the first step, when the cache is already
// cut up by activations (PyTorch's and Transformer Engine's Adam make them lazily), and the second
// step has to live with that. Of a steady state a few rounds are played. All on one stream, but for
// what a collective used: it is free again when the device has come by, that is when the host has
// launched `lead` kernels more (every tensor made stands for one kernel), and for what FSDP2 makes
// on streams of its own.
#include <map>
#include <span>
#include <vector>

#include "trainwright/allocator/allocator.h"
#include "trainwright/memory/peak.h"

namespace trainwright::detail {

// In the order they are made, one each; empty gradients that the list leaves.
struct ListWeights {
  std::vector<HeldWeight> tensors;
  StandIns stand_ins;
};

// A chunk as a program: its lists in the order of the layers.
struct ChunkProgram {
  std::vector<const StorageEvents*> lists;
  std::vector<const ListWeights*> weights;    // of each list, then those of no list
  std::vector<const PortionBytes*> portions;  // of each list
  const StageContent* content = nullptr;
  const ChunkBytes* bytes = nullptr;
};

struct ReserveQuestion {
  std::span<const ChunkProgram> chunks;    // of the rank
  std::span<const Action> actions;         // of the rank, all of them
  std::span<const std::int32_t> chunk_of;  // by stage
  const GroupTerms& terms;
  const LayoutRules& rules;
  AllocatorSettings settings;
  double lead = 0;  // kernels
};
struct Reserved {
  Bytes requested, allocated, reserved;   // the most of each; requested: in the steps
  Bytes first_requested, first_reserved;  // the same of the first step, with the states it ends in
  std::int64_t calls = 0;                 // of the allocator
};
Reserved replay_class(const ReserveQuestion& question);

AllocatorSettings allocator_settings(const Trainer& trainer);

}  // namespace trainwright::detail
