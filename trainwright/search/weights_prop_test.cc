#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <cmath>
#include <string>

#include "trainwright/memory/memory.h"
#include "trainwright/simulate/simulate.h"
#include "trainwright/testing/layout_cases.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

using namespace testing;

struct Drawn {
  Model model;
  Trainer trainer;
  Layout layout;
};

Drawn any_case() {
  const GptShape shape{.layers = 8, .hidden = 512, .heads = 8, .kv_heads = 4, .ffn = 2048};
  const bool experts = *rc::gen::arbitrary<bool>();
  Drawn drawn{.model = experts ? moe(8, 256, 1, *rc::gen::element<std::size_t>(0, 1, 2), shape)
                               : gpt(shape),
              .trainer = picked_trainer(*rc::gen::element<std::string>(
                  "megatron@0.15", "deepspeed@0.16", "paddleformers")),
              .layout = {}};
  drawn.model.tied = *rc::gen::arbitrary<bool>();
  Layout& layout = drawn.layout;
  layout.pp = *rc::gen::element<std::int64_t>(1, 2, 4);
  if (layout.pp > 1) layout.vpp = *rc::gen::element<std::int64_t>(1, 2);
  layout.placement = usual_placement(usual_schedule(layout.pp, layout.vpp), layout.vpp);
  layout.schedule = usual_schedule(layout.pp, layout.vpp);
  layout.tp = layout.etp = *rc::gen::element<std::int64_t>(1, 2);
  layout.dp = *rc::gen::element<std::int64_t>(1, 4);
  layout.zero = *rc::gen::element<std::int64_t>(0, 1);
  if (layout.zero > 0) layout.sharding = ShardingKind::Zero;
  layout.mbs = 1;
  layout.gbs = layout.dp * 8;
  layout.seq = 512;
  return drawn;
}

// Bytes of weights, main weights and states are those of memory; the optimizer reads and writes
// them, weights that are cut for it only their part.
TEST_CASE("the optimizer of every pipeline rank steps the weights that memory has there") {
  const TimeConstants constants = *load_time_constants(kShippedData);
  const Hardware hardware = *load_hardware(kShippedData);
  CHECK(rc::check([&] {
    const Drawn drawn = any_case();
    const Layout& layout = drawn.layout;
    const Cluster cluster = *parse_cluster(std::to_string(world_size(layout)) + "xH100", hardware);
    const Job job;
    const MemoryConstants none;
    const auto memory = estimate_memory({.model = drawn.model,
                                         .cluster = cluster,
                                         .trainer = drawn.trainer,
                                         .layout = layout,
                                         .job = job,
                                         .constants = none,
                                         .slack = Slack::None});
    const auto time = step_pieces({.model = drawn.model,
                                   .cluster = cluster,
                                   .trainer = drawn.trainer,
                                   .layout = layout,
                                   .job = job,
                                   .kernels = constants.kernels});
    RC_ASSERT(memory.has_value());
    RC_ASSERT(time.has_value());
    const auto bytes = trained_bytes(job, layout, cluster, drawn.trainer);
    const double cut = layout.zero > 0 ? real(sharding_of(layout, drawn.trainer).dense.ways) : 1;
    const AcceleratorRates rates = rates_of(constants.kernels, cluster.groups.front().accelerator);
    for (const RankClass& of : memory->classes) {
      const auto category = [&](Category what) {
        return real(of.bytes[static_cast<std::size_t>(what)].value());
      };
      const double weights = category(Category::Weights);
      const double numbers = weights / bytes->model.weight / cut;
      const double moved =
          2 * (weights / cut + category(Category::MainWeights) +
               category(Category::OptimizerStates) + bytes->model.gradient_at_step * numbers);
      const Seconds expected = streamed_time(Bytes(static_cast<std::int64_t>(moved)), false, rates);
      const Seconds stepped = time->ranks[static_cast<std::size_t>(of.pipeline_rank)].optimizer;
      RC_ASSERT(std::abs(stepped / expected - 1) < 1e-4);
    }
  }));
}

}  // namespace
}  // namespace trainwright
