#include "trainwright/simulate/simulate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

namespace trainwright {
namespace {

const std::string kData = TRAINWRIGHT_SOURCE_DIR "/data";

// A Llama of 7 B on eight H100, and what is known about time.
struct Eight {
  Model model = *find_model("llama-2-7b", kData);
  Cluster cluster;
  Trainer trainer = *find_trainer("megatron-core@0.12", kData);
  Job job;
  TimeConstants constants = *load_time_constants(kData);
  StackConstants stack = stack_of(constants.stacks, trainer).constants;

  explicit Eight(const char* on = "8xH100") { cluster = *parse_cluster(on, *load_hardware(kData)); }
  StepPieces pieces(const char* text) const {
    const LayoutContext context{accelerator_count(cluster), usual_layout(trainer)};
    const Layout layout = parse_layout(text, context)->layout;
    return *step_pieces({.model = model,
                         .cluster = cluster,
                         .trainer = trainer,
                         .layout = layout,
                         .job = job,
                         .kernels = constants.kernels});
  }
  StepTime time(const char* text) const { return step_time(pieces(text), stack); }
};

Seconds part(const StepTime& time, TimePart part) {
  return time.parts[static_cast<std::size_t>(part)];
}

TEST_CASE("a part is there when something is split that way, and only then") {
  const Eight eight;
  const StepTime data = eight.time("dp=8,zero=1,gbs=64,seq=4096");
  CHECK(part(data, TimePart::Data) > Seconds(0));
  for (const TimePart none : {TimePart::Tensor, TimePart::Context, TimePart::Expert,
                              TimePart::Pipeline, TimePart::Bubble}) {
    CHECK(part(data, none) == Seconds(0));
  }
  const StepTime tensor = eight.time("tp=4,sp,pp=2,dp=1,gbs=64,seq=4096");
  CHECK(part(tensor, TimePart::Tensor) > Seconds(0));
  CHECK(part(tensor, TimePart::Bubble) > Seconds(0));
  CHECK(part(tensor, TimePart::Data) == Seconds(0));
  const StepTime context = eight.time("cp=8,dp=1,gbs=64,seq=4096");
  CHECK(part(context, TimePart::Context) > Seconds(0));
  CHECK(part(context, TimePart::Data) > Seconds(0));  // its members hold the same weights
}

TEST_CASE("parts add up to the step, which is never below its bound") {
  const Eight eight;
  for (const char* text :
       {"dp=8,zero=1,gbs=64,seq=4096", "tp=4,sp,pp=2,dp=1,gbs=64,seq=4096,recompute=full",
        "pp=8,vpp=2,dp=1,gbs=64,seq=4096", "cp=2,tp=2,dp=2,gbs=64,seq=4096"}) {
    const StepTime time = eight.time(text);
    const Seconds sum = std::accumulate(time.parts.begin(), time.parts.end(), Seconds(0));
    CHECK(sum.value() == doctest::Approx(time.step.value()));
    CHECK(time.step > time.bound);
    CHECK(time.low < time.step);
    CHECK(time.step < time.high);
    CHECK(time.hfu >= time.mfu);
    CHECK(time.hfu < 1);
  }
}

TEST_CASE("a kernel that stands in for FlashAttention takes as many times as long as is said") {
  Eight eight;
  const char* text = "dp=8,zero=1,gbs=64,seq=4096";
  const Seconds flash = part(eight.time(text), TimePart::AttentionCores);
  eight.trainer = *trainer_named(R"({"based_on": "megatron-core@0.12", "attention_takes": 1.8})",
                                 *load_trainers(kData));
  CHECK(part(eight.time(text), TimePart::AttentionCores) / flash == doctest::Approx(1.8));
  const auto none = trainer_named(R"({"based_on": "megatron-core@0.12", "attention_takes": 0})",
                                  *load_trainers(kData));
  REQUIRE_FALSE(none);
  CHECK(none.error().diagnostics.front().where.ends_with("/attention_takes"));
}

TEST_CASE("MFU is the model's FLOPs over the step and all peaks") {
  const Eight eight;
  const StepTime time = eight.time("dp=8,zero=1,gbs=64,seq=4096");
  const double flops =
      token_flops(eight.model, Tokens(4096), AttentionPairs::Causal).train().value() * 64 * 4096;
  const double peak =
      trainwright::peak(eight.cluster.groups.front().accelerator, ComputeType::Bf16)->value();
  CHECK(time.mfu == doctest::Approx(flops / (time.step.value() * 8 * peak)));
  // Full recompute runs every forward pass once more: 4 / 3 of the products.
  const StepTime again = eight.time("dp=8,zero=1,gbs=64,seq=4096,recompute=full");
  CHECK(again.hfu / again.mfu == doctest::Approx(4.0 / 3).epsilon(0.05));
}

// Forward and input gradients stay; rank 16 beside matrices 4,096 wide adds a hundredth of FLOPs.
TEST_CASE("adapters cost no weight gradients of the base, in products or on the wire") {
  Eight eight;
  const StepPieces all = eight.pieces("dp=8,mbs=1,gbs=64,seq=4096");
  eight.job = parse_job("lora=16").value();
  const StepPieces lora = eight.pieces("dp=8,mbs=1,gbs=64,seq=4096");
  CHECK(lora.bound / all.bound == doctest::Approx(2.0 / 3).epsilon(0.05));
  // 40 million of 6.7 billion parameters: r (in + out) for 4 + 3 matrices of 32 layers.
  CHECK(lora.ranks.front().reduced < all.ranks.front().reduced * 0.05);
}

// (m - 1) max t + sum t and m t + (p - 1) / v t are what the clock gives for even stages.
TEST_CASE("closed forms of the pipeline are those of the clock") {
  StepPieces step;
  step.pp = 8;
  step.world = 8;
  step.micro_batches = 64;
  step.ranks.resize(8);
  StackConstants stack = usual_stack();
  stack.values[static_cast<std::size_t>(StackConstant::Host)] = 0;
  stack.values[static_cast<std::size_t>(StackConstant::Fixed)] = 0;
  for (const auto& [kind, chunks] :
       {std::pair(ScheduleKind::OneFOneB, 1), std::pair(ScheduleKind::InterleavedOneFOneB, 2)}) {
    step.schedule = kind;
    step.vpp = chunks;
    step.stages.clear();
    step.kinds.clear();
    for (int s = 0; s < 8 * chunks; ++s) {
      PassPieces pass;
      pass.at(Piece::Products) = Seconds(1 / stack.at(StackConstant::Products));
      step.add({pass, pass, pass}, s % 8);
    }
    const Costs even = even_costs(8 * chunks, Seconds(1), Seconds(1), Seconds(1));
    const Timeline clock = simulate_kind(kind, {8, 64, chunks}, even).value();
    const StepTime time = step_time(step, stack);
    const Seconds busy = clock.ranks.front().busy;
    CHECK(part(time, TimePart::Products).value() == doctest::Approx(busy.value()));
    CHECK(part(time, TimePart::Bubble).value() == doctest::Approx((clock.makespan - busy).value()));
  }
}

TEST_CASE("what is drawn of a pipeline takes as long as the pipeline's part of a step") {
  const Eight eight;
  CHECK_FALSE(drawn_pipeline(eight.pieces("dp=8,gbs=64,seq=4096"), eight.stack, 64).has_value());
  const StepPieces pieces = eight.pieces("tp=2,sp,pp=4,dp=1,mbs=1,gbs=16,seq=4096");
  const DrawnPipeline drawn = *drawn_pipeline(pieces, eight.stack, 64);
  CHECK(check(drawn.schedule).empty());
  CHECK(drawn.schedule.microbatches == 16);
  const StepTime time = step_time(pieces, eight.stack);
  const Seconds others = part(time, TimePart::Data) + part(time, TimePart::Optimizer) +
                         part(time, TimePart::Waiting) + part(time, TimePart::Fixed);
  CHECK(simulate(drawn.schedule, drawn.costs).makespan / (time.step - others) ==
        doctest::Approx(1).epsilon(1e-3));  // of 1F1B the step has a closed form
  CHECK(drawn_pipeline(pieces, eight.stack, 8)->schedule.microbatches == 8);
}

// Zero bubble's first schedule fills the drain with weight gradients (arXiv:2401.10241): with
// F = I = W its bubble is a third of 1F1B's.
TEST_CASE("ZB-H1 has a third of the bubble of 1F1B where passes take equal times") {
  StepPieces step;
  step.pp = 4;
  step.world = 4;
  step.micro_batches = 16;
  step.ranks.resize(4);
  StackConstants stack = usual_stack();
  stack.values[static_cast<std::size_t>(StackConstant::Host)] = 0;
  PassPieces pass;
  pass.at(Piece::Products) = Seconds(1);
  for (int s = 0; s < 4; ++s) step.add({pass, pass, pass}, s);
  const auto bubble = [&](ScheduleKind kind) {
    step.schedule = kind;
    return part(step_time(step, stack), TimePart::Bubble);
  };
  CHECK(bubble(ScheduleKind::ZbH1) / bubble(ScheduleKind::OneFOneB) ==
        doctest::Approx(1.0 / 3).epsilon(0.01));
}

// Megatron's buckets: a rank behind the first reduces in one piece when its last backward pass is
// over, and the drain of the pipeline hides as many passes as there are ranks before it.
TEST_CASE("ranks behind the first hide one bucket in the drain of the pipeline") {
  StepPieces step;
  step.schedule = ScheduleKind::OneFOneB;
  step.pp = 4;
  step.world = 4;
  step.micro_batches = 16;
  step.ranks.resize(4);
  step.reduce_overlaps = true;
  StackConstants stack = usual_stack();
  for (const StackConstant zero :
       {StackConstant::Host, StackConstant::DataExposed, StackConstant::DataGrowth}) {
    stack.values[static_cast<std::size_t>(zero)] = 0;
  }
  PassPieces pass;
  pass.at(Piece::Products) = Seconds(1 / stack.at(StackConstant::Products));
  for (int s = 0; s < 4; ++s) step.add({pass, pass, pass}, s);
  // 5 s of gradients on one rank, a visit of 3 s of which 2 are backward.
  const auto shown = [&](std::size_t rank, bool first_only) {
    for (RankPieces& of : step.ranks) of.reduced = {};
    step.ranks[rank].reduced =
        Seconds(5 / (stack.at(StackConstant::InNode) * stack.at(StackConstant::DataInNode)));
    step.buckets_on_first = first_only;
    return part(step_time(step, stack), TimePart::Data).value();
  };
  CHECK(shown(0, true) == doctest::Approx(5 - 0.7 * 2));
  CHECK(shown(1, false) == doctest::Approx(5 - 0.7 * 2));
  CHECK(shown(1, true) == doctest::Approx(5 - 2));
  CHECK(shown(3, true) == doctest::Approx(0));
}

TEST_CASE("the host is a floor: where it is slow, the device waits, and not the sum is taken") {
  const Eight eight;
  const StepPieces pieces = eight.pieces("dp=8,mbs=1,gbs=64,seq=512");
  StackConstants slow = eight.stack, none = eight.stack;
  slow.host = Seconds(5e-4 / eight.stack.at(StackConstant::Host));
  none.host = Seconds(1e-9);
  const Seconds device = step_time(pieces, none).step;
  const Seconds with_host = step_time(pieces, slow).step;
  double calls = 0;
  for (const StagePieces& stage : pieces.kinds) {
    calls += stage.forward.calls + stage.backward_input.calls + stage.backward_weight.calls;
  }
  const double host = calls * 5e-4 * static_cast<double>(pieces.micro_batches);
  CHECK(with_host.value() > host);
  CHECK(with_host.value() < host + device.value());
}

TEST_CASE("kernels of a CUDA graph need no host and two fifths of the gap between others") {
  const Eight eight;
  StepPieces pieces = eight.pieces("dp=8,mbs=1,gbs=8,seq=512");
  pieces.bound = Seconds(0);
  for (RankPieces& rank : pieces.ranks) rank = {};
  StackConstants only = eight.stack;  // nothing but gaps takes time
  for (std::size_t k = 0; k < kStackConstants - 1; ++k) only.values[k] = 0;
  const Seconds gaps = part(step_time(pieces, only), TimePart::Gaps);
  CHECK(gaps / pieces.gap == doctest::Approx(pieces.kinds.front().forward.kernels +
                                             pieces.kinds.front().backward_input.kernels +
                                             pieces.kinds.front().backward_weight.kernels));
  pieces.host_share = 0;
  CHECK(part(step_time(pieces, only), TimePart::Gaps) / gaps == doctest::Approx(0.4));
  only.values[static_cast<std::size_t>(StackConstant::Host)] = 1;
  CHECK(part(step_time(pieces, only), TimePart::Host) == Seconds(0));
}

TEST_CASE("CUDA graphs launch what is asked for, torchtitan 0.3 whole steps of a stage unasked") {
  Eight eight;
  const auto share = [&](const char* layout) { return eight.pieces(layout).host_share; };
  CHECK(share("dp=8,mbs=1,gbs=8,seq=512") == 1);
  eight.trainer = *find_trainer("torchtitan@0.3", kData);
  CHECK(share("dp=8,sharding=fsdp,mbs=1,gbs=8,seq=512") == 0);
  CHECK(share("pp=2,dp=4,sharding=fsdp,mbs=1,gbs=8,seq=512") == 1);
  Eight amd("8xMI300X");
  amd.trainer = eight.trainer;  // distributed/cudagraph.py wrap_with_cuda_graph: eager there
  CHECK(amd.pieces("dp=8,sharding=fsdp,mbs=1,gbs=8,seq=512").host_share == 1);
  CHECK(share("dp=8,sharding=fsdp,mbs=1,gbs=8,seq=512,off=graphs") == 1);
  eight.trainer = *find_trainer("megatron@0.19", kData);
  CHECK(share("pp=2,dp=4,mbs=1,gbs=8,seq=512") == 1);
  CHECK(share("pp=2,dp=4,mbs=1,gbs=8,seq=512,on=graphs") == 0);
  CHECK(share("pp=2,dp=4,mbs=1,gbs=8,seq=512,on=part-graphs") == 0.5);
}

TEST_CASE("a grouped product is one kernel, or one for each expert on four streams") {
  // 128 experts on 8 ranks: 16 on each take turns on Transformer Engine's four streams, so that
  // each of the two products counts as four kernels. Ranks of 4 experts have one of each stream.
  Eight eight;
  eight.model = *find_model("qwen3-30b-a3b", kData);
  const auto kernels = [&](const char* trainer, const char* layout) {
    eight.trainer = *find_trainer(trainer, kData);
    return eight.pieces(layout).kinds.front().forward.kernels;
  };
  const Eight many("32xH100");
  const std::string on_eight = "dp=8,ep=8,zero=1,gbs=64,seq=4096,on=grouped-gemm";
  const double sixteen = kernels("megatron-core@0.15", on_eight.c_str());
  eight.cluster = many.cluster;
  const double four =
      kernels("megatron-core@0.15", "dp=32,ep=32,zero=1,gbs=64,seq=4096,on=grouped-gemm");
  CHECK(sixteen - four == doctest::Approx(48 * 2 * 3));  // layers, products, further kernels
  CHECK(kernels("torchtitan@0.2", "dp=32,ep=32,sharding=fsdp,gbs=64,seq=4096") ==
        kernels("torchtitan@0.2", "dp=32,ep=8,sharding=fsdp,gbs=64,seq=4096"));
}

TEST_CASE("however little a stack makes of its traffic, links take their time for it") {
  const Eight eight;
  StackConstants light = eight.stack;
  light.values[static_cast<std::size_t>(StackConstant::DataExposed)] = 0.05;
  light.values[static_cast<std::size_t>(StackConstant::Transfer)] = 0.1;
  light.values[static_cast<std::size_t>(StackConstant::Exposed)] = 0.05;
  // Gathered for every micro-batch: 8 of them take longer than anything else.
  StepPieces sharded = eight.pieces("dp=8,zero=1,gbs=64,seq=4096");
  const double micro_batches = real(sharded.micro_batches);
  sharded.ranks.front().every_forward = Seconds(7);
  CHECK(step_time(sharded, light).step >= Seconds(7) * micro_batches);
  // Once a step, behind all of it.
  StepPieces replicas = eight.pieces("dp=8,zero=1,gbs=64,seq=4096");
  replicas.reduce_overlaps = replicas.gather_overlaps = true;
  replicas.ranks.front().reduced = Seconds(1000);
  CHECK(step_time(replicas, light).step >= Seconds(1000));
  // Between stages: a rank in the middle sends activations and gradients.
  StepPieces stages = eight.pieces("pp=4,dp=2,gbs=64,seq=4096");
  stages.transfers_overlap = true;
  stages.transfer = Seconds(1);
  CHECK(step_time(stages, light).step >= Seconds(2) * real(stages.micro_batches));
}

TEST_CASE("hops of tensor parallelism wait only where it, or the pipeline, leaves its node") {
  const Eight one, two("16xH100");
  StackConstants waits = two.stack;
  waits.values[static_cast<std::size_t>(StackConstant::Hop)] = 1e-3;
  const auto slower = [&](const Eight& on, const char* text) {
    return step_time(on.pieces(text), waits).step > step_time(on.pieces(text), two.stack).step;
  };
  CHECK_FALSE(slower(two, "tp=8,sp,dp=2,gbs=64,seq=4096"));
  CHECK(slower(two, "tp=16,sp,dp=1,gbs=64,seq=4096"));
  CHECK(slower(two, "tp=8,sp,pp=2,dp=1,gbs=64,seq=4096"));
  CHECK_FALSE(slower(one, "tp=2,sp,pp=4,dp=1,gbs=64,seq=4096"));
}

TEST_CASE(
    "tokens reach experts behind other micro-batches where asked, as far as these take time") {
  Eight eight;
  eight.model = *find_model("qwen3-30b-a3b", kData);
  eight.trainer = *find_trainer("megatron-core@0.15", kData);
  const char* alone = "dp=8,ep=8,zero=1,gbs=64,seq=4096,on=grouped-gemm";
  const char* behind = "dp=8,ep=8,zero=1,gbs=64,seq=4096,on=grouped-gemm+overlap-ep";
  const Seconds all = part(eight.time(alone), TimePart::Expert);
  const StepTime hidden = eight.time(behind);
  const double exposed = eight.stack.at(StackConstant::Exposed);
  CHECK(part(hidden, TimePart::Expert) / all == doctest::Approx(exposed));
  CHECK(part(hidden, TimePart::Tensor) == Seconds(0));
  // On links a hundred times slower nearly all of it shows.
  eight.stack.values[static_cast<std::size_t>(StackConstant::InNode)] *= 100;
  CHECK(part(eight.time(behind), TimePart::Expert) / (all * 100) > 0.9);
}

TEST_CASE("a module that predicts further tokens runs once, however many layers are run again") {
  Eight many("64xH100");
  many.model = *find_model("deepseek-v3", kData);
  const auto loss = [&](const char* recompute) {
    const std::string text = "pp=1,ep=64,mbs=1,gbs=64,seq=4096,recompute=";
    return part(many.time((text + recompute).c_str()), TimePart::Loss);
  };
  CHECK(loss("none") > Seconds(0));
  CHECK(loss("block:8").value() == doctest::Approx(loss("none").value()));
  CHECK(loss("full").value() == doctest::Approx(loss("none").value()));
}

TEST_CASE("gradients that are added up in every micro-batch are read and written beside products") {
  const Eight eight;
  const StepPieces pieces = eight.pieces("tp=8,dp=1,mbs=1,gbs=8,seq=4096");
  Seconds added;
  for (const StagePieces& kind : pieces.kinds) {
    CHECK(kind.forward.accumulated == Seconds(0));
    CHECK(kind.backward_input.accumulated == Seconds(0));
    added += kind.backward_weight.accumulated;
  }
  // 6.6 B parameters of matrices over 8 ranks, 4 bytes read and 4 written by the product that makes
  // them, at 0.8 of 3.35 TB/s.
  CHECK(added.value() == doctest::Approx(6.6e9 / 8 * 8 / (0.8 * 3.35e12)).epsilon(0.03));
}

TEST_CASE("the optimizer reads and writes states and masters, and reads gradients twice") {
  const Eight eight;
  // 6.74 B parameters over 8 ranks: (4 + 4 + 4) x 2 bytes of masters and states, 2 of weights, 4 x
  // 2 of gradients and as much again where a copy is made for the step, at what copies reach
  // of 3.35 TB/s.
  const double least = 6.74e9 / 8 * (24 + 2 + 8) / 3.35e12;
  const Seconds takes = eight.pieces("dp=8,zero=1,gbs=64,seq=4096").ranks.front().optimizer;
  CHECK(takes.value() > least);
  CHECK(takes.value() < least * 1.7);
}

TEST_CASE("attention to a short window takes no less than its tensors take to be moved") {
  Eight eight;
  eight.model = *find_model("mistral-7b", kData);
  const auto cores = [&](const char* text) {
    return eight.pieces(text).kinds.front().forward.at(Piece::AttentionCores);
  };
  for (LayerKind& kind : eight.model.kinds) {
    auto* softmax = std::get_if<SoftmaxAttention>(&kind.attention);
    REQUIRE(softmax != nullptr);
    softmax->reach = Reach::Sliding, softmax->window = 16;
  }
  // 32,768 tokens x (32 + 8 + 8 + 32) heads of 128 x 2 bytes in each of 32 layers, at 3.35 TB/s.
  CHECK(cores("tp=1,dp=8,mbs=1,gbs=8,seq=32768").value() > 32 * 32768.0 * 80 * 128 * 2 / 3.35e12);
}

TEST_CASE("routing and permutation are several calls, experts without a grouped product more") {
  Eight eight;
  eight.model = *find_model("qwen3-30b-a3b", kData);
  eight.trainer = *find_trainer("megatron-core@0.15", kData);
  const auto calls = [&](const char* on) {
    const std::string text = "dp=8,ep=8,zero=1,gbs=64,seq=4096";
    return eight.pieces((text + on).c_str()).kinds.front().forward.calls;
  };
  const double grouped = calls(",on=grouped-gemm"), apart = calls("");
  // 16 experts: 0.7 x 16 instead of 4 for each of two products in 48 layers.
  CHECK(apart - grouped == doctest::Approx(48 * 2 * (0.7 * 16 - 4)));
}

TEST_CASE("a scale is on all parts, as a vendor's tuning is, but no machine beats its peak") {
  const Eight eight;
  const StepPieces pieces = eight.pieces("dp=8,zero=1,gbs=64,seq=4096");
  const StepTime usual = step_time(pieces, eight.stack);
  StepPieces recipe = pieces;
  recipe.tuned = true;
  CHECK(step_time(recipe, eight.stack).step / usual.step ==
        doctest::Approx(eight.stack.at(StackConstant::Tuned)));
  StackConstants other = eight.stack;
  double& scale = other.values[static_cast<std::size_t>(StackConstant::Scale)];
  scale = 1.2;
  CHECK(step_time(pieces, other).step.value() == doctest::Approx(1.2 * usual.step.value()));
  scale = 0.1;
  CHECK(step_time(pieces, other).step.value() == doctest::Approx(usual.bound.value()));
}

TEST_CASE("a mixed cluster has the pace of its slowest") {
  const Eight mixed("8xH200+8xA100-40GB"), slow("16xA100-40GB");
  const char* text = "dp=16,mbs=1,gbs=64,seq=4096";
  CHECK(part(mixed.time(text), TimePart::Products) == part(slow.time(text), TimePart::Products));
}

TEST_CASE("a mixed cluster takes as long whichever of its groups is named first") {
  const char* text = "dp=24,zero=1,mbs=1,gbs=96,seq=4096";
  const Eight one("16xH100+8xA100-80GB"), other("8xA100-80GB+16xH100");
  const StepTime time = one.time(text);
  CHECK(time.step == other.time(text).step);
  CHECK(time.high == other.time(text).high);
  // Gradients leave a node over its adapters, of which an A100's are the slower: as long as where
  // all are A100, and not as within a node.
  const StepTime slow = Eight("24xA100-80GB").time(text);
  CHECK(part(time, TimePart::Data) / part(slow, TimePart::Data) > 0.8);
  CHECK(part(time, TimePart::Data) / part(slow, TimePart::Data) < 1.25);
  CHECK(Eight("8xH100+8xA100-80GB").time("dp=16,zero=1,mbs=1,gbs=64,seq=4096").step ==
        Eight("8xA100-80GB+8xH100").time("dp=16,zero=1,mbs=1,gbs=64,seq=4096").step);
}

TEST_CASE("under DeepSpeed's ZeRO-3 the host sees to every module before it runs") {
  Eight eight("8xA100-80GB");
  eight.trainer = *find_trainer("deepspeed", kData);
  const auto asked = [&](const char* text) { return eight.pieces(text).kinds.front(); };
  // q, k, v, o, gate, up, down and two norms in each of 32 layers; embedding, last norm, head.
  const StagePieces plain = asked("zero=3,mbs=1,gbs=64,seq=128");
  CHECK(plain.forward.modules == 32 * 9 + 3);
  CHECK(plain.backward_weight.modules == 0);
  const StagePieces again = asked("zero=3,mbs=1,gbs=64,seq=128,recompute=full");
  // Of a layer that is run again, the last product is not.
  CHECK(again.backward_input.modules - plain.backward_input.modules == 32 * 8);
  // 0.4 ms for each, forward and backward, in each of eight micro-batches; the device waits.
  const StepTime three = eight.time("zero=3,mbs=1,gbs=64,seq=128");
  CHECK(three.step.value() > 291 * 2 * 0.4e-3 * 8);
  const StepTime two = eight.time("zero=2,mbs=1,gbs=64,seq=128");
  CHECK((part(three, TimePart::Host) - part(two, TimePart::Host)).value() >
        291 * 2 * 0.4e-3 * 8 * 0.8);
  // With 8,192 tokens of each micro-batch the device takes longer.
  CHECK(part(eight.time("zero=3,mbs=1,gbs=64,seq=8192"), TimePart::Host) < three.step * 0.1);
}

TEST_CASE("states on the host are stepped at its pace, weights there come for every pass") {
  Eight eight("8xA100-80GB");
  eight.trainer = *find_trainer("deepspeed", kData);
  const char* text = "zero=3,mbs=1,gbs=64,seq=4096";
  const auto rank = [&](const char* away) {
    return eight.pieces((std::string(text) + away).c_str()).ranks.front();
  };
  const RankPieces here = rank(""), states = rank(",offload=optimizer");
  const RankPieces both = rank(",offload=optimizer+parameters");
  // 6.74 B parameters of a node of eight ranks, 2 x 16 bytes each at 30 GB/s (masters, two states,
  // weights and gradients of two bytes), and weights of 6.74 B / 8 x 2 bytes over 32 GB/s.
  // Gradients go there in each micro-batch.
  CHECK(states.host_step.value() == doctest::Approx(7.19 + 0.05).epsilon(0.02));
  CHECK(states.crossed.value() == doctest::Approx(6.74e9 / 8 * 2 / 32e9).epsilon(0.02));
  CHECK(here.crossed == Seconds(0));
  CHECK(states.optimizer == Seconds(0));
  CHECK(here.host_step == Seconds(0));
  CHECK(states.every_forward == here.every_forward);
  CHECK((both.every_forward - here.every_forward).value() ==
        doctest::Approx(6.74e9 / 8 * 2 / 32e9).epsilon(0.02));
  CHECK((both.every_backward - here.every_backward).value() ==
        doctest::Approx((both.every_forward - here.every_forward).value()));
}

TEST_CASE("FSDP copies whole weights and gradients on the device, in every micro-batch") {
  Eight eight;
  eight.trainer = *find_trainer("torchtitan@0.2", kData);
  const auto rank = [&](const char* text) { return eight.pieces(text).ranks.front(); };
  const RankPieces three = rank("fsdp,zero=3,mbs=1,gbs=64,seq=4096");
  // 6.74 B weights in bf16, read and written; their gradients read in bf16 and written in fp32. At
  // 3.35 TB/s, of which copies reach most.
  const double forward = 6.74e9 * 4 / 3.35e12, backward = 6.74e9 * (4 + 6) / 3.35e12;
  CHECK(three.copied_forward.value() > forward);
  CHECK(three.copied_forward.value() < forward * 1.3);
  CHECK(three.copied_backward.value() ==
        doctest::Approx(three.copied_forward.value() * backward / forward).epsilon(1e-3));
  CHECK(three.copied == Seconds(0));
  // Gathered once, they are copied once. Stages of a pipeline do both once a step.
  CHECK(rank("fsdp,zero=2,mbs=1,gbs=64,seq=4096").copied_backward.value() ==
        doctest::Approx(three.copied_forward.value() * 6 / 4).epsilon(1e-3));
  const RankPieces staged = rank("fsdp,zero=2,pp=2,dp=4,mbs=1,gbs=64,seq=4096");
  CHECK(staged.copied_forward == Seconds(0));
  CHECK(staged.copied.value() ==
        doctest::Approx(three.copied_forward.value() / 2 * (4 + 6) / 4).epsilon(0.05));
  // They are streams, which nothing hides.
  StepPieces without = eight.pieces("fsdp,zero=3,mbs=1,gbs=64,seq=4096");
  const StepTime with = step_time(without, eight.stack);
  without.ranks.front().copied_forward = without.ranks.front().copied_backward = Seconds(0);
  CHECK((part(with, TimePart::Streams) - part(step_time(without, eight.stack), TimePart::Streams))
            .value() > (forward + backward) * 8 * 0.8);
}

TEST_CASE(
    "Muon multiplies every hidden matrix fifteen times, ranks that share states each a part") {
  Eight eight;
  eight.trainer = *find_trainer("megatron-core@0.16", kData);
  const auto orthogonal = [&](const char* text) {
    return eight.pieces(text).ranks.front().orthogonal.value();
  };
  CHECK(orthogonal("dp=8,zero=1,gbs=64,seq=4096") == 0);
  eight.job.optimizer = OptimizerKind::Muon;
  // 4 m^2 n + 2 m^3 each time: of 4,096 x 12,288, 4,096 x 4,096, 4,096 x 22,016 and 4,096 x 11,008
  // 3.865e12, five times in each of 32 layers; at 989 TFLOP/s 0.625 s, and not twice that.
  const double alone = orthogonal("dp=8,gbs=64,seq=4096");
  CHECK(alone > 0.625);
  CHECK(alone < 1.25);
  CHECK(orthogonal("dp=8,zero=1,gbs=64,seq=4096") == doctest::Approx(alone / 8));
  CHECK(orthogonal("pp=2,dp=4,gbs=64,seq=4096") == doctest::Approx(alone / 2));
  // Half as many columns or rows, of squares a quarter of what m^3 takes; smaller products are
  // slower.
  CHECK(orthogonal("tp=2,dp=4,gbs=64,seq=4096") == doctest::Approx(alone / 2).epsilon(0.1));
  const StepTime time = eight.time("dp=8,gbs=64,seq=4096");
  CHECK(part(time, TimePart::Optimizer).value() > alone);
}

TEST_CASE("activations on the host go there and come back in every micro-batch") {
  Eight eight("8xA100-80GB");
  const char* text = "zero=1,mbs=1,gbs=64,seq=4096";
  const std::string away = std::string(text) + ",offload=activations";
  const RankPieces rank = eight.pieces(away.c_str()).ranks.front();
  CHECK(eight.pieces(text).ranks.front().offloaded == Seconds(0));
  // 34 bytes of each of 4,096 tokens x 4,096 elements in 32 layers without attention scores, less
  // dropout's masks and what norms and products share: 16 to 34 GB over 32 GB/s.
  CHECK(rank.offloaded.value() > 0.4);
  CHECK(rank.offloaded.value() < 1.1);
  const StepTime here = eight.time(text), there = eight.time(away.c_str());
  // Megatron copies beside other layers: each pass takes at least as long as its copies.
  CHECK(there.step >= rank.offloaded * 16.0);
  CHECK(there.step > here.step);
  CHECK(part(there, TimePart::Offload) > Seconds(0));
  CHECK(part(there, TimePart::Offload) < rank.offloaded * 16.0);
  Seconds sum;
  for (const Seconds one : there.parts) sum += one;
  CHECK(sum.value() == doctest::Approx(there.step.value()));

  // DeepSpeed waits for its copies: of 32 checkpoints of 4,096 tokens x 4,096 x 2 bytes.
  eight.trainer = *find_trainer("deepspeed", kData);
  const char* again = "zero=1,mbs=1,gbs=64,seq=4096,recompute=full,offload=activations";
  const Seconds checkpoints = eight.pieces(again).ranks.front().offloaded;
  CHECK(checkpoints.value() == doctest::Approx(32 * 4096.0 * 4096 * 2 / 32e9).epsilon(0.02));
  const double scale = part(eight.time(again), TimePart::Offload) / checkpoints;
  CHECK(scale > 8 * 2 * 0.7);
  CHECK(scale < 8 * 2 * 1.5);
}

TEST_CASE(
    "the interval of a step is by the rule of its stack, and reaches further where it is slow") {
  Eight eight("64xH100");
  eight.stack.spread = 0.4;
  eight.stack.width = {.least = 0.3, .rest = 1, .nodes = 0.1, .slow = 1.5};
  const StepTime time = eight.time("tp=8,sp,dp=8,zero=1,gbs=64,seq=4096");
  const double alone =
      (part(time, TimePart::Products) + part(time, TimePart::AttentionCores)) / time.step;
  // Eight nodes are three doublings.
  CHECK(time.unsure == doctest::Approx((0.3 + 1 - alone) * 1.3));
  CHECK(std::log(time.high / time.step) == doctest::Approx(0.4 * time.unsure * 1.5));
  CHECK(std::log(time.step / time.low) == doctest::Approx(0.4 * time.unsure));
}

TEST_CASE("the gradient of a tied embedding is summed over first and last stage, behind nothing") {
  Eight cluster("16xH100");
  const char* text = "pp=4,dp=4,zero=1,gbs=64,seq=4096";
  const StepPieces untied = cluster.pieces(text);
  cluster.model.tied = true;
  const StepPieces tied = cluster.pieces(text);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(untied.ranks[rank].embedding == Seconds(0));
    CHECK((tied.ranks[rank].embedding > Seconds(0)) == (rank == 0 || rank == 3));
  }
  // 32,000 x 4,096 numbers of 4 bytes, once each way at 50 GB/s: 10.5 ms, and what a network loses.
  CHECK(tied.ranks[3].embedding.value() > 0.0105);
  CHECK(tied.ranks[3].embedding.value() < 0.0210);
  // The last stage has as much to reduce and to step as with a head of its own.
  CHECK(tied.ranks[3].reduced == untied.ranks[3].reduced);
  CHECK(tied.ranks[3].optimizer == untied.ranks[3].optimizer);
  const Seconds more = part(step_time(tied, cluster.stack), TimePart::Data) -
                       part(step_time(untied, cluster.stack), TimePart::Data);
  CHECK(more.value() >= tied.ranks[3].embedding.value() * 0.99);
  // One stage has one table, and frozen ones have no gradient.
  CHECK(cluster.pieces("dp=16,zero=1,gbs=64,seq=4096").ranks[0].embedding == Seconds(0));
  cluster.job.frozen.insert(Part::Embedding);
  CHECK(cluster.pieces(text).ranks[3].embedding == Seconds(0));
}

}  // namespace
}  // namespace trainwright
