#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "trainwright/testing/memory_cases.h"

namespace trainwright {
namespace {

using namespace testing;

std::int64_t power(int least, int most) {
  return std::int64_t{1} << *rc::gen::inRange(least, most);
}

// Any decision, legal or not; the degrees fit the model, so that most can be estimated.
Layout any_layout() {
  Layout layout;
  layout.tp = power(0, 4);
  layout.etp = *rc::gen::arbitrary<bool>() ? layout.tp : 1;
  layout.pp = power(0, 4);
  layout.dp = power(0, 4);
  layout.cp = power(0, 2);
  layout.mbs = power(0, 3);
  layout.seq = 1024 * power(0, 3);
  layout.gbs = layout.mbs * layout.dp * *rc::gen::inRange<std::int64_t>(1, 40);
  layout.sp = *rc::gen::arbitrary<bool>();
  layout.zero = *rc::gen::inRange<std::int64_t>(0, 4);
  layout.sharding = layout.zero == 0                                  ? ShardingKind::Ddp
                    : layout.zero >= 2 && *rc::gen::arbitrary<bool>() ? ShardingKind::Fsdp
                                                                      : ShardingKind::Zero;
  layout.recompute.kind = *rc::gen::element(RecomputeKind::None, RecomputeKind::Selective,
                                            RecomputeKind::Full, RecomputeKind::Block);
  if (layout.pp > 1) {
    layout.schedule = *rc::gen::element(ScheduleKind::OneFOneB, ScheduleKind::GPipe,
                                        ScheduleKind::InterleavedOneFOneB, ScheduleKind::ZbH1,
                                        ScheduleKind::ZbV, ScheduleKind::LoopedBfs);
    const bool two = layout.schedule == ScheduleKind::ZbV;
    const bool many = layout.schedule == ScheduleKind::InterleavedOneFOneB ||
                      layout.schedule == ScheduleKind::LoopedBfs;
    layout.vpp = two ? 2 : many ? *rc::gen::inRange<std::int64_t>(2, 4) : 1;
    layout.placement = usual_placement(layout.schedule, layout.vpp);
  }
  layout.vocab_parallel = *rc::gen::inRange(0, 4) == 0;
  if (layout.pp > 1 && *rc::gen::inRange(0, 4) == 0)
    layout.first_layers = *rc::gen::inRange<std::int64_t>(1, 6);
  return layout;
}

Job any_job() {
  const char* text = *rc::gen::element(
      "", "", "frozen=embedding", "frozen=embedding,frozen_layers=5", "frozen=attention+norm+head",
      "lora=16", "lora=4:q_proj+v_proj,frozen_layers=7", "lora=64:down_proj,lora_dropout",
      "lora=8:linear_qkv,lora_dtype=fp32", "qlora=16", "qlora=16,prepared=peft",
      "lora=8,base=int8,prepared=trl");
  return parse_job(text).value();
}

Case any_case() {
  const bool experts = *rc::gen::arbitrary<bool>();
  Case c{.model = experts ? moe(8, 512, 1, 0, {.layers = 48})
                          : gpt({.layers = 48,
                                 .vocabulary = *rc::gen::element<std::int64_t>(51200, 256000)}),
         .trainer = picked_trainer(*rc::gen::element<std::string>(
             "megatron@0.12", "torchtitan@0.2", "deepspeed@0.16", "pytorch", "nanotron")),
         .cluster = h100s(8),
         .layout = any_layout(),
         .job = any_job()};
  c.model.tied = *rc::gen::arbitrary<bool>();
  c.cluster = h100s(world_size(c.layout));
  c.cluster.groups[0].accelerator.memory_visible = Bytes(std::int64_t{80} << 30);
  auto constants = load_memory_constants(kShippedData);
  RC_ASSERT(constants.has_value());
  c.constants = *constants;
  return c;
}

TEST_CASE("what a search takes at least is the estimate without slack, or both fail") {
  CHECK(rc::check([] {
    const Case c = any_case();
    MemoryModel model(c.model, c.cluster, c.trainer, c.job, c.constants);
    const auto estimate = estimate_memory(c.question());
    RC_CLASSIFY(estimate.has_value(), "can be estimated");
    for (int again = 0; again < 2; ++again) {
      const auto least = model.least(c.layout);
      RC_ASSERT(least.has_value() == estimate.has_value());
      if (!least) continue;
      RC_ASSERT(least->driver == estimate->classes[estimate->worst].driver);
      RC_ASSERT(least->oom == estimate->oom);
      // Of the same ranks, with whatever pipeline.
      const auto states = model.states(c.layout);
      RC_ASSERT(states.has_value());
      RC_ASSERT(*states <= least->driver);
    }
  }));
}

// Twenty in each of the hundred cases of a run, two where sanitisers make them slow;
// tools/soak/bound_check.py asks for more.
#ifdef NDEBUG
constexpr int kDrawn = 20;
#else
constexpr int kDrawn = 2;
#endif
TEST_CASE("a search never rejects what a replay would accept") {
  CHECK(rc::check([] {
    for (int drawn = 0; drawn < kDrawn; ++drawn) {
      Case c = any_case();
      MemoryModel model(c.model, c.cluster, c.trainer, c.job, c.constants);
      const auto least = model.least(c.layout);
      if (!least) continue;
      c.slack = Slack::Replayed;
      const auto replayed = estimate_memory(c.question());
      RC_ASSERT(replayed.has_value());
      RC_ASSERT(least->driver <= replayed->classes[replayed->worst].driver);
      for (const double risk : {0.001, 0.05, 0.3}) {
        if (replayed->oom <= risk) RC_ASSERT(least->oom <= risk);
      }
    }
  }));
}

TEST_CASE("no part of a rank is negative") {
  CHECK(rc::check([] {
    const Case c = any_case();
    const auto estimate = estimate_memory(c.question());
    RC_PRE(estimate.has_value());
    RC_LOG() << to_text(c.layout);
    for (const RankClass& of : estimate->classes) {
      for (const Bytes part : of.bytes) RC_ASSERT(part >= Bytes(0));
    }
  }));
}

TEST_CASE("what tensors take does not depend on who is where") {
  CHECK(rc::check([] {
    Case c = any_case();
    const auto estimate = estimate_memory(c.question());
    RC_PRE(estimate.has_value());
    c.layout.order = {Axis::Pp, Axis::Dp, Axis::Cp, Axis::Ep, Axis::Tp};
    const auto relabelled = estimate_memory(c.question());
    RC_ASSERT(relabelled.has_value());
    for (std::size_t i = 0; i < estimate->classes.size(); ++i) {
      RC_ASSERT(relabelled->classes[i].allocated == estimate->classes[i].allocated);
    }
  }));
}

// Whole bytes of what is cut into parts, on the rank with most.
Bytes stored(double bytes, const HeldParameters& held, const Sharding& sharding, bool cut) {
  const auto share = [cut](Params count, std::int64_t ways) {
    return ceil_div(count.value(), cut ? ways : 1);
  };
  const std::int64_t numbers =
      share(held.dense.all, sharding.dense.ways) + share(held.expert.all, sharding.expert.ways);
  return Bytes(static_cast<std::int64_t>(bytes * static_cast<double>(numbers)));
}

TEST_CASE("what a rank holds and what it sends follow from the same sharding") {
  CHECK(rc::check([] {
    Case c = any_case();
    c.layout.pp = c.layout.vpp = 1;
    c.layout.first_layers = 0;
    c.job = {};
    const auto estimate = estimate_memory(c.question());
    RC_PRE(estimate.has_value());
    const Sharding sharding = sharding_of(c.layout, c.trainer);
    const Recipe recipe = recipe_of(c.trainer, c.layout.precision);
    const TrainedBytes both = trained_bytes(c.job, c.layout.precision, c.trainer).value();
    const ParameterBytes& bytes = both.model;
    WorkCache cache(c.model, recipe);
    const Stage stage = stage_layers(c.layout, c.model).value().front();
    const HeldParameters held =
        compose(cache.stage(stage, slice_of(c.layout, c.trainer))).parameters;
    const RankClass& of = estimate->classes.front();
    RC_ASSERT(bytes_of(of, Category::Weights) ==
              stored(bytes.weight, held, sharding, sharding.weights));
    // AdamW: so many bytes of every parameter, whichever tensors these are in.
    const auto states = static_cast<std::int64_t>(state_bytes(bytes.states, {}));
    const auto state_share = [&](Params count, const Sharers& sharers) {
      return Bytes(ceil_div(states * count.value(), sharding.states ? sharers.ways : 1));
    };
    RC_ASSERT(bytes_of(of, Category::OptimizerStates) ==
              state_share(held.dense.all, sharding.dense) +
                  state_share(held.expert.all, sharding.expert));
    const std::int64_t m = micro_batch_count(c.layout);
    Bytes gathered, reduced;
    for (const ParameterTraffic& one : parameter_traffic(held, 1, sharding, recipe, both)) {
      const Bytes in_step = one.bytes * (one.every_micro_batch ? m : 1);
      if (one.kind == CollectiveKind::AllGather) gathered += in_step;
      if (one.kind == CollectiveKind::ReduceScatter) reduced += in_step;
    }
    Params dense = sharding.dense.ways > 1 ? held.dense.all : Params(0);
    const Params cut = dense + (sharding.expert.ways > 1 ? held.expert.all : Params(0));
    RC_ASSERT(gathered == Bytes(cut.value() * byte_size(recipe.weight) * gathers(sharding, m)));
    RC_ASSERT(reduced ==
              Bytes(static_cast<std::int64_t>(
                  static_cast<double>(cut.value() * reductions(sharding, m)) * bytes.gradient)));
  }));
}

TEST_CASE("weights that stand whole all step are gathered once in it, others for every pass") {
  CHECK(rc::check([] {
    Case c = any_case();
    c.trainer = picked_trainer("torchtitan@0.2");
    c.job = {};
    c.layout.sharding = ShardingKind::Fsdp;
    c.layout.zero = 3;
    c.layout.first_layers = 0;
    c.layout.dp = power(1, 4);
    const std::int64_t m = *rc::gen::inRange<std::int64_t>(2, 40);
    c.layout.gbs = c.layout.mbs * c.layout.dp * m;
    c.cluster = h100s(world_size(c.layout));
    const auto estimate = estimate_memory(c.question());
    RC_PRE(estimate.has_value());
    const Recipe recipe = recipe_of(c.trainer, c.layout.precision);
    WorkCache cache(c.model, recipe);
    HeldParameters held;  // of the first pipeline rank
    const std::vector<Stage> stages = stage_layers(c.layout, c.model).value();
    for (const Stage& stage : stages) {
      if (stage.rank != 0) continue;
      const Slice slice = slice_of(c.layout, c.trainer, stage.id.index());
      const HeldParameters more = compose(cache.stage(stage, slice)).parameters;
      held.dense.all += more.dense.all;
      held.expert.all += more.expert.all;
    }
    const TrainedBytes bytes = trained_bytes(c.job, c.layout.precision, c.trainer).value();
    Bytes gathered;
    for (const ParameterTraffic& one :
         parameter_traffic(held, 1, sharding_of(c.layout, c.trainer), recipe, bytes)) {
      if (one.kind == CollectiveKind::AllGather) {
        gathered += one.bytes * (one.every_micro_batch ? m : 1);
      }
    }
    const Bytes whole((held.dense.all + held.expert.all).value() * byte_size(recipe.weight));
    const bool stand = bytes_of(estimate->classes.front(), Category::GatherBuffers) >= whole;
    RC_CLASSIFY(stand, "stand whole");
    RC_ASSERT(gathered == whole * (stand ? 1 : 2 * m));
  }));
}

TEST_CASE("ZeRO n + 1 never holds more states than ZeRO n") {
  CHECK(rc::check([] {
    Case c = any_case();
    c.trainer = picked_trainer("deepspeed@0.16");
    std::optional<std::vector<Bytes>> before;
    for (const std::int64_t zero : {0, 1, 2, 3}) {
      c.layout.zero = zero;
      c.layout.sharding = zero == 0 ? ShardingKind::Ddp : ShardingKind::Zero;
      const auto estimate = estimate_memory(c.question());
      RC_PRE(estimate.has_value());
      std::vector<Bytes> states;
      for (const RankClass& of : estimate->classes) {
        for (const Category part : {Category::Weights, Category::MainWeights, Category::Gradients,
                                    Category::OptimizerStates}) {
          states.push_back(bytes_of(of, part));
        }
      }
      for (std::size_t i = 0; before && i < states.size(); ++i) {
        RC_ASSERT(states[i] <= (*before)[i]);
      }
      before = std::move(states);
    }
  }));
}

}  // namespace
}  // namespace trainwright
