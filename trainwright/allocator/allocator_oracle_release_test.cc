// The allocator against a slow, obvious one: the same addresses, segments and counts.
#include <doctest/doctest.h>

#include "trainwright/allocator/allocator.h"
#include "trainwright/base/random.h"
#include "trainwright/testing/slow_allocator.h"

using namespace trainwright;
using namespace trainwright::literals;

namespace {

struct Live {
  BlockId block;
  std::int64_t address;
};

// Sizes as training has them: many small, a few repeated large ones, some huge.
std::int64_t some_size(Random& random) {
  switch (random.integer(0, 9)) {
    case 0:
    case 1:
    case 2: return random.integer(1, 4096);
    case 3:
    case 4: return random.integer(4096, 1 << 20);
    case 5: return (std::int64_t{1} << random.integer(9, 25)) + random.integer(-1, 1);
    case 6:
    case 7: return random.integer(1 << 20, 12 << 20);
    default: return random.integer(10 << 20, 70 << 20);
  }
}

// Runs random operations on both and compares what they answer.
AllocatorStats compare(const AllocatorSettings& settings, int operations, std::uint64_t seed) {
  Random random(seed);
  Allocator fast(settings);
  testing::SlowAllocator slow{.settings = settings};
  std::vector<Live> live;
  for (int i = 0; i < operations; ++i) {
    const std::int64_t dice = random.integer(0, 999);
    const auto stream = static_cast<int>(std::max<std::int64_t>(0, random.integer(-5, 2)));
    if (dice < 520) {
      const std::int64_t size = some_size(random);
      const auto block = fast.allocate(Bytes(size), StreamId(stream));
      const auto address = slow.allocate(size, stream);
      REQUIRE(block.has_value() == address.has_value());
      if (!block) continue;
      REQUIRE(fast.address(*block) == *address);
      live.push_back({*block, *address});
    } else if (dice < 960) {
      // A burst of frees now and then, so that the load goes up and down.
      for (std::int64_t n = dice == 959 ? 60 : 1; n > 0 && !live.empty(); --n) {
        const auto at =
            static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(live.size()) - 1));
        fast.free(live[at].block);
        slow.free(live[at].address);
        live[at] = live.back();
        live.pop_back();
      }
    } else if (dice < 980 && !live.empty()) {
      fast.record_stream(live.back().block, StreamId(stream));
      slow.record_stream(live.back().address, stream);
    } else if (dice < 998) {
      fast.complete(StreamId(stream));
      slow.complete(stream);
    } else if (dice == 999) {
      fast.empty_cache();
      slow.empty_cache();
    }
    if (i % 101 == 0) REQUIRE(fast.segments() == slow.result());
  }
  CHECK(fast.segments() == slow.result());
  CHECK(fast.stats().reserved.value() == slow.reserved());
  CHECK(fast.stats().retries == slow.retries);
  CHECK(fast.stats().out_of_memory == slow.failures);
  CHECK(fast.stats().garbage_collected == slow.collected);
  return fast.stats();
}

constexpr int kOperations = 100'000;  // each; ten settings make a million

}  // namespace

TEST_CASE("default settings give the segments of the slow allocator, with and without a limit") {
  CHECK(compare({}, kOperations, 1).out_of_memory == 0);
  const AllocatorStats limited = compare({.capacity = 1_GiB}, kOperations, 2);
  // The limit was felt.
  CHECK(limited.out_of_memory > 0);
  CHECK(limited.retries > limited.out_of_memory);
}

TEST_CASE("max_split_size gives the segments of the slow allocator") {
  compare({.capacity = 2_GiB, .max_split_size = 32_MiB}, kOperations, 3);
  compare({.capacity = 900_MiB, .max_split_size = 21_MiB, .max_non_split_rounding = 4_MiB},
          kOperations, 4);
}

TEST_CASE("power-of-two rounding gives the segments of the slow allocator") {
  AllocatorSettings settings{.capacity = 3_GiB};
  settings.roundup_power2_divisions = {8, 8, 4, 4, 2, 1, 0, 16};
  compare(settings, kOperations, 5);
}

TEST_CASE("garbage collection gives the segments of the slow allocator") {
  const AllocatorStats stats =
      compare({.capacity = 2_GiB, .memory_fraction = 0.75, .garbage_collection_threshold = 0.6},
              kOperations, 6);
  CHECK(stats.garbage_collected > 0);
}

TEST_CASE("expandable segments give the mapped ranges of the slow allocator") {
  compare({.expandable_segments = true}, kOperations, 7);
  CHECK(compare({.capacity = 1_GiB, .expandable_segments = true}, kOperations, 8).segments_freed >
        0);
  compare({.capacity = 1_GiB,
           .memory_fraction = 0.9,
           .expandable_segments = true,
           .max_split_size = 40_MiB,
           .garbage_collection_threshold = 0.5},
          kOperations / 2, 9);
}

TEST_CASE("Paddle's strategy gives the chunks of the slow allocator") {
  compare({.strategy = AllocatorStrategy::Paddle}, kOperations / 2, 10);
  compare({.strategy = AllocatorStrategy::Paddle, .capacity = 1_GiB, .chunk_size = 8_MiB},
          kOperations, 11);
}
