#include <benchmark/benchmark.h>

#include "trainwright/model/model.h"

namespace trainwright {
namespace {

const std::string kData = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data";

constexpr std::string_view kConfig =
    R"({"model_type": "deepseek_v3", "num_hidden_layers": 61, "n_routed_experts": 256})";

void read_a_config(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(parse_model(kConfig, "config.json", kData));
}
BENCHMARK(read_a_config);

void count_a_model(benchmark::State& state) {
  const Model model = parse_model(kConfig, "config.json", kData).value();
  for (auto _ : state) {
    benchmark::DoNotOptimize(parameters(model));
    benchmark::DoNotOptimize(token_flops(model, Tokens(4096), AttentionPairs::Causal));
  }
}
BENCHMARK(count_a_model);

}  // namespace
}  // namespace trainwright
