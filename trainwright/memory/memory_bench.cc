// Memory of layouts in a search: GPT-3 175B on 1,024 A100, every layout that can be dealt out.
#include <benchmark/benchmark.h>

#include "trainwright/memory/memory.h"

namespace trainwright {
namespace {

struct Space {
  Model model;
  Cluster cluster;
  Trainer trainer;
  MemoryConstants constants;
  std::vector<Layout> layouts;
};

void add_batches(Space& space, Layout layout) {
  for (const std::int64_t mbs : {1, 2, 4, 8}) {
    if (1536 % (mbs * layout.dp) != 0) continue;
    layout.mbs = mbs;
    for (const bool sp : {false, true}) {
      if (sp && layout.tp == 1) continue;
      layout.sp = sp;
      for (const RecomputeKind kind :
           {RecomputeKind::None, RecomputeKind::Selective, RecomputeKind::Full}) {
        layout.recompute.kind = kind;
        for (const std::int64_t zero : {0, 1}) {
          layout.zero = zero;
          layout.sharding = zero == 0 ? ShardingKind::Ddp : ShardingKind::Zero;
          space.layouts.push_back(layout);
        }
      }
    }
  }
}

// Global batch 1,536, sequences of 2,048.
Space gpt3_space() {
  const std::string data = TRAINWRIGHT_SOURCE_DIR "/data";
  const auto hardware = load_hardware(data);
  Space space{*find_model("gpt3-175b", data),
              *parse_cluster("1024xA100-80GB", *hardware),
              *find_trainer("megatron@0.12", data),
              *load_memory_constants(data),
              {}};
  for (const std::int64_t tp : {1, 2, 4, 8, 16}) {
    for (const std::int64_t pp : {1, 2, 4, 8, 16, 32, 64}) {
      for (const std::int64_t cp : {1, 2}) {
        for (const std::int64_t vpp : {1, 2, 3, 4, 6}) {
          if (1024 % (tp * pp * cp) != 0 || (vpp > 1 && pp == 1) || 96 % (pp * vpp) != 0) continue;
          Layout layout;
          layout.tp = layout.etp = tp;
          layout.pp = pp;
          layout.cp = cp;
          layout.vpp = vpp;
          layout.dp = 1024 / (tp * pp * cp);
          layout.gbs = 1536;
          layout.schedule = usual_schedule(pp, vpp);
          layout.placement = usual_placement(layout.schedule, vpp);
          add_batches(space, layout);
        }
      }
    }
  }
  return space;
}

void worst_of_gpt3_175b(benchmark::State& state) {
  const Space space = gpt3_space();
  const Job job;
  MemoryModel model(space.model, space.cluster, space.trainer, job, space.constants);
  for (const Layout& layout : space.layouts) benchmark::DoNotOptimize(model.least(layout));
  std::int64_t evaluations = 0;
  for (auto _ : state) {
    for (const Layout& layout : space.layouts) benchmark::DoNotOptimize(model.least(layout));
    evaluations += static_cast<std::int64_t>(space.layouts.size());
  }
  state.SetItemsProcessed(evaluations);
  state.counters["layouts"] = static_cast<double>(space.layouts.size());
}
BENCHMARK(worst_of_gpt3_175b);

// The same with every list still to be made.
void worst_of_gpt3_175b_cold(benchmark::State& state) {
  const Space space = gpt3_space();
  const Job job;
  for (auto _ : state) {
    MemoryModel model(space.model, space.cluster, space.trainer, job, space.constants);
    for (const Layout& layout : space.layouts) benchmark::DoNotOptimize(model.least(layout));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(space.layouts.size()));
}
BENCHMARK(worst_of_gpt3_175b_cold);

}  // namespace
}  // namespace trainwright
