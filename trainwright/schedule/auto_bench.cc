#include <benchmark/benchmark.h>

#include "trainwright/schedule/schedule.h"

namespace trainwright {
namespace {

// V of two chunks, uneven F, I, W and a transfer, at the caps of V-Min, V-Half and ZB-V; the
// default budget. No cap is easy enough for the bound to end the search early.
void make_auto_default(benchmark::State& state) {
  const auto ranks = static_cast<int>(state.range(0)), microbatches = 8 * ranks;
  const Bytes cap(state.range(1));
  const Costs costs =
      even_costs(2 * ranks, Seconds(1.049), Seconds(1.122), Seconds(0.903), Seconds(0.079));
  std::int64_t actions = 0;
  double over = 0;
  for (auto _ : state) {
    const auto best = make_auto(ranks, microbatches, costs, {.chunks = 2, .cap = {cap}});
    actions = best->actions;
    over = gap(*best);
  }
  state.counters["placed"] = static_cast<double>(actions);
  state.counters["gap"] = over;
}
BENCHMARK(make_auto_default)
    ->Args({16, 12})
    ->Args({16, 18})
    ->Args({16, 32})
    ->Args({64, 44})
    ->Args({64, 66})
    ->Args({64, 128})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trainwright
