// The rules of PaddlePaddle's AutoGrowthBestFitAllocator, one per stream, under its
// StreamSafeCUDAAllocator.
#include <algorithm>

#include "trainwright/allocator/state.h"

namespace trainwright::detail {
namespace {

// GpuMinChunkSize. A chunk is asked for with this much more, so that its start could be aligned; as
// the device's addresses are aligned already, the excess is a free block at its front.
constexpr std::int64_t kAlignment = 256;

FreeBlocks& blocks_of(AllocatorState& state, std::int32_t stream) {
  return state.large.free_on(stream);
}

void release_idle(AllocatorState& state, const FreeBlocks& free) {
  std::vector<std::int32_t> idle;
  for (const FreeBlock& entry : free) {
    if (is_whole_segment(state.at(entry.block))) {
      idle.push_back(entry.block);
    }
  }
  // Chunks are kept in the order in which they were made, which is the order of their addresses.
  std::sort(idle.begin(), idle.end(), [&](std::int32_t a, std::int32_t b) {
    return state.at(a).address < state.at(b).address;
  });
  for (const std::int32_t block : idle) release_segment(state, block);
}

std::int32_t new_chunk(AllocatorState& state, std::int64_t size, std::int32_t stream) {
  const std::int64_t chunk =
      std::max(size, ceil_div(state.settings.chunk_size.value(), kAlignment) * kAlignment) +
      kAlignment;
  std::int32_t block = new_segment(state, chunk, stream, false);
  if (block != kNone) return block;
  release_idle(state, blocks_of(state, stream));
  ++state.stats.retries;
  block = new_segment(state, chunk, stream, false);
  if (block != kNone) return block;
  empty_cache_paddle(state);
  return new_segment(state, chunk, stream, false);
}

}  // namespace

void empty_cache_paddle(AllocatorState& state) {
  free_waiting(state);
  for (const auto& free : state.large.free) release_idle(state, *free);
}

std::int32_t allocate_paddle(AllocatorState& state, std::int64_t requested, std::int32_t stream) {
  free_ready(state);
  const std::int64_t size = ceil_div(requested, kAlignment) * kAlignment;
  FreeBlocks& free = blocks_of(state, stream);
  const auto found = free.lower_bound({size, 0, kNone});
  std::int32_t block = kNone;
  if (found != free.end()) {
    block = found->block;
    free.erase(found);
  } else {
    block = new_chunk(state, size, stream);
  }
  if (block == kNone) return kNone;
  const std::int64_t rest = state.at(block).size - size;
  if (rest > 0) insert_free(state, split_front(state, block, rest));
  return block;
}

}  // namespace trainwright::detail
