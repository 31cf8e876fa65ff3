// What a search does: make a list's totals for a new slice, and add up a stage from known ones.
#include <benchmark/benchmark.h>

#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

Slice large_slice() { return {.tp = 8, .cp = 2, .ep = 8, .mbs = 1, .seq = 8192, .sp = true}; }

Model mixture() {
  return with_experts(llama_model(4096, 32, 8, 14336),
                      {.experts = 64,
                       .experts_per_token = 8,
                       .expert = {.width = 2048, .gated = true},
                       .shared = Mlp{.width = 2048, .gated = true}});
}

void make_slices(benchmark::State& state, const Model& model, RecomputeKind kind,
                 const Recipe& recipe = paper_recipe()) {
  const LayerKind& layer = model.kinds.front();
  Slice slice = recomputed(large_slice(), kind);
  for (auto _ : state) {
    slice.seq = slice.seq == 8192 ? 4096 : 8192;
    const auto weights = layer_weights(model, layer);
    const OperatorList list = layer_work(model, layer, slice, recipe);
    benchmark::DoNotOptimize(
        totals(list, held_parameters(held_weights(weights, list, slice, recipe), recipe)));
  }
  state.counters["slices"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
void make_dense(benchmark::State& state) {
  make_slices(state, llama_model(4096, 32, 8, 14336), RecomputeKind::None);
}
BENCHMARK(make_dense);
void make_dense_recomputed(benchmark::State& state) {
  make_slices(state, llama_model(4096, 32, 8, 14336), RecomputeKind::Full);
}
BENCHMARK(make_dense_recomputed);
void make_mixture(benchmark::State& state) { make_slices(state, mixture(), RecomputeKind::None); }
BENCHMARK(make_mixture);

void make_plain(benchmark::State& state) {
  make_slices(state, llama_model(4096, 32, 8, 14336), RecomputeKind::None, plain_recipe());
}
BENCHMARK(make_plain);

void compose_stage(benchmark::State& state) {
  WorkCache cache(mixture(), paper_recipe());
  const Slice slice = large_slice();
  const std::vector<Portion> portions = {
      {&cache.layer(LayerKindId(0), slice), 3},
      {&cache.layer(LayerKindId(0), recomputed(slice, RecomputeKind::Full)), 2}};
  const auto count = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(compose(std::span(portions).first(count)));
  }
  state.counters["stages"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(compose_stage)->Arg(1)->Arg(2);

void look_up(benchmark::State& state) {
  WorkCache cache(mixture(), paper_recipe());
  Slice slice = large_slice();
  for (auto _ : state) {
    slice.mbs = slice.mbs == 1 ? 2 : 1;
    benchmark::DoNotOptimize(cache.layer(LayerKindId(0), slice));
  }
}
BENCHMARK(look_up);

}  // namespace
}  // namespace trainwright
