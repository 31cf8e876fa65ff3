#pragma once
// What was read of memory, and what it means. Part of measured.h: include that one.
#include <cstdint>
#include <string_view>

#include "trainwright/base/units.h"

namespace trainwright {

// Allocated, Reserved: peaks of the caching allocator. Driver: what nvidia-smi shows, with context
// and communicators. Static: allocated between steps, so weights, gradients and states.
// Activations: what is kept for the backward pass. Unstated: the source does not say whether
// allocated or reserved.
enum class MemoryKind { Allocated, Reserved, Driver, Static, Activations, Unstated };
std::string_view name_of(MemoryKind kind);  // "allocated"

// Whose memory: the largest of all ranks, one rank, or every rank of one pipeline rank.
enum class ReadAt { WorstRank, Rank, PipelineRank };
std::string_view name_of(ReadAt at);  // "worst-rank"

struct MemoryReading {
  MemoryKind kind = MemoryKind::Allocated;
  ReadAt at = ReadAt::WorstRank;
  std::int64_t index = 0;  // of the rank or pipeline rank
  Bytes size;
  Bytes rounding;  // half of the last digit printed: a difference below it means nothing
  friend bool operator==(const MemoryReading&, const MemoryReading&) = default;
};

}  // namespace trainwright
