// Expandable segments: one large reservation of addresses per stream and pool, in which pages get
// memory behind them when they are needed.
#include <algorithm>

#include "trainwright/allocator/state.h"

namespace trainwright::detail {
namespace {

constexpr std::int64_t kSmallPage = 2 * kMiB;

std::int64_t page_size(const AllocatorState& state, bool small) {
  return small ? kSmallPage : state.settings.large_segment.value();
}

std::map<std::int64_t, std::int32_t>& unmapped_of(AllocatorState& state, std::int32_t stream,
                                                  bool small) {
  auto& lists = (small ? state.small : state.large).unmapped;
  const auto index = static_cast<std::size_t>(stream);
  if (index >= lists.size()) lists.resize(index + 1);
  return lists[index];
}

bool has_room(const AllocatorState& state, std::int32_t block, std::int64_t size) {
  std::int64_t room = 0;
  for (; room < size && block != kNone; block = state.at(block).next) {
    const BlockNode& node = state.at(block);
    if (node.state != BlockState::Free) break;
    room += node.size;
  }
  return room >= size;
}

// Addresses for 9/8 of the device, so that pages can be put at the end while earlier ones are still
// being given back.
std::int32_t new_reservation(AllocatorState& state, std::int32_t stream, bool small) {
  const std::int64_t page = page_size(state, small);
  const std::int64_t capacity = state.settings.capacity.value();
  const std::int64_t size = ceil_div(capacity + capacity / 8, page) * page;
  if (size > kAddressEnd - kPage - state.next_address) return kNone;
  BlockNode node;
  node.address = state.next_address;
  node.size = size;
  node.stream = stream;
  node.small = small;
  node.expandable = true;
  node.mapped = false;
  state.next_address += ceil_div(size, kPage) * kPage + kPage;
  const std::int32_t block = new_block(state, node);
  unmapped_of(state, stream, small).emplace(node.address, block);
  return block;
}

// The lowest unmapped place with room for `size`, or the free block just before it.
std::int32_t find_room(AllocatorState& state, std::int64_t size, std::int32_t stream, bool small) {
  for (const auto& [address, block] : unmapped_of(state, stream, small)) {
    const std::int32_t before = state.at(block).previous;
    const bool usable = before != kNone && state.at(before).state == BlockState::Free;
    const std::int32_t first = usable ? before : block;
    if (has_room(state, first, size)) return first;
  }
  const std::int32_t made = new_reservation(state, stream, small);
  return made != kNone && has_room(state, made, size) ? made : kNone;
}

// Puts memory behind the first `size` bytes of an unmapped block, rounded up to pages; the mapped
// part becomes a free block merged with its neighbours. False when the device is full.
bool map(AllocatorState& state, std::int32_t block, std::int64_t size) {
  const BlockNode before = state.at(block);
  const std::int64_t page = page_size(state, before.small);
  const std::int64_t bytes = ceil_div(size, page) * page;
  if (!device_has(state, bytes)) return false;
  auto& unmapped = unmapped_of(state, before.stream, before.small);
  unmapped.erase(before.address);
  if (bytes < before.size) {
    BlockNode rest = before;
    rest.address += bytes;
    rest.size -= bytes;
    rest.previous = block;
    const std::int32_t made = new_block(state, rest);
    if (rest.next != kNone) state.at(rest.next).previous = made;
    unmapped.emplace(rest.address, made);
    BlockNode& node = state.at(block);
    node.size = bytes;
    node.next = made;
  }
  state.at(block).mapped = true;
  merge_neighbours(state, block);
  insert_free(state, block);
  count_reserved(state, before.address, bytes, before.stream);
  return true;
}

// Cuts a part off a free block and leaves it in the free set.
std::int32_t keep_front(AllocatorState& state, std::int32_t block, std::int64_t size) {
  const std::int32_t front = split_front(state, block, size);
  insert_free(state, front);
  return block;
}

}  // namespace

std::int32_t map_expandable(AllocatorState& state, std::int64_t size, std::int32_t stream,
                            bool small) {
  std::int32_t block = find_room(state, size, stream, small);
  if (block == kNone) return kNone;
  const auto node = [&]() -> const BlockNode& { return state.at(block); };
  if (!node().mapped && !map(state, block, std::min(node().size, size))) return kNone;
  while (node().size < size) {
    const std::int32_t next = node().next;
    const std::int64_t missing = size - node().size;
    const std::int64_t room = state.at(next).size;
    // The mapped block takes in the free one before it, so it stands for both from here on.
    if (!map(state, next, std::min(missing, room))) return kNone;
    block = next;
  }
  erase_free(state, block);
  return block;
}

void unmap_expandable(AllocatorState& state, std::int32_t block) {
  BlockNode node = state.at(block);
  const std::int64_t page = page_size(state, node.small);
  // Pages are counted from the segment's first address, which lies on a multiple of kPage only.
  std::int32_t first = block;
  while (state.at(first).previous != kNone) {
    first = state.at(first).previous;
  }
  const std::int64_t base = state.at(first).address;
  const std::int64_t begin = base + ceil_div(node.address - base, page) * page;
  const std::int64_t end = base + (node.address + node.size - base) / page * page;
  if (begin >= end) return;
  erase_free(state, block);
  if (begin > node.address) block = keep_front(state, block, begin - node.address);
  node = state.at(block);
  if (end < node.address + node.size) {
    const std::int32_t front = split_front(state, block, end - node.address);
    insert_free(state, block);
    block = front;
  }
  BlockNode& gone = state.at(block);
  count_reserved(state, gone.address, -gone.size, gone.stream);
  gone.mapped = false;
  merge_neighbours(state, block);
  const BlockNode& merged = state.at(block);
  unmapped_of(state, merged.stream, merged.small).emplace(merged.address, block);
}

}  // namespace trainwright::detail
