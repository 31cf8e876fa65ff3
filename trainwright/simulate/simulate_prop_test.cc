#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "trainwright/simulate/simulate.h"
#include "trainwright/testing/layout_cases.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

using namespace testing;

struct Drawn {
  Model model;
  Cluster cluster;
  Trainer trainer;
  Layout layout;
};

Drawn any_case(bool wide = false) {
  static const Hardware hardware = *load_hardware(kShippedData);
  const GptShape shape{.layers = 8, .hidden = 1024, .heads = 8, .kv_heads = 8, .ffn = 4096};
  Drawn drawn{.model = *rc::gen::arbitrary<bool>() ? moe(8, 1024, 0, 0, shape) : gpt(shape),
              .cluster = *parse_cluster(
                  wide ? *rc::gen::element<std::string>(
                             "32xGB200", "16xH20", "16xMI300X", "16xH100,network=4x100G",
                             "16xA100,network=ethernet,power=250W", "16xH100,network=efa,cpu=0.5")
                       : *rc::gen::element<std::string>("16xH100", "32xA100", "64xB200"),
                  hardware),
              .trainer = picked_trainer(
                  *rc::gen::element<std::string>("megatron@0.12", "pytorch", "torchtitan@0.2")),
              .layout = {}};
  Layout& layout = drawn.layout;
  layout = usual_layout(drawn.trainer);
  layout.tp = *rc::gen::element<std::int64_t>(1, 2, 4);
  layout.pp = *rc::gen::element<std::int64_t>(1, 2, 4);
  layout.sp = *rc::gen::arbitrary<bool>() && layout.tp > 1;
  layout.dp = accelerator_count(drawn.cluster) / (layout.tp * layout.pp);
  layout.etp = layout.tp;
  layout.mbs = *rc::gen::element<std::int64_t>(1, 2);
  layout.gbs = layout.dp * layout.mbs * *rc::gen::element<std::int64_t>(4, 8, 32);
  layout.seq = *rc::gen::element<std::int64_t>(512, 4096);
  if (wide && *rc::gen::arbitrary<bool>()) layout.recompute.kind = RecomputeKind::Full;
  layout.schedule = usual_schedule(layout.pp, 1);
  return drawn;
}

StepTime timed(const Drawn& drawn, const TimeConstants& constants) {
  const auto pieces = step_pieces({.model = drawn.model,
                                   .cluster = drawn.cluster,
                                   .trainer = drawn.trainer,
                                   .layout = drawn.layout,
                                   .job = {},
                                   .kernels = constants.kernels});
  RC_ASSERT(pieces.has_value());
  return step_time(*pieces, stack_of(constants.stacks, drawn.trainer).constants);
}

TEST_CASE("a step is never shorter than its bound, and its parts add up") {
  const TimeConstants constants = *load_time_constants(kShippedData);
  CHECK(rc::check([&] {
    const StepTime time = timed(any_case(), constants);
    Seconds sum;
    for (const Seconds part : time.parts) {
      RC_ASSERT(part >= Seconds(0));
      sum += part;
    }
    RC_ASSERT(std::abs(sum / time.step - 1) < 1e-9);
    RC_ASSERT(time.step >= time.bound);
  }));
}

// In the whole step, whatever hides what: products and attention at the peak, what ranks send over
// their links, and copies of weights and gradients at the memory's bandwidth.
TEST_CASE("nothing in a step is faster than peak, memory or links, in a tuned recipe neither") {
  const TimeConstants constants = *load_time_constants(kShippedData);
  CHECK(rc::check([&] {
    const Drawn drawn = any_case(*rc::gen::arbitrary<bool>());
    auto pieces = step_pieces({.model = drawn.model,
                               .cluster = drawn.cluster,
                               .trainer = drawn.trainer,
                               .layout = drawn.layout,
                               .job = {},
                               .kernels = constants.kernels,
                               .tuned = *rc::gen::arbitrary<bool>()});
    RC_ASSERT(pieces.has_value());
    const StepTime time = step_time(*pieces, stack_of(constants.stacks, drawn.trainer).constants);
    const double m = real(pieces->micro_batches);
    // A step at its floor is the sum of parts that were scaled to it, off in the last digits.
    const Seconds step = time.step * (1 + 1e-12);
    RC_ASSERT(step >= pieces->bound);
    for (const RankPieces& rank : pieces->ranks) {
      RC_ASSERT(step >= (rank.every_forward + rank.every_backward) * m + rank.reduced +
                            rank.gathered + rank.embedding);
    }
    const double sends = pieces->pp > 2 ? 2 : 1;
    if (pieces->pp > 1) RC_ASSERT(step >= pieces->transfer * (sends * m));
    // A pass at kernel rates is never below its products at the peak and its tensors' traffic.
    for (const StepPieces::StageAt& at : pieces->stages) {
      const StagePieces& stage = pieces->kinds[static_cast<std::size_t>(at.kind)];
      Seconds kernels;
      for (const PassPieces* pass :
           {&stage.forward, &stage.backward_input, &stage.backward_weight}) {
        kernels += pass->at(Piece::Products) + pass->at(Piece::AttentionCores);
      }
      RC_ASSERT(step >= kernels * (m * 0.75));  // 0.75: the least that "tuned" may be
    }
  }));
}

TEST_CASE("faster links, memory or products never slow a step") {
  const TimeConstants constants = *load_time_constants(kShippedData);
  CHECK(rc::check([&] {
    Drawn drawn = any_case();
    const Seconds before = timed(drawn, constants).step;
    Group& group = drawn.cluster.groups.front();
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        for (Tier& tier : group.tiers) tier.bandwidth = tier.bandwidth * 2;
        break;
      case 1: group.accelerator.memory_bandwidth = group.accelerator.memory_bandwidth * 2; break;
      default:
        for (auto& [type, peak] : group.accelerator.peak) peak = peak * 2;
    }
    RC_ASSERT(timed(drawn, constants).step <= before * (1 + 1e-9));
  }));
}

// With unsharded states and the same batch on every rank there is only more to wait for.
TEST_CASE("twice the data parallelism at the same batch per rank never speeds up a step") {
  const TimeConstants constants = *load_time_constants(kShippedData);
  static const Hardware hardware = *load_hardware(kShippedData);
  CHECK(rc::check([&] {
    Drawn drawn = any_case();
    drawn.layout.zero = 0;
    drawn.layout.sharding = ShardingKind::Ddp;
    const Seconds before = timed(drawn, constants).step;
    const std::int64_t count = accelerator_count(drawn.cluster);
    drawn.cluster = *parse_cluster(
        std::to_string(2 * count) + "x" + drawn.cluster.groups.front().accelerator.name, hardware);
    drawn.layout.dp *= 2;
    drawn.layout.gbs *= 2;
    RC_ASSERT(timed(drawn, constants).step >= before * (1 - 1e-9));
  }));
}

}  // namespace
}  // namespace trainwright
