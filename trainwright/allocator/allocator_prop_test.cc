// What holds for every sequence of operations under every setting.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "trainwright/allocator/allocator.h"
#include "trainwright/base/random.h"

using namespace trainwright;
using namespace trainwright::literals;

namespace {

AllocatorSettings some_settings() {
  AllocatorSettings settings;
  settings.strategy = *rc::gen::element(AllocatorStrategy::PyTorch, AllocatorStrategy::Paddle);
  settings.capacity = Bytes(*rc::gen::inRange<std::int64_t>(1 << 20, 1 << 30));
  settings.expandable_segments = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) {
    settings.max_split_size = Bytes(*rc::gen::inRange<std::int64_t>(21 << 20, 100 << 20));
  }
  if (*rc::gen::arbitrary<bool>()) {
    settings.memory_fraction = 0.8;
    settings.garbage_collection_threshold = 0.5;
  }
  settings.roundup_power2_divisions.fill(*rc::gen::element(0, 1, 4, 16));
  return settings;
}

void check_segments(const Allocator& allocator, const AllocatorSettings& settings) {
  Bytes reserved, allocated, requested;
  std::int64_t end = 0;
  for (const Segment& segment : allocator.segments()) {
    RC_ASSERT(segment.address >= end);  // segments never overlap
    end = segment.address;
    bool free_before = false;
    for (const Block& block : segment.blocks) {
      RC_ASSERT(block.address == end);  // blocks lie side by side
      RC_ASSERT(block.size > 0_B);
      RC_ASSERT(block.requested <= block.size);
      const bool is_free = block.state == BlockState::Free;
      RC_ASSERT(!(is_free && free_before));  // free neighbours are merged
      free_before = is_free;
      end += block.size.value();
      if (block.state != BlockState::Allocated) continue;
      allocated += block.size;
      requested += block.requested;
    }
    RC_ASSERT(end == segment.address + segment.size.value());
    reserved += segment.size;
  }
  const AllocatorStats& stats = allocator.stats();
  RC_ASSERT(reserved == stats.reserved);
  RC_ASSERT(allocated == stats.allocated);
  RC_ASSERT(requested == stats.requested);
  RC_ASSERT(requested <= allocated && allocated <= reserved && reserved <= settings.capacity);
  RC_ASSERT(stats.reserved <= stats.reserved_peak && stats.allocated <= stats.allocated_peak);
}

}  // namespace

TEST_CASE("segments stay well-formed and the counts are sums over blocks") {
  CHECK(rc::check([] {
    const AllocatorSettings settings = some_settings();
    RC_PRE(check(settings).empty());
    Allocator allocator(settings);
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    std::vector<BlockId> live;
    for (int i = 0; i < 300; ++i) {
      const StreamId stream(static_cast<std::int32_t>(random.integer(0, 1)));
      if (random.integer(0, 9) < 6) {
        const Bytes size(random.integer(0, std::int64_t{1} << random.integer(1, 27)));
        if (const auto block = allocator.allocate(size, stream)) live.push_back(*block);
      } else if (!live.empty()) {
        if (random.integer(0, 9) == 0) allocator.record_stream(live.back(), stream);
        std::swap(live[random.bits() % live.size()], live.back());
        allocator.free(live.back());
        live.pop_back();
      } else {
        allocator.complete(stream);
      }
      if (i % 20 == 0) check_segments(allocator, settings);
    }
    check_segments(allocator, settings);
    for (const BlockId block : live) allocator.free(block);
    allocator.empty_cache();
    RC_ASSERT(allocator.stats().reserved == 0_B);
    RC_ASSERT(allocator.segments().empty());
  }));
}
