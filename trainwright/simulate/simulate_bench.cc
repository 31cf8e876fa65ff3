// How long one estimate takes once lists are made and timed.
#include <benchmark/benchmark.h>

#include "trainwright/simulate/simulate.h"

#ifndef TRAINWRIGHT_SOURCE_DIR
#define TRAINWRIGHT_SOURCE_DIR "."
#endif

namespace trainwright {
namespace {

const std::string kData = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data";

// What a search has at hand, and a layout to ask for.
struct Setting {
  Model model = *find_model("llama-3.1-405b", kData);
  Hardware hardware = *load_hardware(kData);
  Cluster cluster;
  Trainer trainer = *pick_trainer("megatron@0.12", *load_trainers(kData));
  TimeConstants constants = *load_time_constants(kData);
  Job job = {};
  Layout layout;
  StepModel steps;

  Setting(const char* on, const char* text)
      : cluster(*parse_cluster(on, hardware)),
        layout(parse_layout(text, {accelerator_count(cluster), usual_layout(trainer)})->layout),
        steps(model, cluster, trainer, job, constants.kernels) {}
  Seconds step() {
    return step_time(*steps.pieces(layout), stack_of(constants.stacks, trainer).constants).step;
  }
};

void ask(benchmark::State& state, const char* on, const char* text) {
  Setting setting(on, text);
  for (auto _ : state) benchmark::DoNotOptimize(setting.step());
}

// Closed forms over sums of cached lists.
BENCHMARK_CAPTURE(ask, composed_8, "8xH100", "tp=8,sp,mbs=1,gbs=16,seq=8192");
BENCHMARK_CAPTURE(ask, composed_16384, "16384xH100",
                  "tp=8,pp=16,sp,zero=1,mbs=1,gbs=2048,seq=8192");
BENCHMARK_CAPTURE(ask, composed_131072, "131072xH100",
                  "tp=8,pp=16,sp,zero=1,mbs=1,gbs=16384,seq=8192");
// The clock over all actions.
BENCHMARK_CAPTURE(ask, referee_pp16, "16384xH100",
                  "tp=8,pp=16,sp,zero=1,mbs=1,gbs=8192,seq=8192,schedule=zb-h1");
BENCHMARK_CAPTURE(ask, referee_pp64, "131072xH100",
                  "tp=8,pp=64,sp,zero=1,mbs=1,gbs=65536,seq=8192,schedule=zb-h1");

}  // namespace
}  // namespace trainwright
