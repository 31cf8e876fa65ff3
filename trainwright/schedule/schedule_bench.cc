#include <benchmark/benchmark.h>

#include <algorithm>

#include "trainwright/schedule/schedule.h"

namespace trainwright {
namespace {

Shape shape_of(ScheduleKind kind, int ranks, int microbatches) {
  const KindFacts& facts = facts_of(kind);
  return {ranks, microbatches, std::clamp(2, facts.chunks_least, facts.chunks_most)};
}
Costs costs_of(Shape shape) {
  return even_costs(shape.ranks * shape.chunks, Seconds(1), Seconds(1), Seconds(1), Seconds(0.1));
}

void make_kind(benchmark::State& state) {
  const ScheduleKind kind = kinds()[static_cast<std::size_t>(state.range(0))].kind;
  state.SetLabel(std::string(facts_of(kind).name));
  std::size_t actions = 0;
  for (auto _ : state) {
    const auto schedule = make(kind, shape_of(kind, 64, 512));
    actions = 0;
    for (const auto& list : schedule->ranks) actions += list.size();
  }
  state.counters["actions"] = static_cast<double>(actions);
}
BENCHMARK(make_kind)->DenseRange(0, 12)->Unit(benchmark::kMillisecond);

void simulate_lists(benchmark::State& state) {
  const ScheduleKind kind = kinds()[static_cast<std::size_t>(state.range(0))].kind;
  const Shape shape = shape_of(kind, 64, 512);
  state.SetLabel(std::string(facts_of(kind).name));
  const Schedule schedule = *make(kind, shape);
  const Costs costs = costs_of(shape);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(schedule, costs).makespan);
}
BENCHMARK(simulate_lists)->DenseRange(0, 12)->Unit(benchmark::kMillisecond);

void check_lists(benchmark::State& state) {
  const Schedule schedule = *make(ScheduleKind::ZbV, {64, 512, 2});
  for (auto _ : state) benchmark::DoNotOptimize(check(schedule).empty());
}
BENCHMARK(check_lists)->Unit(benchmark::kMillisecond);

void lower_lists(benchmark::State& state) {
  const Schedule schedule = *make(ScheduleKind::ZbV, {64, 512, 2});
  const Costs costs = costs_of({64, 512, 2});
  for (auto _ : state) benchmark::DoNotOptimize(lower(schedule, costs)->microbatches);
}
BENCHMARK(lower_lists)->Unit(benchmark::kMillisecond);

// 1,024 ranks, 8 chunks, 8,192 micro-batches: 134 million actions without a list.
void stream_largest(benchmark::State& state) {
  const Shape shape{1024, 8192, 8};
  const Costs costs = costs_of(shape);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        simulate_kind(ScheduleKind::InterleavedOneFOneB, shape, costs)->makespan);
  }
}
BENCHMARK(stream_largest)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace trainwright
