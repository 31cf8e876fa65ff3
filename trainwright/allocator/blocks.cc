// Blocks, their neighbours, and what the device has given.
#include <algorithm>

#include "trainwright/allocator/state.h"
#include "trainwright/base/check.h"

namespace trainwright::detail {

std::int32_t new_block(AllocatorState& state, const BlockNode& node) {
  if (!state.unused.empty()) {
    const std::int32_t block = state.unused.back();
    state.unused.pop_back();
    state.at(block) = node;
    return block;
  }
  state.blocks.push_back(node);
  return static_cast<std::int32_t>(state.blocks.size() - 1);
}

void insert_free(AllocatorState& state, std::int32_t block) {
  BlockNode& node = state.at(block);
  BlockPool& pool = state.pool_of(node);
  node.searches_when_freed = pool.searches;
  pool.free_on(node.stream).insert({node.size, node.address, block});
}

void erase_free(AllocatorState& state, std::int32_t block) {
  const BlockNode& node = state.at(block);
  state.pool_of(node).free_on(node.stream).erase({node.size, node.address, block});
}

std::int32_t split_front(AllocatorState& state, std::int32_t block, std::int64_t size) {
  BlockNode front = state.at(block);
  front.size = size;
  front.next = block;
  const std::int32_t made = new_block(state, front);
  BlockNode& rest = state.at(block);
  rest.previous = made;
  rest.address += size;
  rest.size -= size;
  if (front.previous != kNone) state.at(front.previous).next = made;
  return made;
}

namespace {

// Takes a free neighbour into the block, if it is one and both have memory behind them or neither.
void absorb(AllocatorState& state, std::int32_t block, std::int32_t neighbour) {
  if (neighbour == kNone) return;
  BlockNode& node = state.at(block);
  const BlockNode& other = state.at(neighbour);
  if (other.state != BlockState::Free || other.mapped != node.mapped) return;
  if (other.mapped) {
    erase_free(state, neighbour);
  } else {
    state.pool_of(other).unmapped[static_cast<std::size_t>(other.stream)].erase(other.address);
  }
  if (neighbour == node.previous) {
    node.address = other.address;
    node.previous = other.previous;
    if (node.previous != kNone) state.at(node.previous).next = block;
  } else {
    node.next = other.next;
    if (node.next != kNone) state.at(node.next).previous = block;
  }
  node.size += other.size;
  state.unused.push_back(neighbour);
}

}  // namespace

void merge_neighbours(AllocatorState& state, std::int32_t block) {
  absorb(state, block, state.at(block).previous);
  absorb(state, block, state.at(block).next);
}

void make_free(AllocatorState& state, std::int32_t block) {
  BlockNode& node = state.at(block);
  node.state = BlockState::Free;
  node.requested = 0;
  merge_neighbours(state, block);
  insert_free(state, block);
}

bool is_whole_segment(const BlockNode& node) {
  return node.previous == kNone && node.next == kNone && !node.expandable;
}

bool device_has(const AllocatorState& state, std::int64_t size) {
  return size <= state.allowed - state.stats.reserved.value();
}

void count_reserved(AllocatorState& state, std::int64_t address, std::int64_t size,
                    std::int32_t stream) {
  AllocatorStats& stats = state.stats;
  stats.reserved += Bytes(size);
  stats.reserved_peak = std::max(stats.reserved_peak, stats.reserved);
  ++(size > 0 ? stats.segments_made : stats.segments_freed);
  if (state.events_kept) state.events.push_back({address, size, StreamId(stream)});
}

std::int32_t new_segment(AllocatorState& state, std::int64_t size, std::int32_t stream,
                         bool small) {
  if (!device_has(state, size) || size > kAddressEnd - kPage - state.next_address) return kNone;
  BlockNode node;
  node.address = state.next_address;
  node.size = size;
  node.stream = stream;
  node.small = small;
  state.next_address += ceil_div(size, kPage) * kPage + kPage;
  count_reserved(state, node.address, size, stream);
  return new_block(state, node);
}

void release_segment(AllocatorState& state, std::int32_t block) {
  const BlockNode& node = state.at(block);
  TW_DCHECK(is_whole_segment(node) && node.state == BlockState::Free, "a free segment");
  erase_free(state, block);
  count_reserved(state, node.address, -node.size, node.stream);
  state.unused.push_back(block);
}

namespace {

void stop_waiting(AllocatorState& state, std::int32_t block) {
  BlockNode& node = state.at(block);
  if (--node.waits == 0) make_free(state, block);
}

}  // namespace

void free_ready(AllocatorState& state) {
  if (!state.any_ready) return;
  state.any_ready = false;
  for (auto& [stream, waiting] : state.waiting) {
    for (; waiting.ready > 0; --waiting.ready) {
      const std::int32_t block = waiting.blocks.front();
      waiting.blocks.pop_front();
      stop_waiting(state, block);
    }
  }
}

void free_waiting(AllocatorState& state) {
  for (auto& [stream, waiting] : state.waiting) waiting.ready = waiting.blocks.size();
  state.any_ready = true;
  free_ready(state);
}

}  // namespace trainwright::detail
