#include "trainwright/allocator/allocator.h"

#include <doctest/doctest.h>

using namespace trainwright;
using namespace trainwright::literals;

namespace {

Bytes reserved_for(Bytes size, const AllocatorSettings& settings = {}) {
  Allocator allocator(settings);
  REQUIRE(allocator.allocate(size));
  return allocator.stats().reserved;
}

Bytes allocated_for(Bytes size, const AllocatorSettings& settings = {}) {
  Allocator allocator(settings);
  REQUIRE(allocator.allocate(size));
  return allocator.stats().allocated;
}

}  // namespace

TEST_CASE("a PyTorch segment is 2 MiB, 20 MiB, or the request rounded up to 2 MiB") {
  CHECK(reserved_for(1_B) == 2_MiB);
  CHECK(reserved_for(1_MiB) == 2_MiB);
  CHECK(reserved_for(1_MiB + 1_B) == 20_MiB);
  CHECK(reserved_for(10_MiB - 1_B) == 10_MiB);  // rounds to 10 MiB exactly
  CHECK(reserved_for(10_MiB - 512_B) == 20_MiB);
  CHECK(reserved_for(11_MiB) == 12_MiB);
  CHECK(reserved_for(33_MiB) == 34_MiB);
}

TEST_CASE(
    "sizes round up to 512 bytes, and slack of up to 1 MiB in the large pool is not split off") {
  CHECK(allocated_for(1_B) == 512_B);
  CHECK(allocated_for(513_B) == 1_KiB);
  // 11 MiB of a 12 MiB segment: the 1 MiB that is left is not more than 1 MiB.
  CHECK(allocated_for(11_MiB) == 12_MiB);
  // 512 bytes less leave more than 1 MiB.
  CHECK(allocated_for(11_MiB - 512_B) == 11_MiB - 512_B);
}

TEST_CASE("power-of-two divisions round inside the interval") {
  AllocatorSettings settings;
  settings.roundup_power2_divisions.fill(4);
  // 1200 lies in [1024, 2048), but 1200 <= 512 x 4: plain rounding, 3 x 512.
  CHECK(allocated_for(1200_B, settings) == 1536_B);
  // 5000 lies in [4096, 8192): steps of 1024.
  CHECK(allocated_for(5000_B, settings) == 5_KiB);
  CHECK(allocated_for(8_KiB, settings) == 8_KiB);
}

TEST_CASE("the best fit is the smallest block, the lowest address among equals") {
  Allocator allocator;
  const BlockId a = *allocator.allocate(64_MiB);
  const BlockId b = *allocator.allocate(32_MiB);
  const BlockId c = *allocator.allocate(32_MiB);
  const std::int64_t address = allocator.address(b);
  allocator.free(a);
  allocator.free(b);
  allocator.free(c);
  CHECK(allocator.address(*allocator.allocate(32_MiB)) == address);
  CHECK(allocator.stats().reserved == 128_MiB);
}

TEST_CASE("free neighbours merge whatever the order of frees") {
  Allocator allocator;
  const BlockId a = *allocator.allocate(2_MiB);
  const BlockId b = *allocator.allocate(2_MiB);
  const BlockId c = *allocator.allocate(2_MiB);
  CHECK(allocator.segments().size() == 1);
  CHECK(allocator.segments()[0].blocks.size() == 4);
  allocator.free(a);
  allocator.free(c);
  CHECK(allocator.segments()[0].blocks.size() == 3);
  allocator.free(b);
  REQUIRE(allocator.segments()[0].blocks.size() == 1);
  CHECK(allocator.segments()[0].blocks[0].size == 20_MiB);
  CHECK(allocator.stats().fragmentation() == 1);
}

TEST_CASE("streams do not share free blocks") {
  Allocator allocator;
  allocator.free(*allocator.allocate(32_MiB, StreamId(0)));
  REQUIRE(allocator.allocate(32_MiB, StreamId(1)));
  CHECK(allocator.stats().reserved == 64_MiB);
}

TEST_CASE("a block used on another stream is free only when that stream is done") {
  Allocator allocator;
  const BlockId block = *allocator.allocate(32_MiB);
  allocator.record_stream(block, StreamId(1));
  allocator.free(block);
  CHECK(allocator.segments()[0].blocks[0].state == BlockState::AwaitingFree);
  const BlockId second = *allocator.allocate(32_MiB);
  CHECK(allocator.stats().reserved == 64_MiB);
  allocator.complete(StreamId(1));
  REQUIRE(allocator.allocate(32_MiB));
  CHECK(allocator.stats().reserved == 64_MiB);
  allocator.free(second);
}

