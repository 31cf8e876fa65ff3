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
      // Weights without a main copy are read and written, gradients read by their norm and the
      // step.
      const double copies = bytes->model.master > 0 ? 1 : 2;
      const double gradients = (bytes->model.gradient_at_step + bytes->model.gradient) * numbers;
      const double moved =
          copies * weights / cut +
          2 * (category(Category::MainWeights) + category(Category::OptimizerStates) + gradients);
      const Seconds expected = streamed_time(Bytes(static_cast<std::int64_t>(moved)), false, rates);
      const Seconds stepped = time->ranks[static_cast<std::size_t>(of.pipeline_rank)].optimizer;
      RC_ASSERT(std::abs(stepped / expected - 1) < 1e-4);
    }
  }));
}

struct Answered {
  MemoryEstimate memory;
  StepPieces time;
};

Answered answered(const Drawn& drawn, const Hardware& hardware, const TimeConstants& constants) {
  const Layout& layout = drawn.layout;
  const Cluster cluster = *parse_cluster(std::to_string(world_size(layout)) + "xH100", hardware);
  const Job job;
  const MemoryConstants none;
  return {*estimate_memory({.model = drawn.model,
                            .cluster = cluster,
                            .trainer = drawn.trainer,
                            .layout = layout,
                            .job = job,
                            .constants = none,
                            .slack = Slack::None}),
          *step_pieces({.model = drawn.model,
                        .cluster = cluster,
                        .trainer = drawn.trainer,
                        .layout = layout,
                        .job = job,
                        .kernels = constants.kernels})};
}

// MTP modules on a stage behind the embedding's, with and without a table of their own. What is cut
// may be a number more on the rank with most.
TEST_CASE(
    "a copy of a weight that a stage gets is in memory, gradient traffic, optimizer and sums") {
  const TimeConstants constants = *load_time_constants(kShippedData);
  const Hardware hardware = *load_hardware(kShippedData);
  CHECK(rc::check([&] {
    Drawn drawn = any_case();
    RC_PRE(drawn.layout.pp > 1 && !drawn.model.mtp.empty());
    drawn.model.tied = false;
    const std::int64_t stages = stage_count(drawn.layout);
    const std::int64_t stage = drawn.layout.mtp_stage.emplace(
        stages - 1 - *rc::gen::inRange<std::int64_t>(0, drawn.layout.pp - 1));
    drawn.trainer.code.mtp_copies_embedding = false;
    const Answered without = answered(drawn, hardware, constants);
    drawn.trainer.code.mtp_copies_embedding = true;
    const Answered with = answered(drawn, hardware, constants);

    const Layout& layout = drawn.layout;
    const Recipe recipe = recipe_of(drawn.trainer, StoredAs(layout), {});
    WorkCache cache(drawn.model, recipe);
    const HeldParameters copy = cache.embedding_copy(slice_of(layout, drawn.trainer)).parameters;
    const double numbers = real(copy.dense.all.value());
    RC_ASSERT(numbers >= real(drawn.model.vocabulary / layout.tp * drawn.model.hidden));
    const ParameterBytes bytes =
        trained_bytes({}, layout, *parse_cluster("8xH100", hardware), drawn.trainer)->model;
    const double cut = layout.zero > 0 ? real(sharding_of(layout, drawn.trainer).dense.ways) : 1;
    for (std::int64_t rank = 0; rank < layout.pp; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const bool here = rank == stage_rank(layout, stage);
      const auto more = [&](Category what) {
        const auto of = [&](const Answered& one) {
          return real(one.memory.classes[r].bytes[static_cast<std::size_t>(what)].value());
        };
        return of(with) - of(without);
      };
      const double copies = here ? numbers : 0;
      RC_ASSERT(std::abs(more(Category::Weights) - copies * bytes.weight) < 1);
      RC_ASSERT(std::abs(more(Category::MainWeights) - copies * bytes.master / cut) < 64);
      RC_ASSERT((more(Category::OptimizerStates) > 0) == here);
      RC_ASSERT((more(Category::Gradients) + more(Category::ReduceBuffers) > 0) == here);
      const RankPieces& before = without.time.ranks[r];
      const RankPieces& after = with.time.ranks[r];
      RC_ASSERT((after.optimizer > before.optimizer) == here);
      RC_ASSERT((after.reduced > before.reduced) == (here && layout.dp > 1));
      RC_ASSERT(before.embedding == Seconds(0));
      RC_ASSERT((after.embedding > Seconds(0)) == (here || rank == 0));
    }
  }));
}

}  // namespace
}  // namespace trainwright
