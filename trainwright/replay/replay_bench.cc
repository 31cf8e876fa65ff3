// Reading and replaying a long trace. A million ops should take less than a second in all.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "trainwright/base/random.h"
#include "trainwright/replay/replay.h"

using namespace trainwright;

namespace {

// Ops that read two of the last 300 storages and make one, as many frees as makings.
std::string long_trace(std::int64_t ops) {
  Random random(1);
  std::string text = "{\"trainwright_trace\": 1}\n";
  for (int i = 0; i < 200; ++i) text += fmt::format("\"name {}\"\n", i);
  const std::int64_t sizes[] = {512, 4096, 33554432, 16777216, 2097152, 90177536};
  std::vector<std::int64_t> live;
  for (std::int64_t id = 0; id < ops; ++id) {
    const auto pick = [&] { return live.empty() ? 0 : live[random.bits() % live.size()]; };
    text += fmt::format("[0,{},{},{},{}", random.integer(0, 199), random.integer(0, 3),
                        random.integer(0, 199), live.empty() ? 0 : 2);
    if (!live.empty()) text += fmt::format(",{},{}", pick(), pick());
    text += fmt::format(",0,1,{},{},{}]\n", id, sizes[random.bits() % 6], random.integer(0, 7));
    live.push_back(id);
    if (live.size() <= 300) continue;
    std::swap(live[random.bits() % live.size()], live.back());
    text += fmt::format("[1,{}]\n", live.back());
    live.pop_back();
  }
  return text;
}

void read(benchmark::State& bench) {
  const std::string text = long_trace(bench.range(0));
  for (auto _ : bench) benchmark::DoNotOptimize(parse_trace(text, "bench"));
  bench.SetItemsProcessed(bench.iterations() * bench.range(0));
}

void replay_live(benchmark::State& bench) {
  const Trace trace = *parse_trace(long_trace(bench.range(0)), "bench");
  for (auto _ : bench) benchmark::DoNotOptimize(replay(trace));
  bench.SetItemsProcessed(bench.iterations() * bench.range(0));
}

void replay_reserved(benchmark::State& bench) {
  const Trace trace = *parse_trace(long_trace(bench.range(0)), "bench");
  for (auto _ : bench) {
    benchmark::DoNotOptimize(replay(trace, {.allocator = AllocatorSettings{}}));
  }
  bench.SetItemsProcessed(bench.iterations() * bench.range(0));
}

}  // namespace

BENCHMARK(read)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(replay_live)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(replay_reserved)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
