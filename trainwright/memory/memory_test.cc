#include "trainwright/memory/memory.h"

#include <doctest/doctest.h>

#include <cmath>

#include "trainwright/testing/memory_cases.h"

namespace trainwright {
namespace {

using namespace testing;

TEST_CASE("a need as large as the capacity runs out of memory every other time") {
  const Bytes capacity(80'000'000'000);
  const Spread spread{RealBytes(1e9), RealBytes(4e9)};
  CHECK(chance_above(capacity, capacity, spread) == doctest::Approx(0.5));
  CHECK(chance_above(capacity, capacity / 2, spread) < 1e-9);
  CHECK(chance_above(capacity, capacity * 2, spread) > 1 - 1e-9);
  CHECK(chance_above(capacity, capacity + Bytes(1), Spread{}) == 1);
  CHECK(chance_above(capacity, capacity, Spread{}) == 0);
  // The tail of a normal beyond one standard deviation is 0.1587: 4 GB below, 1 GB above.
  CHECK(chance_above(capacity, Bytes(76'000'000'000), spread) ==
        doctest::Approx(0.15866).epsilon(1e-4));
  CHECK(chance_above(capacity, Bytes(81'000'000'000), spread) ==
        doctest::Approx(1 - 0.15866).epsilon(1e-4));
}

TEST_CASE("nine needs of ten lie within the interval") {
  const Bytes driver(100'000'000'000);
  const Spread spread{RealBytes(1e9), RealBytes(1e10)};
  // 1.6449 standard deviations to either side.
  CHECK(exceeded_with(0.05, driver, spread) / driver == doctest::Approx(1.16449).epsilon(1e-5));
  CHECK(exceeded_with(0.95, driver, spread) / driver ==
        doctest::Approx(1 - 0.016449).epsilon(1e-5));
  CHECK(exceeded_with(0.5, driver, spread) == driver);
}

TEST_CASE("a layout fits up to the risk, is tight up to one half, and else does not fit") {
  CHECK(fit_of(0) == Fit::Fits);
  CHECK(fit_of(0.05) == Fit::Fits);
  CHECK(fit_of(0.051) == Fit::Tight);
  CHECK(fit_of(0.051, 0.1) == Fit::Fits);
  CHECK(fit_of(0.5) == Fit::Tight);
  CHECK(fit_of(0.51) == Fit::DoesNotFit);
}

TEST_CASE("spreads grow from allocated to reserved to driver bytes, and with what is not known") {
  Case c = llama_in_80_gib("megatron@0.10", "tp=8,sp,dp=1,mbs=4,gbs=32,seq=4096");
  c.slack = Slack::Replayed;
  c.constants = *load_memory_constants(kShippedData);
  const RankClass late = c.estimate().classes[0];
  const Spread allocated = spread_of(late, Counter::Allocated);
  const Spread reserved = spread_of(late, Counter::Reserved);
  const Spread driver = spread_of(late, Counter::Driver);
  CHECK(allocated.below == allocated.above);
  CHECK(allocated.below / real(late.allocated) == doctest::Approx(c.constants.spread_read));
  // A host that is further ahead reserves more, never less.
  CHECK(reserved.below > allocated.below);
  CHECK(reserved.above > reserved.below);
  CHECK(driver.below > reserved.below);
  CHECK(driver.above > reserved.above);
  // From PyTorch 2.8 on nothing comes back late.
  c.trainer.libraries.torch = {2, 8, 0};
  const RankClass at_once = c.estimate().classes[0];
  CHECK(at_once.allocated == late.allocated);
  CHECK(at_once.reserved < late.reserved);
  CHECK(spread_of(at_once, Counter::Reserved).below == spread_of(at_once, Counter::Reserved).above);
}

TEST_CASE("what comes and goes is in doubt where no published run of the trainer was scored") {
  // DDP of one rank, bf16: nothing assumed, nothing late; weights and states of the same bytes.
  Case c = llama_in_80_gib("pytorch", "dp=1,mbs=4,gbs=32,seq=4096");
  c.constants = *load_memory_constants(kShippedData);
  const RankClass unscored = c.estimate().classes[0];
  const RealBytes states =
      real(bytes_of(unscored, Category::Weights) + bytes_of(unscored, Category::MainWeights) +
           bytes_of(unscored, Category::OptimizerStates));
  const RealBytes all = real(unscored.allocated);
  const auto share = [&](const RealBytes& of, double of_all, double doubt) {
    return of.value() ==
           doctest::Approx(std::hypot(of_all * all.value(), doubt * (all - states).value()));
  };
  const Spread spread = spread_of(unscored, Counter::Allocated);
  CHECK(share(spread.above, c.constants.spread_assumed, c.constants.doubt_unscored));
  CHECK(share(spread.below, c.constants.spread_assumed, c.constants.doubt_unscored / 2));
  c.constants.scored.push_back("pytorch");
  const Spread scored = spread_of(c.estimate().classes[0], Counter::Allocated);
  CHECK(scored.below == scored.above);
  CHECK(scored.above < spread.below);
  // No scored run trains adapters, whoever trains them.
  c.job.lora = Lora{};
  CHECK(c.estimate().ground.doubt == Ground::Doubt::Adapters);
}

TEST_CASE("shipped constants are within their bounds, and others are refused by name") {
  const auto shipped = load_memory_constants(kShippedData);
  REQUIRE_MESSAGE(shipped.has_value(), to_text(shipped.error()));
  CHECK(shipped->lead_most >= shipped->lead_pipeline);
  // Writing and reading them again changes nothing.
  const auto again = read_memory_constants(to_json(*shipped), "again");
  REQUIRE(again.has_value());
  CHECK(to_text(to_json(*again)) == to_text(to_json(*shipped)));
  const auto json = parse_json(
      R"({"outside": {"value": -2, "unit": "place", "least": -3, "most": 1, "source": "x"},
          "outsid": 1})",
      "memory.json");
  REQUIRE(json.has_value());
  const auto read = read_memory_constants(*json, "memory.json");
  REQUIRE(!read.has_value());
  const std::string text = to_text(read.error());
  CHECK(text.find("/outside/value") != std::string::npos);
  CHECK(text.find("outsid") != std::string::npos);
  CHECK(text.find("lead_alone") != std::string::npos);
}

double category(const RankClass& of, Category category) {
  return static_cast<double>(of.bytes[static_cast<std::size_t>(category)].value());
}

TEST_CASE("a stage's kept bytes times micro-batches in flight are a rank's activations") {
  Case c = llama_in_80_gib("megatron-core@0.12", "tp=1,pp=4,dp=1,mbs=1,gbs=16,seq=2048");
  const auto stages = *stage_bytes(c.question());
  REQUIRE(stages.size() == 4);
  const MemoryEstimate estimate = *estimate_memory(c.question());
  // 1F1B on 4 ranks: rank 1 has 3 micro-batches in flight, one of them at work.
  const RankClass& second = estimate.classes[1];
  REQUIRE(second.moment.in_flight == 3);
  const Bytes activations = second.bytes[static_cast<std::size_t>(Category::Activations)];
  CHECK(activations >= stages[1].kept * 2);
  CHECK(activations <= stages[1].kept * 3);
  CHECK(stages[1].kept == stages[2].kept);
  CHECK(stages[1].half <= stages[1].kept);
}

TEST_CASE("the first step has no states until it ends") {
  // Zero 1 over 8: states of 8 bytes a parameter, an eighth each; the peak is before the step.
  const Case c = llama_in_80_gib("megatron@0.12", "dp=8,zero=1,mbs=1,gbs=64,seq=2048");
  const RankClass of = c.estimate().classes[0];
  REQUIRE(of.moment.kind != Moment::Kind::Step);
  CHECK(static_cast<double>(of.first_allocated.value()) ==
        static_cast<double>(of.allocated.value()) - category(of, Category::OptimizerStates));
  CHECK(of.first_reserved >= of.first_allocated);
  CHECK(of.first_reserved <= of.reserved);
}

TEST_CASE("between steps Megatron holds a stage's last input and its gradient beside its states") {
  const Case c = llama_in_80_gib("megatron@0.16", "pp=2,dp=2,zero=1,mbs=1,gbs=16,seq=2048");
  const MemoryEstimate estimate = c.estimate();
  for (const RankClass& of : estimate.classes) {
    double standing = 0;
    for (const Category part : {Category::Weights, Category::MainWeights, Category::Gradients,
                                Category::OptimizerStates, Category::Workspace}) {
      standing += category(of, part);
    }
    // 2048 tokens of width 2048 in two bytes, twice; the first stage has no input.
    const double left = of.pipeline_rank == 0 ? 0 : 2.0 * 2048 * 2048 * 2;
    CHECK(static_cast<double>(of.between_steps.value()) == doctest::Approx(standing + left));
  }
}

TEST_CASE("workspaces of libraries are larger since Hopper, and cuBLAS has its own with the head") {
  Case c = llama_in_80_gib("megatron@0.16", "pp=2,dp=2,zero=1,mbs=1,gbs=16,seq=2048");
  c.cluster.groups[0].accelerator.compute_capability = 8;
  const MemoryEstimate ampere = c.estimate();
  c.cluster.groups[0].accelerator.compute_capability = 9;
  const MemoryEstimate hopper = c.estimate();
  const auto more = [&](std::size_t rank) {
    return category(hopper.classes[rank], Category::Workspace) -
           category(ampere.classes[rank], Category::Workspace);
  };
  // Transformer Engine: 32 instead of 4 MiB; cuBLAS, two handles: 32 MiB instead of 8 MiB + 128
  // KiB.
  CHECK(more(0) == 28.0 * 1024 * 1024);
  CHECK(more(1) == (28.0 + 2 * 23.875) * 1024 * 1024);
  // PyTorch knows Blackwell from 2.12 on; before that cuBLAS has there what it has on Ampere.
  c.cluster.groups[0].accelerator.compute_capability = 10;
  const auto last = [&] { return category(c.estimate().classes[1], Category::Workspace); };
  CHECK(c.trainer.libraries.torch < Version{2, 12, 0});
  CHECK(last() - category(ampere.classes[1], Category::Workspace) == 28.0 * 1024 * 1024);
  c.trainer.libraries.torch = {2, 12, 0};
  CHECK(last() == category(hopper.classes[1], Category::Workspace));
}

TEST_CASE("fp8 weights have no transpose where products take either order of their operands") {
  // 16 layers of 64 x 192, 64 x 64 and, gated, three of 64 x 256: 1,048,576 numbers in fp8.
  Case c{
      .model = gpt(
          {.layers = 16, .hidden = 64, .heads = 4, .kv_heads = 4, .ffn = 256, .vocabulary = 512}),
      .trainer = picked_trainer("megatron@0.16"),
      .layout = layout_of("dp=8,zero=1,precision=fp8-tensorwise,mbs=1,gbs=64,seq=64")};
  const auto weights = [&](double capability) {
    c.cluster.groups[0].accelerator.compute_capability = capability;
    return category(c.estimate().classes[0], Category::Weights);
  };
  CHECK(weights(9.0) - weights(10.0) == 1'048'576);
  CHECK(weights(10.3) == weights(10.0));
  CHECK(weights(12.0) == weights(9.0));
  c.layout.precision = PrecisionKind::Mxfp8;  // scales lie along rows or columns: both stay
  CHECK(weights(10.0) == weights(9.0));
}

TEST_CASE("DeepSpeed before 0.18 sums unsharded bf16 gradients up in fp32") {
  const auto of = [](const char* trainer, const char* layout) {
    return category(llama_in_80_gib(trainer, layout).estimate().classes[0], Category::Gradients);
  };
  const char* replicas = "dp=8,zero=0,mbs=1,gbs=64,seq=2048";
  CHECK(of("deepspeed@0.17", replicas) == 2 * of("deepspeed@0.18", replicas));
  const char* shared = "dp=8,zero=1,mbs=1,gbs=64,seq=2048";
  CHECK(of("deepspeed@0.17", shared) == of("deepspeed@0.18", shared));
}

TEST_CASE("PyTorch's FSDP under Megatron makes weight gradients apart from its products") {
  const Case c = llama_in_80_gib("megatron@0.12", "dp=8,fsdp,mbs=1,gbs=64,seq=2048");
  const auto gradient = [&](const char* layout, std::string_view name) {
    const Slice slice = slice_of(layout_of(layout), c.trainer);
    const OperatorList list =
        layer_work(c.model, c.model.kinds[0], slice, recipe_of(c.trainer, PrecisionKind::Bf16));
    for (const Operator& op : list.operators) {
      if (op.name == name) return op.weight_gradient;
    }
    FAIL("no such operator");
    return Effort{};
  };
  // Fused, the product reads and writes fp32; apart, autograd writes bf16.
  const Effort fused = gradient("dp=8,zero=1,mbs=1,gbs=64,seq=2048", "attention_output");
  const Effort apart = gradient("dp=8,fsdp,mbs=1,gbs=64,seq=2048", "attention_output");
  CHECK(fused.written == 2 * apart.written);
}

TEST_CASE("a schedule from a file has the memory of the kind it was made by") {
  // More micro-batches than the steady state needs; each leaves what it sent until the step ends.
  Case c = llama_in_80_gib("torchtitan@0.2", "pp=4,dp=2,fsdp,mbs=1,gbs=64,seq=2048");
  const MemoryEstimate made = c.estimate();
  const auto schedule = make(ScheduleKind::OneFOneB, {4, 32, 1});
  REQUIRE(schedule.has_value());
  c.layout.schedule = ScheduleKind::Csv;
  MemoryQuestion question = c.question();
  CHECK(!estimate_memory(question).has_value());
  const MemoryQuestion with{question.model,     question.cluster, question.trainer,
                            question.layout,    question.job,     question.attention,
                            question.constants, &*schedule,       question.slack};
  const auto read = estimate_memory(with);
  REQUIRE_MESSAGE(read.has_value(), to_text(read.error()));
  for (std::size_t i = 0; i < made.classes.size(); ++i) {
    CHECK(read->classes[i].driver == made.classes[i].driver);
  }
}

TEST_CASE("a schedule from a file must hold its stages where the layout does") {
  Case c =
      llama_in_80_gib("torchtitan@0.2", "pp=4,vpp=2,schedule=csv,dp=2,fsdp,mbs=1,gbs=16,seq=2048");
  const auto estimate_with = [&](const Schedule& schedule) {
    MemoryQuestion question = c.question();
    question.schedule = &schedule;
    return estimate_memory(question);
  };
  CHECK(estimate_with(*make(ScheduleKind::InterleavedOneFOneB, {4, 8, 2})).has_value());
  CHECK(!estimate_with(*make(ScheduleKind::ZbV, {4, 8, 2})).has_value());
  CHECK(!estimate_with(*make(ScheduleKind::OneFOneB, {4, 8, 1})).has_value());
}

TEST_CASE("memory is estimated for every legal schedule and for no other") {
  const Trainer megatron = picked_trainer("megatron@0.16");
  for (const KindFacts& facts : kinds()) {
    for (const std::int64_t pp : {1, 2, 4}) {
      for (const std::int64_t vpp : {1, 2, 3}) {
        for (const std::int64_t group : {0, 2, 5}) {
          Case c{.model = deeper(llama_model(64, 4, 4, 128), 12), .trainer = permissive()};
          c.trainer.precisions = megatron.precisions;
          c.trainer.optimizers = megatron.optimizers;
          c.layout.pp = pp;
          c.layout.vpp = vpp;
          c.layout.gbs = 8;
          c.layout.schedule = facts.kind;
          c.layout.placement = usual_placement(facts.kind, vpp);
          c.layout.micro_batch_group = group;
          c.cluster = h100s(pp);
          const bool legal = is_legal(violations(c.layout, c.job, c.model, c.cluster, c.trainer));
          CAPTURE(facts.name);
          CAPTURE(pp);
          CAPTURE(vpp);
          CAPTURE(group);
          CHECK(estimate_memory(c.question()).has_value() == legal);
        }
      }
    }
  }
}

TEST_CASE("FSDP holds a share of the weights, and torchtitan its head while the loss runs") {
  // 8 ranks, fp32 shards, bf16 while gathered.
  const Case c = llama_in_80_gib("torchtitan@0.2", "dp=8,fsdp,mbs=1,gbs=8,seq=2048");
  const RankClass of = c.estimate().classes[0];
  const auto all = static_cast<double>(parameters(c.model).total().value());
  CHECK(static_cast<double>(bytes_of(of, Category::Weights).value()) ==
        doctest::Approx(4 * all / 8).epsilon(1e-6));
  CHECK(bytes_of(of, Category::MainWeights) == Bytes(0));
  const Weight* head = nullptr;
  const auto weights = head_weights(c.model);
  for (const Weight& weight : weights) {
    if (weight.part == Part::Head) head = &weight;
  }
  REQUIRE(head != nullptr);
  // At the loss, which is no part of a unit: head and norm, which torchtitan does not reshard.
  const std::int64_t own = size_of(*head).value() + 2048;
  CHECK(bytes_of(of, Category::GatherBuffers) == Bytes(2 * own));
  CHECK(bytes_of(of, Category::ReduceBuffers) == Bytes(0));
}

TEST_CASE("nanotron keeps buckets with DDP and gathers weights twice after a ZeRO step") {
  // Between steps the sweep's own table has 20 bytes per parameter with DDP (2 weights, 4 + 4 + 8
  // in fp32, 2 buckets), at the ZeRO step 10 + 14 / dp (2 weights, 4 gradients, two copies of the
  // weights in bf16, and 12 + 2 over dp).
  const auto of = [](const char* layout) {
    return llama_in_80_gib("nanotron-main", layout).estimate().classes[0];
  };
  const Case c = llama_in_80_gib("nanotron-main", "dp=8,mbs=1,gbs=64,seq=2048");
  const auto all = static_cast<double>(parameters(c.model).total().value());
  const RankClass ddp = of("dp=8,mbs=1,gbs=64,seq=2048");
  CHECK(category(ddp, Category::ReduceBuffers) == 2 * all);
  CHECK(category(ddp, Category::Gradients) == 4 * all);
  const RankClass zero = of("dp=8,zero=1,mbs=1,gbs=64,seq=32");
  CHECK(zero.moment.kind == Moment::Kind::Step);
  CHECK(category(zero, Category::ReduceBuffers) == 0);
  CHECK(category(zero, Category::StepBuffers) == doctest::Approx((2 + 1 / 8.0) * 2 * all));
}

TEST_CASE("FSDP in a pipeline keeps weights gathered and sums gradients unsharded") {
  // torchtitan does not reshard after forward with a pipeline: 2 bytes of weights and, from the
  // first backward on, 4 of gradients for every parameter of the stage.
  const Case c = llama_in_80_gib("torchtitan@0.2", "dp=4,pp=2,fsdp,mbs=1,gbs=32,seq=2048");
  const RankClass of = c.estimate().classes[0];
  const Bytes sharded = bytes_of(of, Category::Weights);
  CHECK(bytes_of(of, Category::GatherBuffers) / sharded == doctest::Approx(2.0).epsilon(1e-6));
  CHECK(bytes_of(of, Category::ReduceBuffers) / sharded == doctest::Approx(4.0).epsilon(1e-6));
}

TEST_CASE("Megatron-FSDP shards weights at stage 3 alone") {
  // 2 bytes of weights whole; of 4 bytes of masters, 4 of gradients and 8 of states an eighth.
  const auto of = [](const char* zero) {
    return llama_in_80_gib(
               "megatron@0.15",
               std::string("dp=8,sharding=megatron-fsdp,mbs=1,gbs=64,seq=2048,zero=") + zero)
        .estimate()
        .classes[0];
  };
  const Case c = llama_in_80_gib("megatron@0.15", "dp=8,zero=1,mbs=1,gbs=64,seq=2048");
  const auto all = static_cast<double>(parameters(c.model).total().value());
  CHECK(category(of("2"), Category::Weights) == doctest::Approx(2 * all));
  CHECK(category(of("2"), Category::Gradients) == doctest::Approx(4 * all / 8));
  CHECK(category(of("2"), Category::GatherBuffers) == 0);
  CHECK(category(of("3"), Category::Weights) == doctest::Approx(2 * all / 8));
}

TEST_CASE("gathered in fp8, matrices are kept in fp8 and its transpose and nothing wider") {
  const auto weights = [](const char* on) {
    const Case c = llama_in_80_gib("megatron@0.12", std::string("dp=8,zero=1,mbs=1,gbs=64,seq=2048,"
                                                                "precision=fp8-delayed") +
                                                        on);
    return category(c.estimate().classes[0], Category::Weights);
  };
  // Of 16 layers: query, key, value and output 4 h^2, gate, up and down 3 h f; 2 bytes less of
  // each.
  const double matrices = 16.0 * (4.0 * 2048 * 2048 + 3.0 * 2048 * 5632);
  CHECK(weights("") - weights(",on=fp8-parameter-gather") == 2 * matrices);
}

TEST_CASE("the stage of MTP modules has the embedding's table again where the trainer copies it") {
  // 51,200 x 1,024 numbers of 2 bytes; Megatron-Core's models by rank in
  // tests/oracle/test_model_megatron.py. PaddleFormers sends the looked-up rows along.
  const auto copies = [](const char* trainer, const char* layout, bool tied = false) {
    Case c{.model = moe(8, 512, 1, 1),
           .trainer = picked_trainer(trainer),
           .cluster = h100s(8),
           .layout = layout_of(std::string("dp=1,mbs=1,gbs=8,seq=2048,") + layout)};
    c.model.tied = tied;
    const double table = 2.0 * 51200 * 1024;
    double weights =
        -2 * static_cast<double>(
                 (parameters(c.model).total() + mtp_parameters(c.model).total()).value());
    double gradients = 2 * weights;
    for (const RankClass& of : c.estimate().classes) {
      weights += category(of, Category::Weights);
      gradients += category(of, Category::Gradients);
    }
    CHECK(gradients == 2 * weights);
    return weights / table;
  };
  CHECK(copies("megatron@0.15", "pp=1") == 0);
  CHECK(copies("megatron@0.15", "pp=2") == 1);
  CHECK(copies("megatron@0.15", "pp=4") == 1);
  CHECK(copies("megatron@0.15", "pp=2,vpp=2") == 1);
  // Megatron-Core makes the tied head's own beside it.
  CHECK(copies("megatron@0.15", "pp=2", true) == 2);
  CHECK(copies("paddleformers", "pp=2") == 0);
  CHECK(copies("paddleformers", "pp=2", true) == 1);
}

TEST_CASE("torchao keeps fp32 shards of what it gathers in fp8, and gathers half of the bytes") {
  const auto of = [](const char* on) {
    Case c = llama_in_80_gib("torchtitan@0.2",
                             std::string("dp=8,sharding=fsdp,zero=3,mbs=1,gbs=64,seq=2048,"
                                         "precision=fp8-tensorwise") +
                                 on);
    c.model.vocabulary = 128;  // the peak is in a layer
    return c.estimate().classes[0];
  };
  const RankClass bf16 = of(""), fp8 = of(",on=fp8-parameter-gather");
  // torchao 0.18 float8/fsdp_utils.py WeightWithDynamicFloat8CastTensor._tensor is the fp32 shard,
  // fsdp_pre_all_gather casts it (tests/oracle/test_float8_gather.py).
  CHECK(bytes_of(fp8, Category::Weights) == bytes_of(bf16, Category::Weights));
  CHECK(category(fp8, Category::GatherBuffers) < 0.51 * category(bf16, Category::GatherBuffers));
}

TEST_CASE(
    "stored in fp8 and cut by ZeRO-3, experts are cut over their own ranks, with no transpose") {
  // 4 layers of h = 1024: attention 4 h^2, 8 experts of 3 h x 512; norms and embeddings stay bf16.
  const MixtureOfExperts experts{.experts = 8,
                                 .experts_per_token = 2,
                                 .expert = Mlp{.width = 512, .gated = true},
                                 .shared = {}};
  Case c{.model = deeper(with_experts(llama_model(1024, 8, 8, 512), experts), 4),
         .trainer = picked_trainer("megatron@0.15"),
         .cluster = h100s(16),
         .layout = {}};
  const auto weights = [&](const char* on) {
    c.layout = layout_of(std::string("dp=16,ep=8,etp=1,sharding=megatron-fsdp,zero=3,mbs=1,gbs=64,"
                                     "seq=2048,precision=fp8-delayed") +
                         on);
    return category(c.estimate().classes[0], Category::Weights);
  };
  const double dense = 4.0 * 4 * 1024 * 1024,
               expert = 4.0 * 3 * 1024 * 512;  // of one expert a rank
  // Without the gather Transformer Engine's caches are whole: two bytes of each, gone with it; of
  // stored weights one byte instead of two, over 16 ranks and over 16 / 8.
  CHECK(weights("") - weights(",on=fp8-parameter-gather") ==
        2 * (dense + expert) + dense / 16 + expert / 2);
}

TEST_CASE("before 2.15 PyTorch's pipeline holds buffers of every micro-batch and what it sent") {
  const auto point_to_point = [](std::int64_t gbs) {
    const Case c =
        llama_in_80_gib("pytorch@2.13", "pp=4,dp=1,mbs=1,seq=2048,gbs=" + std::to_string(gbs));
    return bytes_of(c.estimate().classes[1], Category::PointToPoint);
  };
  // A = 2048 x 2048 x 2 bytes. A middle rank receives A twice per micro-batch; every further
  // micro-batch adds those, its output and its sent gradient.
  const Bytes a(std::int64_t{2048} * 2048 * 2);
  CHECK(point_to_point(24) - point_to_point(16) == a * 4 * 8);
}

TEST_CASE("from 2.15 on PyTorch's pipeline holds one input and one output on their way") {
  const auto rank = [](const std::string& trainer, const std::string& more) {
    const Case c = llama_in_80_gib(trainer, "pp=4,mbs=1,seq=2048," + more);
    return c.estimate().classes[1];
  };
  // A = 2048 x 2048 x 2 bytes, however many micro-batches there are.
  const Bytes a(std::int64_t{2048} * 2048 * 2);
  for (const char* more : {"dp=1,gbs=16", "dp=1,gbs=24"}) {
    // fp32: without FSDP autocast leaves what flows between branches in the embedding's dtype.
    CHECK(bytes_of(rank("torchtitan@0.3,torch=2.15", more), Category::PointToPoint) == a * 4);
  }
  // Outputs stay where DDP wraps the stage (stage.py _output_slot_is_releasable).
  const auto kept = [&](const std::string& more) {
    return bytes_of(rank("pytorch@2.15", more), Category::Activations);
  };
  CHECK(kept("dp=2,gbs=16") > kept("dp=1,gbs=8"));
}

TEST_CASE("gradients in bf16 take half of those in fp32, and Bridge's FSDP has them unasked") {
  const auto gradients = [](const std::string& trainer, const std::string& layout) {
    return bytes_of(
        llama_in_80_gib(trainer, layout + ",mbs=1,gbs=64,seq=2048").estimate().classes[0],
        Category::Gradients);
  };
  for (const char* layout : {"dp=8", "tp=2,pp=2,dp=4,zero=1", "dp=8,zero=2,precision=mxfp8"}) {
    const std::string text(layout);
    CHECK(gradients("megatron@0.19", text + ",gradients=bf16") * 2 ==
          gradients("megatron@0.19", text));
    CHECK(gradients("megatron@0.19", text + ",gradients=fp32") == gradients("megatron@0.19", text));
  }
  const std::string fsdp = "dp=8,sharding=megatron-fsdp";
  CHECK(gradients("megatron-bridge", fsdp) * 2 ==
        gradients("megatron-bridge", fsdp + ",gradients=fp32"));
  CHECK(gradients("megatron@0.19", fsdp) == gradients("megatron-bridge", fsdp + ",gradients=fp32"));
}

TEST_CASE("sizes beyond any device are diagnosed, not computed") {
  Case c = llama_in_80_gib("megatron@0.12", "dp=1,mbs=1,gbs=1,seq=2048");
  c.layout.mbs = kMostBatch;
  c.layout.gbs = kMostBatch;
  c.layout.seq = kMostBatch;
  CHECK(!estimate_memory(c.question()).has_value());
  MemoryModel model(c.model, c.cluster, c.trainer, c.job, c.constants);
  CHECK(!model.least(c.layout).has_value());
}

TEST_CASE(
    "a micro-batch that is too large for wide layers is diagnosed as it is for the vocabulary") {
  Case c = llama_in_80_gib("megatron@0.12", "dp=1,mbs=1,gbs=1,seq=2048");
  c.model = llama_model(2048, 16, 16, std::int64_t{1} << 31);
  for (const auto& [mbs, seq] :
       {std::pair<std::int64_t, std::int64_t>{1 << 20, 1024}, {std::int64_t{1} << 31, 2}}) {
    c.layout.mbs = c.layout.gbs = mbs;
    c.layout.seq = seq;
    const auto estimate = estimate_memory(c.question());
    REQUIRE(!estimate.has_value());
    CHECK(estimate.error().diagnostics[0].where == "layout");
    CHECK(!MemoryModel(c.model, c.cluster, c.trainer, c.job, c.constants).least(c.layout));
  }
}

TEST_CASE("gradients that are flattened stand twice at the step, on one rank too") {
  // One token: the step is the peak. fp32 gradients, 4 bytes a parameter, and a flat copy of up to
  // 500 million of the 954 million.
  Case c = llama_in_80_gib("sailor", "tp=1,pp=1,dp=1,mbs=1,gbs=1,seq=1,precision=fp32");
  const RankClass of = c.estimate().classes.at(0);
  CHECK(of.moment.kind == Moment::Kind::Step);
  CHECK(bytes_of(of, Category::StepBuffers) == Bytes(2'000'000'000));
  CHECK(bytes_of(of, Category::Gradients) == bytes_of(of, Category::Weights));
  CHECK(bytes_of(of, Category::OptimizerStates) == bytes_of(of, Category::Weights) * 2);
}

TEST_CASE("without Transformer Engine and Apex Megatron steps with PyTorch's AdamW") {
  // A 70B on 32 GPUs (gnosia93/slurm-on-aws, lesson 9): 44,566 MiB at most and 36,891 MiB after the
  // step, on a stage of 2.0133e9 parameters. The difference is 4 bytes each, 7,680 MiB.
  Case c = llama_in_80_gib("megatron@0.16", "tp=1,pp=1,dp=1,mbs=1,gbs=1,seq=1");
  c.job.optimizer = OptimizerKind::AdamWForeach;
  const RankClass of = c.estimate().classes.at(0);
  CHECK(bytes_of(of, Category::StepBuffers) == bytes_of(of, Category::MainWeights));
}

}  // namespace
}  // namespace trainwright
