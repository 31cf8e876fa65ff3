// What a rank holds and what it sends follow from one Sharding, derived by hand for N parameters.
#include <doctest/doctest.h>

#include "trainwright/testing/memory_cases.h"

namespace trainwright {
namespace {

using namespace testing;

// A rank's parameters of both sorts, what stands for them, and what travels in a step.
struct Shared {
  Layout layout;
  double dense = 0, expert = 0;
  RankClass held;
  std::vector<ParameterTraffic> traffic;

  double bytes(Category category) const {
    return static_cast<double>(bytes_of(held, category).value());
  }
  // Of all calls in a step; those over a group, which must have so many members.
  double moved(CollectiveKind kind) const {
    double sum = 0;
    for (const ParameterTraffic& one : traffic) {
      const double times =
          one.every_micro_batch ? static_cast<double>(micro_batch_count(layout)) : 1;
      if (one.kind == kind) sum += times * static_cast<double>(one.bytes.value());
    }
    return sum;
  }
  double moved(CollectiveKind kind, GroupKind group, std::int64_t members) const {
    CHECK(rank_group(layout, group).size == members);
    Shared over = *this;
    std::erase_if(over.traffic,
                  [group](const ParameterTraffic& one) { return one.group != group; });
    return over.moved(kind);
  }
};

// Sizes are multiples of 64, so that every share is whole; the first pipeline rank is looked at.
Shared shared(const std::string& trainer, const std::string& layout, bool experts = false) {
  const GptShape shape{
      .layers = 16, .hidden = 64, .heads = 4, .kv_heads = 4, .ffn = 256, .vocabulary = 512};
  Case c{.model = experts ? moe(8, 128, 0, 0, shape) : gpt(shape),
         .trainer = picked_trainer(trainer),
         .layout = layout_of(layout + ",mbs=1,seq=64")};
  c.cluster = h100s(world_size(c.layout));
  const Recipe recipe = recipe_of(c.trainer, c.layout.precision);
  WorkCache cache(c.model, recipe);
  const Stage stage = stage_layers(c.layout, c.model).value().front();
  const HeldParameters of = compose(cache.stage(stage, slice_of(c.layout, c.trainer))).parameters;
  const auto bytes = trained_bytes(c.job, c.layout.precision, c.trainer);
  return {c.layout, static_cast<double>(of.dense.all.value()),
          static_cast<double>(of.expert.all.value()), c.estimate().classes.front(),
          parameter_traffic(of, 1, sharding_of(c.layout, c.trainer), recipe, bytes.value())};
}

TEST_CASE("without sharding every rank holds all, and gradients are summed once a step") {
  // Megatron's replicas are reduced in one all-reduce of 4 bytes; nothing is gathered.
  const Shared of = shared("megatron@0.12", "dp=4,zero=0,gbs=32");
  CHECK(of.bytes(Category::Weights) == 2 * of.dense);
  CHECK(of.bytes(Category::Gradients) == 4 * of.dense);
  CHECK(of.bytes(Category::MainWeights) == 4 * of.dense);
  CHECK(of.bytes(Category::OptimizerStates) == 8 * of.dense);
  CHECK(of.moved(CollectiveKind::AllReduce, GroupKind::DpCp, 4) == 4 * of.dense);
  CHECK(of.moved(CollectiveKind::AllGather) + of.moved(CollectiveKind::ReduceScatter) == 0);
}

TEST_CASE("ZeRO 2 cuts gradients too, which every micro-batch then reduces") {
  // DeepSpeed, bf16: weights 2, gradients 2, master 4, states 8 bytes; 8 micro-batches.
  const Shared of = shared("deepspeed@0.16", "dp=4,zero=2,gbs=32");
  CHECK(of.bytes(Category::Weights) == 2 * of.dense);
  CHECK(of.bytes(Category::Gradients) == 2 * of.dense / 4);
  CHECK(of.bytes(Category::MainWeights) == 4 * of.dense / 4);
  CHECK(of.bytes(Category::OptimizerStates) == 8 * of.dense / 4);
  CHECK(of.moved(CollectiveKind::AllGather, GroupKind::Shard, 4) == 2 * of.dense);
  CHECK(of.moved(CollectiveKind::ReduceScatter, GroupKind::Shard, 4) == 8 * 2 * of.dense);
  CHECK(of.moved(CollectiveKind::AllReduce) == 0);
}

TEST_CASE("ZeRO 3 cuts weights too, which both passes of every micro-batch then gather") {
  const Shared of = shared("deepspeed@0.16", "dp=4,zero=3,gbs=32");
  CHECK(of.bytes(Category::Weights) == 2 * of.dense / 4);
  CHECK(of.bytes(Category::Gradients) == 2 * of.dense / 4);
  CHECK(of.bytes(Category::OptimizerStates) == 8 * of.dense / 4);
  CHECK(of.moved(CollectiveKind::AllGather, GroupKind::Shard, 4) == 2 * 8 * 2 * of.dense);
  CHECK(of.moved(CollectiveKind::ReduceScatter, GroupKind::Shard, 4) == 8 * 2 * of.dense);
}

TEST_CASE("ZeRO 1 cuts states; weights are gathered and gradients reduced once a step") {
  // Megatron, bf16: weights 2, gradients 4, master 4, states 8 bytes; 8 micro-batches.
  const Shared of = shared("megatron@0.12", "dp=4,zero=1,gbs=32");
  CHECK(of.bytes(Category::Weights) == 2 * of.dense);
  CHECK(of.bytes(Category::Gradients) == 4 * of.dense);
  CHECK(of.bytes(Category::MainWeights) == 4 * of.dense / 4);
  CHECK(of.bytes(Category::OptimizerStates) == 8 * of.dense / 4);
  CHECK(of.moved(CollectiveKind::AllGather, GroupKind::Shard, 4) == 2 * of.dense);
  CHECK(of.moved(CollectiveKind::ReduceScatter, GroupKind::Shard, 4) == 4 * of.dense);
  CHECK(of.moved(CollectiveKind::AllReduce) == 0);
}

TEST_CASE("FSDP gathers before both passes of every micro-batch and holds no whole gradient") {
  // torchtitan: fp32 weights, gradients and two states in parts, bf16 while gathered.
  const Shared of = shared("torchtitan@0.2", "dp=4,fsdp,gbs=32");
  CHECK(of.bytes(Category::Weights) == 4 * of.dense / 4);
  CHECK(of.bytes(Category::OptimizerStates) == 8 * of.dense / 4);
  CHECK(of.bytes(Category::GatherBuffers) < 2 * of.dense);
  CHECK(of.moved(CollectiveKind::AllGather, GroupKind::Shard, 4) == 2 * 8 * 2 * of.dense);
  CHECK(of.moved(CollectiveKind::ReduceScatter, GroupKind::Shard, 4) == 8 * 4 * of.dense);
}

TEST_CASE("FSDP that does not reshard after forward gathers once for every micro-batch") {
  const Shared of = shared("torchtitan@0.2", "dp=4,fsdp,zero=2,gbs=32");
  CHECK(of.bytes(Category::Weights) == 4 * of.dense / 4);
  // At the loss, the peak of so small a model, all of them are whole.
  CHECK(of.bytes(Category::GatherBuffers) == 2 * of.dense);
  CHECK(of.moved(CollectiveKind::AllGather, GroupKind::Shard, 4) == 8 * 2 * of.dense);
  CHECK(of.moved(CollectiveKind::ReduceScatter, GroupKind::Shard, 4) == 8 * 4 * of.dense);
}

TEST_CASE("embedding and head in the unit of the root stay whole, and their gradients wait") {
  // A vocabulary of 512 and one layer of width 64: 32,768 numbers of each end, 64 of the last norm.
  // The loss of 64 tokens is small, so that the peak is where all of the root's gradients are: of
  // bf16, and copied in fp32 for the reduction.
  const double root = 2 * 512.0 * 64 + 64;
  Case c{.model = llama_model(64, 4, 4, 16),
         .trainer = picked_trainer("torchtitan@0.1"),
         .layout = layout_of("dp=4,fsdp,gbs=4,mbs=1,seq=16")};
  c.model.vocabulary = 512;
  c.cluster = h100s(4);
  const RankClass reduced = c.estimate().classes.front();
  CHECK(static_cast<double>(bytes_of(reduced, Category::ReduceBuffers).value()) == (2 + 4) * root);
  CHECK(bytes_of(reduced, Category::GatherBuffers) == Bytes());
  // Of 4,096 tokens the loss is the peak: weights in bf16.
  c.layout.seq = 4096;
  const RankClass loss = c.estimate().classes.front();
  CHECK(static_cast<double>(bytes_of(loss, Category::GatherBuffers).value()) == 2 * root);
  CHECK(bytes_of(loss, Category::ReduceBuffers) == Bytes());
}

TEST_CASE("FSDP under a pipeline gathers once a step, and whole weights stand all step") {
  for (const char* gbs : {",gbs=32", ",gbs=256"}) {
    const Shared of = shared("torchtitan@0.2", std::string("dp=4,pp=2,fsdp") + gbs);
    CHECK(of.bytes(Category::Weights) == 4 * of.dense / 4);
    CHECK(of.bytes(Category::GatherBuffers) == 2 * of.dense);
    CHECK(of.moved(CollectiveKind::AllGather, GroupKind::Shard, 4) == 2 * of.dense);
    // Gradients are summed up whole and reduced once.
    CHECK(of.bytes(Category::ReduceBuffers) == 4 * of.dense);
    CHECK(of.moved(CollectiveKind::ReduceScatter, GroupKind::Shard, 4) == 4 * of.dense);
  }
}

TEST_CASE("FSDP2 has one switch for the host: parameters, gradients and states go together") {
  // torchtitan 0.2.0 config/job_config.py enable_cpu_offload: "parameters, gradients, and optimizer
  // states".
  for (const char* trainer : {"torchtitan@0.2", "pytorch"}) {
    CAPTURE(trainer);
    const Shared stays = shared(trainer, "dp=4,fsdp,gbs=32");
    CHECK(stays.bytes(Category::Weights) > 0);
    CHECK(stays.bytes(Category::Gradients) > 0);
    for (const char* offload : {"parameters", "optimizer", "optimizer+parameters"}) {
      const Shared of = shared(trainer, std::string("dp=4,fsdp,gbs=32,offload=") + offload);
      CHECK(of.bytes(Category::Weights) == 0);
      CHECK(of.bytes(Category::Gradients) == 0);
      CHECK(of.bytes(Category::OptimizerStates) == 0);
    }
  }
}

TEST_CASE("DeepSpeed's shards of gradients lie where the states do, Megatron's buffer stays") {
  const Shared zero = shared("deepspeed@0.16.4", "dp=4,zero=3,gbs=32,offload=optimizer");
  CHECK(zero.bytes(Category::Gradients) == 0);
  CHECK(zero.bytes(Category::OptimizerStates) == 0);
  CHECK(zero.bytes(Category::Weights) == 2 * zero.dense / 4);
  const Shared megatron = shared("megatron@0.12", "dp=4,zero=1,gbs=32,offload=optimizer");
  CHECK(megatron.bytes(Category::Gradients) == 4 * megatron.dense);
}

TEST_CASE("HSDP repeats its shards, those of experts too") {
  // Two replicas of 4 ranks; experts on 2 x 4 ranks, of which two share and two repeat.
  const Shared of = shared("torchtitan@0.2", "dp=8,hsdp,dp_replicate=2,ep=2,gbs=32", true);
  CHECK(of.expert > 0);
  CHECK(of.bytes(Category::Weights) == 4 * (of.dense / 4 + of.expert / 2));
  CHECK(of.bytes(Category::OptimizerStates) == 8 * (of.dense / 4 + of.expert / 2));
  // Four micro-batches.
  CHECK(of.moved(CollectiveKind::AllGather, GroupKind::Shard, 4) == 2 * 4 * 2 * of.dense);
  CHECK(of.moved(CollectiveKind::AllGather, GroupKind::ExpertShard, 2) == 2 * 4 * 2 * of.expert);
  CHECK(of.moved(CollectiveKind::ReduceScatter, GroupKind::ExpertShard, 2) == 4 * 4 * of.expert);
  CHECK(of.moved(CollectiveKind::AllReduce, GroupKind::Replicate, 2) == 4 * 4 * of.dense / 4);
  CHECK(of.moved(CollectiveKind::AllReduce, GroupKind::ExpertReplicate, 2) ==
        4 * 4 * of.expert / 2);
}

TEST_CASE("Megatron's FSDP cuts what its strategy says, with and without a pipeline") {
  // no_shard, optim, optim_grads, optim_grads_params; 8 micro-batches.
  const auto at = [](int zero) {
    return shared("megatron@0.14",
                  "dp=4,sharding=megatron-fsdp,gbs=32,zero=" + std::to_string(zero));
  };
  CHECK(at(0).bytes(Category::OptimizerStates) == 8 * at(0).dense);
  CHECK(at(0).moved(CollectiveKind::AllGather) == 0);
  CHECK(at(0).moved(CollectiveKind::AllReduce, GroupKind::DpCp, 4) == 4 * at(0).dense);
  CHECK(at(1).bytes(Category::Weights) == 2 * at(1).dense);
  CHECK(at(1).bytes(Category::OptimizerStates) == 8 * at(1).dense / 4);
  CHECK(at(1).moved(CollectiveKind::AllGather) == 2 * at(1).dense);
  CHECK(at(2).bytes(Category::Weights) == 2 * at(2).dense);
  CHECK(at(2).bytes(Category::Gradients) == 4 * at(2).dense / 4);
  CHECK(at(2).moved(CollectiveKind::ReduceScatter) == 8 * 4 * at(2).dense);
  CHECK(at(3).bytes(Category::Weights) == 2 * at(3).dense / 4);
  CHECK(at(3).moved(CollectiveKind::AllGather) == 2 * 8 * 2 * at(3).dense);
  const Shared piped = shared("megatron@0.14", "dp=4,pp=2,sharding=megatron-fsdp,gbs=32");
  CHECK(piped.moved(CollectiveKind::AllGather) == 2 * 8 * 2 * piped.dense);
  CHECK(piped.bytes(Category::GatherBuffers) < 2 * piped.dense);
}

TEST_CASE(
    "gradients wait for the end of a pass only where the layout's own sharding adds them up") {
  // nanotron with a third sharding of which autograd's gradients are the gradients.
  Trainer trainer = picked_trainer("nanotron");
  trainer.shardings.push_back({ShardingKind::Fsdp, GradientLife::Autograd, false, {}, {}, {}});
  CHECK(slice_of(layout_of("dp=2,zero=0,gbs=2"), trainer).gradients_wait);
  CHECK(slice_of(layout_of("dp=2,zero=1,gbs=2"), trainer).gradients_wait);
  CHECK(!slice_of(layout_of("dp=2,fsdp,gbs=2"), trainer).gradients_wait);
}

TEST_CASE("DeepSpeed's bf16 gradients stay beside the fp32 buffer until the next backward pass") {
  const auto estimate = [](const char* precision) {
    const Case c{.model = gpt({.layers = 8}),
                 .trainer = picked_trainer("megatron-deepspeed@0.7"),
                 .layout = layout_of(
                     std::string("pp=2,dp=4,zero=1,mbs=1,gbs=64,seq=2048,precision=") + precision)};
    return c.estimate().classes.front();
  };
  // 2 bytes of every parameter of the rank, which are as many as its bf16 weights; the fp32 buffer
  // twice as many.
  const RankClass of = estimate("bf16");
  const Bytes weights = bytes_of(of, Category::Weights);
  CHECK(bytes_of(of, Category::Gradients) == weights * 2 + weights);
  CHECK(bytes_of(of, Category::ReduceBuffers) == Bytes(0));
  // fp16 has another optimizer.
  CHECK(bytes_of(estimate("fp16"), Category::Gradients) ==
        bytes_of(estimate("fp16"), Category::Weights));
}

}  // namespace
}  // namespace trainwright
