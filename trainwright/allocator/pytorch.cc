// The rules of PyTorch's CUDACachingAllocator.cpp.
#include <algorithm>
#include <bit>

#include "trainwright/allocator/state.h"

namespace trainwright::detail {
namespace {

constexpr std::int64_t kMinBlock = 512;
constexpr std::int64_t kSmallSize = kMiB;            // the largest request of the small pool
constexpr std::int64_t kSmallSegment = 2 * kMiB;     // a segment of the small pool
constexpr std::int64_t kOwnSegment = 10 * kMiB;      // from here on a request gets its own segment
constexpr std::int64_t kOwnSegmentRound = 2 * kMiB;  // of a size rounded up to this

struct Request {
  std::int64_t size = 0;     // rounded
  std::int64_t segment = 0;  // of a new segment for it
  std::int32_t stream = 0;
  bool small = false;
};

// Up to the next of d equal steps inside the power-of-two interval the size lies in.
std::int64_t round_to_division(std::int64_t size, std::int64_t divisions) {
  const auto floor = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size)));
  const std::int64_t step = floor / divisions;
  return ceil_div(size, step) * step;
}

std::int64_t rounded(const AllocatorSettings& settings, std::int64_t requested) {
  if (requested < kMinBlock) return kMinBlock;
  // Entry i holds for sizes from 1 MiB << i; the first and last reach to the ends.
  const int log2 = 63 - std::countl_zero(static_cast<std::uint64_t>(requested));
  const auto interval = static_cast<std::size_t>(std::clamp(log2 - 20, 0, 15));
  const std::int64_t divisions = settings.roundup_power2_divisions[interval];
  if (divisions > 1 && requested > kMinBlock * divisions) {
    return round_to_division(requested, divisions);
  }
  return ceil_div(requested, kMinBlock) * kMinBlock;
}

Request request_for(const AllocatorSettings& settings, std::int64_t requested,
                    std::int32_t stream) {
  Request request;
  request.size = rounded(settings, requested);
  request.small = request.size <= kSmallSize;
  request.stream = stream;
  if (request.small) {
    request.segment = kSmallSegment;
  } else if (request.size < kOwnSegment) {
    request.segment = settings.large_segment.value();
  } else {
    request.segment = ceil_div(request.size, kOwnSegmentRound) * kOwnSegmentRound;
  }
  return request;
}

bool collects_garbage(const AllocatorState& state) {
  return state.settings.memory_fraction.has_value() &&
         state.settings.garbage_collection_threshold > 0;
}

// What a free block of an expandable segment can grow to.
std::int64_t expandable_size(const AllocatorState& state, std::int32_t block) {
  const BlockNode& node = state.at(block);
  if (node.next == kNone) return node.size;
  const BlockNode& next = state.at(node.next);
  return node.size + (next.mapped ? 0 : next.size);
}

FreeBlocks& blocks_for(AllocatorState& state, const Request& request) {
  return (request.small ? state.small : state.large).free_on(request.stream);
}

// Takes the best free block out of its set; kNone if there is none or it must not be used.
std::int32_t take_free(AllocatorState& state, const Request& request) {
  if (collects_garbage(state)) ++(request.small ? state.small : state.large).searches;
  FreeBlocks& free = blocks_for(state, request);
  auto found = free.lower_bound({request.size, 0, kNone});
  if (found == free.end()) return kNone;
  if (state.settings.expandable_segments) {
    // A block before unmapped space counts with what it can grow to, so a larger one may fit
    // better.
    for (auto next = std::next(found);
         next != free.end() &&
         expandable_size(state, next->block) < expandable_size(state, found->block);
         ++next) {
      found = next;
    }
  }
  if (request.size < state.max_split_size && found->size >= state.max_split_size) return kNone;
  if (request.size >= state.max_split_size &&
      found->size >= request.size + state.settings.max_non_split_rounding.value()) {
    return kNone;
  }
  const std::int32_t block = found->block;
  free.erase(found);
  return block;
}