TEST_CASE("a full device is retried with an emptied cache before it is out of memory") {
  Allocator allocator({.capacity = 100_MiB});
  const BlockId a = *allocator.allocate(40_MiB);
  const BlockId b = *allocator.allocate(40_MiB);
  allocator.free(a);
  REQUIRE(allocator.allocate(50_MiB));  // only fits when a's segment goes back
  CHECK(allocator.stats().retries == 1);
  CHECK(allocator.stats().reserved == 90_MiB);
  CHECK_FALSE(allocator.allocate(50_MiB));
  CHECK(allocator.stats().out_of_memory == 1);
  CHECK(
      allocator.out_of_memory_message() ==
      "CUDA out of memory. Tried to allocate 50.00 MiB. GPU 0 has a total capacity of 100.00 MiB "
      "of which 10.00 MiB is free. Of the allocated memory 90.00 MiB is allocated by PyTorch, and "
      "0 bytes is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
      "large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.");
  allocator.free(b);
}

TEST_CASE("expandable segments map pages of 20 MiB and grow in place") {
  Allocator allocator({.expandable_segments = true});
  const BlockId a = *allocator.allocate(30_MiB);
  CHECK(allocator.stats().reserved == 40_MiB);
  const BlockId b = *allocator.allocate(30_MiB);  // 10 MiB are there, 20 MiB more make it
  CHECK(allocator.stats().reserved == 60_MiB);
  CHECK(allocator.segments().size() == 1);
  allocator.free(a);
  allocator.empty_cache();  // of [0, 30) only the first page is wholly free
  CHECK(allocator.stats().reserved == 40_MiB);
  allocator.free(b);
  allocator.empty_cache();
  CHECK(allocator.stats().reserved == 0_B);
}

TEST_CASE("expandable segments fit where plain segments fragment") {
  // Plain: two segments of 20 MiB hold two blocks of 9 MiB each, and half of each is freed. 12 MiB
  // then need a third segment, 52 MiB in all. Expandable: the freed halves are neighbours.
  const auto fits = [](bool expandable) {
    Allocator allocator({.capacity = 45_MiB, .expandable_segments = expandable});
    std::vector<BlockId> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(*allocator.allocate(9_MiB));
    allocator.free(blocks[1]);
    allocator.free(blocks[2]);
    return allocator.allocate(12_MiB).has_value();
  };
  CHECK(fits(true));
  CHECK_FALSE(fits(false));
}

TEST_CASE("Paddle takes the request from the end of the free block and keeps 256 bytes in front") {
  Allocator allocator({.strategy = AllocatorStrategy::Paddle});
  const BlockId a = *allocator.allocate(1000_B);
  CHECK(allocator.stats().allocated == 1_KiB);
  CHECK(allocator.stats().reserved == 1280_B);
  const std::int64_t address = allocator.address(a);
  allocator.free(a);
  const BlockId b = *allocator.allocate(256_B);
  CHECK(allocator.address(b) == address + 768);
  CHECK(allocator.stats().reserved == 1280_B);
}

TEST_CASE("zero bytes occupy nothing, and absurd sizes are out of memory") {
  Allocator allocator;
  const BlockId none = *allocator.allocate(0_B);
  CHECK(allocator.stats().reserved == 0_B);
  CHECK(allocator.segments().empty());
  allocator.free(none);
  CHECK_FALSE(allocator.allocate(Bytes(INT64_MAX)));
}

TEST_CASE("segment events tell what the device gave and got back") {
  Allocator allocator;
  allocator.keep_segment_events();
  allocator.free(*allocator.allocate(32_MiB));
  allocator.empty_cache();
  const auto events = allocator.take_segment_events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].size == (32_MiB).value());
  CHECK(events[1].size == -(32_MiB).value());
  CHECK(events[0].address == events[1].address);
}

TEST_CASE("the text of PYTORCH_ALLOC_CONF is read") {
  const auto settings = parse_allocator_settings(
      "expandable_segments:True, max_split_size_mb:128,garbage_collection_threshold:0.8,"
      "roundup_power2_divisions:[256:1,512:2,1024:4,>:8],backend:native");
  REQUIRE(settings);
  CHECK(settings->expandable_segments);
  CHECK(*settings->max_split_size == 128_MiB);
  CHECK(settings->garbage_collection_threshold == 0.8);
  const std::array<std::int32_t, 16> table = {1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8};
  CHECK(settings->roundup_power2_divisions == table);
  CHECK(*parse_allocator_settings("") == AllocatorSettings{});
}

TEST_CASE("every fault of the settings' text is reported, with what was meant") {
  const auto settings = parse_allocator_settings(
      "expandable_segment:True,max_split_size_mb:12,garbage_collection_threshold:2,"
      "roundup_power2_divisions:3,nonsense");
  REQUIRE_FALSE(settings);
  const Diagnostics& faults = settings.error().diagnostics;
  REQUIRE(faults.size() == 5);
  CHECK(faults[0].hint == "did you mean 'expandable_segments'?");
  CHECK(faults[4].where == "allocator setting max_split_size_mb");
}
