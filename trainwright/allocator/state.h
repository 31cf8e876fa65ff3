#pragma once
// What an allocator holds: blocks in a vector, linked to their neighbours in the same segment, and
// the free ones in order of size. Private to the module.
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "trainwright/allocator/allocator.h"
#include "trainwright/allocator/free_blocks.h"

namespace trainwright::detail {

constexpr std::int32_t kNone = -1;
constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kPage = 2 * kMiB;  // what CUDA hands out, and the gap between segments
// Addresses stay below this; a segment that would reach it is refused like any other.
constexpr std::int64_t kAddressEnd = std::int64_t{1} << 62;

struct BlockNode {
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t requested = 0;
  std::int64_t searches_when_freed = 0;  // of its pool, for the age of a cached block
  std::int32_t previous = kNone;         // neighbours in the same segment
  std::int32_t next = kNone;
  std::int32_t stream = 0;
  std::int32_t waits = 0;  // streams that must finish before it is free
  BlockState state = BlockState::Free;
  bool small = false;
  bool expandable = false;
  bool mapped = true;  // false: address space of an expandable segment without memory behind it
};

struct BlockPool {
  FreeBlocks& free_on(std::int32_t stream) {
    const auto at = static_cast<std::size_t>(stream);
    while (at >= free.size()) free.push_back(std::make_unique<FreeBlocks>());
    return *free[at];
  }
  std::vector<std::unique_ptr<FreeBlocks>> free;               // by stream
  std::vector<std::map<std::int64_t, std::int32_t>> unmapped;  // by stream: address -> block
  std::int64_t searches = 0;
};

struct AllocatorState {
  AllocatorSettings settings;
  std::int64_t allowed = 0;         // bytes the device gives at most
  std::int64_t max_split_size = 0;  // INT64_MAX when there is none

  std::vector<BlockNode> blocks;
  std::vector<std::int32_t> unused;  // places in `blocks` to use again
  BlockPool small, large;
  std::int64_t next_address = kPage;

  std::map<std::int32_t, std::set<std::int32_t>> used_on;  // block -> other streams
  // Freed blocks that wait for a stream, oldest first, and how many of them need wait no longer.
  struct Waiting {
    std::deque<std::int32_t> blocks;
    std::size_t ready = 0;
  };
  std::map<std::int32_t, Waiting> waiting;  // by stream
  bool any_ready = false;

  AllocatorStats stats;
  bool events_kept = false;
  std::vector<SegmentEvent> events;
  std::string message;

  BlockNode& at(std::int32_t block) { return blocks[static_cast<std::size_t>(block)]; }
  const BlockNode& at(std::int32_t block) const { return blocks[static_cast<std::size_t>(block)]; }
  BlockPool& pool_of(const BlockNode& node) { return node.small ? small : large; }
};

// Blocks and their neighbours (blocks.cc).
std::int32_t new_block(AllocatorState& state, const BlockNode& node);
void insert_free(AllocatorState& state, std::int32_t block);
void erase_free(AllocatorState& state, std::int32_t block);
// Cuts the first `size` bytes off as a block of their own, which is returned; both stay out of the
// free sets.
std::int32_t split_front(AllocatorState& state, std::int32_t block, std::int64_t size);
// Makes an unused block free and merges it with free neighbours.
void make_free(AllocatorState& state, std::int32_t block);
void merge_neighbours(AllocatorState& state, std::int32_t block);
bool is_whole_segment(const BlockNode& node);

// The device (blocks.cc). Whether it has `size` more bytes.
bool device_has(const AllocatorState& state, std::int64_t size);
// A new segment as one block, not in any free set; kNone when the device is full.
std::int32_t new_segment(AllocatorState& state, std::int64_t size, std::int32_t stream, bool small);
// Gives a whole free segment back.
void release_segment(AllocatorState& state, std::int32_t block);
void count_reserved(AllocatorState& state, std::int64_t address, std::int64_t size,
                    std::int32_t stream);

// Delayed frees (blocks.cc): of streams that completed, or of all streams.
void free_ready(AllocatorState& state);
void free_waiting(AllocatorState& state);

// One allocation by each strategy, and emptying the cache; kNone when the device is full.
std::int32_t allocate_pytorch(AllocatorState& state, std::int64_t requested, std::int32_t stream);
void empty_cache_pytorch(AllocatorState& state);
std::int32_t allocate_paddle(AllocatorState& state, std::int64_t requested, std::int32_t stream);
void empty_cache_paddle(AllocatorState& state);

// Expandable segments (expandable.cc): maps pages for a block of at least `size` bytes, which is
// taken out of the free set; unmaps the whole pages of a free block.
std::int32_t map_expandable(AllocatorState& state, std::int64_t size, std::int32_t stream,
                            bool small);
void unmap_expandable(AllocatorState& state, std::int32_t block);

}  // namespace trainwright::detail
