// What a search does for every layout: is it legal, and where do its groups lie.
#include <benchmark/benchmark.h>

#include "trainwright/layout/layout.h"
#include "trainwright/testing/layout_cases.h"

namespace trainwright {
namespace {

Layout large_layout() {
  return parse_layout("tp=8,cp=16,pp=16,vpp=4,dp=64,ep=128,etp=1,sp,zero=1,gbs=8192,seq=1048576")
      .value()
      .layout;
}

Model large_model() {
  return testing::moe(1024, 4096, 3, 1,
                      {.layers = 128,
                       .hidden = 16384,
                       .heads = 128,
                       .kv_heads = 16,
                       .ffn = 65536,
                       .vocabulary = 262144});
}

void place_every_group(benchmark::State& state) {
  const Layout layout = large_layout();
  const Cluster cluster = testing::h100s(131072);
  for (auto _ : state) {
    for (int kind = 0; kind <= static_cast<int>(GroupKind::World); ++kind) {
      benchmark::DoNotOptimize(place_group(layout, static_cast<GroupKind>(kind), cluster));
    }
  }
}
BENCHMARK(place_every_group);

void check_a_legal_layout(benchmark::State& state) {
  const Layout layout = large_layout();
  const Model model = large_model();
  const Cluster cluster = testing::h100s(131072);
  const Trainer trainer = testing::permissive();
  for (auto _ : state) benchmark::DoNotOptimize(violations(layout, {}, model, cluster, trainer));
}
BENCHMARK(check_a_legal_layout);

void read_and_print(benchmark::State& state) {
  const std::string text = to_text(large_layout());
  for (auto _ : state) benchmark::DoNotOptimize(to_text(parse_layout(text).value().layout));
}
BENCHMARK(read_and_print);

}  // namespace
}  // namespace trainwright