// Frees cached segments of the large pool that are at least as old as the mean, again and again
// until the reserved bytes are under the threshold. Age is counted in searches of the pool.
void collect_garbage(AllocatorState& state) {
  const auto threshold = static_cast<std::int64_t>(state.settings.garbage_collection_threshold *
                                                   static_cast<double>(state.allowed));
  std::vector<std::int32_t> old;
  double age_sum = 0;
  const auto age = [&](std::int32_t block) {
    return static_cast<double>(state.large.searches - state.at(block).searches_when_freed);
  };
  if (state.stats.reserved.value() <= threshold) return;
  for (const auto& free : state.large.free) {
    for (const FreeBlock& entry : *free) {
      if (!is_whole_segment(state.at(entry.block))) continue;
      old.push_back(entry.block);
      age_sum += age(entry.block);
    }
  }
  while (state.stats.reserved.value() > threshold && !old.empty()) {
    const double mean = age_sum / static_cast<double>(old.size());
    std::vector<std::int32_t> young;
    for (const std::int32_t block : old) {
      if (age(block) < mean) {
        young.push_back(block);
        continue;
      }
      age_sum -= age(block);
      release_segment(state, block);
      ++state.stats.garbage_collected;
    }
    if (young.size() == old.size()) return;
    old = std::move(young);
  }
}

// With max_split_size: frees one cached block that is large enough, or several from the largest
// down. False when that is not enough for the request.
bool release_oversize(AllocatorState& state, const Request& request) {
  if (state.max_split_size == INT64_MAX) return false;
  FreeBlocks& free = blocks_for(state, request);
  const std::int64_t wanted = std::max(request.size, state.max_split_size);
  const auto enough = free.lower_bound({wanted, 0, kNone});
  const auto releasable = [&](const FreeBlock& entry) {
    return is_whole_segment(state.at(entry.block));
  };
  if (enough != free.end() && releasable(*enough)) {
    release_segment(state, enough->block);
    return true;
  }
  std::vector<std::int32_t> largest;
  std::int64_t released = 0;
  for (auto it = std::make_reverse_iterator(enough); it != free.rend(); ++it) {
    if (released >= wanted || it->size < state.max_split_size) break;
    if (!releasable(*it)) continue;
    released += it->size;
    largest.push_back(it->block);
  }
  for (const std::int32_t block : largest) release_segment(state, block);
  return released >= wanted;
}

void release_pool(AllocatorState& state, BlockPool& pool) {
  std::vector<std::int32_t> whole, expandable;
  for (const auto& free : pool.free) {
    for (const FreeBlock& entry : *free) {
      const BlockNode& node = state.at(entry.block);
      if (node.expandable) expandable.push_back(entry.block);
      if (is_whole_segment(node)) whole.push_back(entry.block);
    }
  }
  for (const std::int32_t block : whole) release_segment(state, block);
  for (const std::int32_t block : expandable) unmap_expandable(state, block);
}

std::int32_t from_device(AllocatorState& state, const Request& request) {
  if (!state.settings.expandable_segments) {
    return new_segment(state, request.segment, request.stream, request.small);
  }
  // PyTorch compares with the size a plain segment would have, and only when a fraction is set.
  if (state.settings.memory_fraction && !device_has(state, request.segment)) return kNone;
  return map_expandable(state, request.size, request.stream, request.small);
}

std::int32_t find_block(AllocatorState& state, const Request& request) {
  std::int32_t block = take_free(state, request);
  if (block != kNone) return block;
  if (collects_garbage(state)) collect_garbage(state);
  block = from_device(state, request);
  if (block == kNone && release_oversize(state, request)) block = from_device(state, request);
  if (block == kNone) {
    empty_cache_pytorch(state);
    ++state.stats.retries;
    block = from_device(state, request);
  }
  return block;
}

bool worth_splitting(const AllocatorState& state, const Request& request, std::int64_t rest) {
  if (request.small || state.settings.expandable_segments) return rest >= kMinBlock;
  return request.size < state.max_split_size && rest > kSmallSize;
}

}  // namespace

void empty_cache_pytorch(AllocatorState& state) {
  free_waiting(state);
  release_pool(state, state.large);
  release_pool(state, state.small);
}

std::int32_t allocate_pytorch(AllocatorState& state, std::int64_t requested, std::int32_t stream) {
  free_ready(state);
  const Request request = request_for(state.settings, requested, stream);
  std::int32_t block = find_block(state, request);
  if (block == kNone) return kNone;
  const std::int64_t rest = state.at(block).size - request.size;
  if (worth_splitting(state, request, rest)) {
    const std::int32_t front = split_front(state, block, request.size);
    insert_free(state, block);
    block = front;
  }
  return block;
}

}  // namespace trainwright::detail
