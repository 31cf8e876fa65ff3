// Allocator operations per second on the pattern of a training step.
#include <benchmark/benchmark.h>

#include "trainwright/allocator/allocator.h"
#include "trainwright/base/random.h"

using namespace trainwright;

namespace {

// A step as training does it: activations of a few sizes are made in forward and freed in reverse
// in backward, with short-lived temporaries in between.
struct Step {
  std::vector<std::int64_t> sizes;  // > 0: allocate; <= 0: free the allocation of that index
  std::int64_t operations = 0;
};

Step training_step(int layers) {
  Random random(1);
  const std::int64_t kinds[] = {33554432, 33554432, 8388608, 90177536,
                                16777216, 8192,     2048,    524288};
  Step step;
  std::vector<std::int64_t> kept;
  std::int64_t made = 0;
  const auto make = [&](std::int64_t size) {
    step.sizes.push_back(size);
    return made++;
  };
  const auto drop = [&](std::int64_t index) { step.sizes.push_back(-index); };
  for (int layer = 0; layer < layers; ++layer) {
    for (const std::int64_t size : kinds) {
      const std::int64_t temporary = make(size / 2 + random.integer(0, 3) * 4096 + 1);
      kept.push_back(make(size));
      drop(temporary);
    }
  }
  for (; !kept.empty(); kept.pop_back()) {
    const std::int64_t gradient = make(kinds[kept.size() % 8]);
    drop(kept.back());
    drop(gradient);
  }
  step.operations = static_cast<std::int64_t>(step.sizes.size());
  return step;
}

void run(benchmark::State& bench, const AllocatorSettings& settings) {
  const Step step = training_step(static_cast<int>(bench.range(0)));
  Allocator allocator(settings);
  std::vector<BlockId> blocks;
  for (auto _ : bench) {
    blocks.clear();
    for (const std::int64_t size : step.sizes) {
      if (size > 0) {
        blocks.push_back(*allocator.allocate(Bytes(size)));
      } else {
        allocator.free(blocks[static_cast<std::size_t>(-size)]);
      }
    }
  }
  bench.SetItemsProcessed(bench.iterations() * step.operations);
  bench.counters["reserved_GiB"] = allocator.stats().reserved_peak / Bytes(1 << 30);
}

void training(benchmark::State& bench) { run(bench, {}); }
void training_expandable(benchmark::State& bench) { run(bench, {.expandable_segments = true}); }
void training_paddle(benchmark::State& bench) {
  run(bench, {.strategy = AllocatorStrategy::Paddle});
}

// The worst mix: thousands of live blocks of random sizes, freed in random order.
void random_sizes(benchmark::State& bench) {
  Random random(2);
  std::vector<std::int64_t> sizes(1 << 16);
  for (std::int64_t& size : sizes) size = std::int64_t{1} << random.integer(9, 25);
  for (std::int64_t& size : sizes) size += random.integer(0, size - 1);
  Allocator allocator;
  std::vector<BlockId> live;
  for (std::int64_t i = 0; i < bench.range(0); ++i) {
    live.push_back(*allocator.allocate(Bytes(sizes[static_cast<std::size_t>(i) & 0xffff])));
  }
  std::size_t next = 0;
  for (auto _ : bench) {
    BlockId& victim = live[random.bits() % live.size()];
    allocator.free(victim);
    victim = *allocator.allocate(Bytes(sizes[++next & 0xffff]));
  }
  bench.SetItemsProcessed(bench.iterations() * 2);
}

}  // namespace

BENCHMARK(training)->Arg(8)->Arg(80);
BENCHMARK(training_expandable)->Arg(80);
BENCHMARK(training_paddle)->Arg(80);
BENCHMARK(random_sizes)->Arg(1000)->Arg(10000);
