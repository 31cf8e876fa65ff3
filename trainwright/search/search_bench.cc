// Whole searches, and leaves evaluated one by one: what proof and caches cost.
#include <benchmark/benchmark.h>

#include "trainwright/search/space.h"

namespace trainwright {
namespace {

const std::string kData = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data";

struct Asked {
  Model model;
  Hardware hardware = *load_hardware(kData);
  Cluster cluster;
  Trainer trainer = *pick_trainer("megatron", *load_trainers(kData));
  MemoryConstants constants = *load_memory_constants(kData);
  TimeConstants time = *load_time_constants(kData);
  Job job = {};
  std::int64_t gbs = 1, seq = 1;

  Asked(const std::string& name, const char* on, std::int64_t batch, std::int64_t tokens)
      : model(*find_model(name, kData)),
        cluster(*parse_cluster(on, hardware)),
        gbs(batch),
        seq(tokens) {}
  SearchQuestion question() const {
    return {.model = model,
            .cluster = cluster,
            .trainer = trainer,
            .job = job,
            .gbs = gbs,
            .seq = seq,
            .constants = constants,
            .time = time};
  }
};

void find(benchmark::State& state, const std::string& model, const char* on, std::int64_t batch,
          std::int64_t tokens) {
  const Asked asked(model, on, batch, tokens);
  for (auto _ : state) {
    const SearchResult result = search(asked.question()).value();
    state.counters["layouts"] = static_cast<double>(result.space);
    state.counters["bounded"] = static_cast<double>(result.bounded);
    state.counters["evaluated"] = static_cast<double>(result.evaluated);
  }
}
const std::string kTenTrillion = std::string(TRAINWRIGHT_SOURCE_DIR) + "/examples/moe-10t.json";
BENCHMARK_CAPTURE(find, gpt3_175b, "gpt3-175b", "1024xA100-80GB", 1536, 2048)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(find, llama_405b, "llama-3.1-405b", "131072xH100", 16384, 8192)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(find, deepseek_v3, "deepseek-v3", "2048xH800", 15360, 4096)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(find, moe_10t, kTenTrillion, "131072xGB200", 32768, 8192)
    ->Unit(benchmark::kMillisecond);

// Time and memory of every stage of leaves evenly spread over a space, with bounds switched off.
void evaluate(benchmark::State& state, const std::string& model, const char* on, std::int64_t batch,
              std::int64_t tokens, std::int64_t leaves) {
  const Asked asked(model, on, batch, tokens);
  const SearchQuestion question = asked.question();
  const detail::Space space(question);
  const StackConstants& stack = stack_of(asked.time.stacks, asked.trainer).constants;
  const std::int64_t stride = std::max<std::int64_t>(1, space.size() / leaves);
  std::int64_t done = 0;
  for (auto _ : state) {
    StepModel steps = step_model(question);
    MemoryModel memory(question.model, question.cluster, question.trainer, question.job,
                       question.constants, question.attention,
                       [&](const StoredAs& storage) { return &steps.work(storage); });
    std::int64_t at = 0;
    const auto count = [](const auto& list) { return static_cast<std::int32_t>(list.size()); };
    for (std::int64_t t = 0; t < space.trunks(); ++t) {
      if (!space.is_felt(t)) continue;
      for (std::int32_t r = 0; r < count(space.recomputes()); ++r) {
        for (std::int32_t s = 0; s < count(space.sharings(t)); ++s) {
          for (std::int32_t p = 0; p < count(space.pipelines(t)); ++p) {
            if (!space.holds({t, r, s, p}) || at++ % stride != 0) continue;
            const Layout layout = space.layout({t, r, s, p});
            benchmark::DoNotOptimize(memory.least(layout));
            benchmark::DoNotOptimize(step_time(*steps.pieces(layout), stack).step);
            ++done;
          }
        }
      }
    }
  }
  state.SetItemsProcessed(done);
}
BENCHMARK_CAPTURE(evaluate, gpt3_175b, "gpt3-175b", "1024xA100-80GB", 1536, 2048, 1'000'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(evaluate, deepseek_v3, "deepseek-v3", "2048xH800", 15360, 4096, 1'000'000)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trainwright
