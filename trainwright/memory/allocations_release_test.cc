// How often the heap is asked while a search judges layouts.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "trainwright/testing/memory_cases.h"

namespace {

std::atomic<std::int64_t> allocations = 0;

}  // namespace

// Not inlined: g++ 12 takes an inlined pair for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* block = std::malloc(size > 0 ? size : 1)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }

namespace trainwright {
namespace {

using namespace testing;

TEST_CASE("a search allocates nothing for a layout whose slices and moments are known") {
  for (const char* trainer : {"megatron@0.12", "pytorch", "torchtitan"}) {
    CAPTURE(trainer);
    const Case c{.model = deeper(llama_model(1024, 16, 4, 4096), 8),
                 .trainer = picked_trainer(trainer)};
    MemoryModel model(c.model, c.cluster, c.trainer, c.job, c.constants);
    const Layout layout = layout_of("tp=2,pp=2,dp=2,mbs=1,gbs=16,seq=1024");
    REQUIRE(model.least(layout).has_value());
    const std::int64_t before = allocations;
    bool all = true;
    for (int i = 0; i < 10; ++i) all &= model.least(layout).has_value();
    const std::int64_t made = allocations - before;
    CHECK(all);
    CHECK(made == 0);
  }
}

}  // namespace
}  // namespace trainwright
