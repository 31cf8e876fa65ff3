#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/layout/layout.h"
#include "trainwright/testing/layout_cases.h"

namespace trainwright {
namespace {

using testing::gpt;
using testing::h100s;
using testing::moe;
using testing::permissive;

// A legal layout of a small model on 64 accelerators; each test changes what it is about.
struct Try {
  Layout layout;
  Job job;
  Model model = gpt();
  Cluster cluster = h100s(64);
  Trainer trainer = permissive();

  explicit Try(std::string_view text)
      : layout(parse_layout(text, {.world = 64, .usual = {}}).value().layout) {}

  std::vector<LayoutViolation> found() const {
    return violations(layout, job, model, cluster, trainer);
  }
  std::vector<std::string> ids() const {
    std::vector<std::string> names;
    for (const LayoutViolation& violation : found()) names.push_back(violation.id);
    return names;
  }
  // The only thing that is wrong.
  LayoutViolation only() const {
    const auto list = found();
    REQUIRE_MESSAGE(list.size() == 1, list.size(), " found");
    return list[0];
  }
};

using Ids = std::vector<std::string>;

TEST_CASE("a layout whose degrees divide everything is legal") {
  CHECK(Try("tp=8,pp=2,gbs=64").ids() == Ids{});
  CHECK(Try("tp=4,pp=4,vpp=2,sp,zero=1,gbs=64,recompute=selective").ids() == Ids{});
  CHECK(Try("cp=4,pp=2,fsdp,gbs=64").ids() == Ids{});
  CHECK(Try("pp=4,vpp=2,schedule=zb-v,gbs=64").ids() == Ids{});
}

TEST_CASE("a vocabulary over the pipeline needs a trainer that does it, and a pipeline") {
  Try spread("pp=4,vocab_parallel,gbs=64");
  CHECK(spread.only().id == "vocab-parallel-offered");
  spread.trainer.pipeline.vocab_parallel = true;
  CHECK(spread.ids() == Ids{});
  spread.layout.pp = 1;
  spread.layout.dp = 64;
  spread.layout.schedule = ScheduleKind::None;
  CHECK(spread.only().id == "vocab-parallel-needs-a-pipeline");
}

TEST_CASE("the degrees must use every accelerator") {
  const LayoutViolation found = Try("tp=8,pp=2,dp=2,gbs=64").only();
  CHECK(found.id == "world-splits");
  CHECK(found.reason == "tp 8 x pp 2 x cp 1 x dp 2 is 32 ranks, the cluster has 64 accelerators");
  CHECK(found.hint == "dp=4 uses all of them; `--on 32xh100s` is a part");
  CHECK(Try("tp=8,pp=3,dp=4,gbs=64").found()[0].hint == "tp x pp x cp must divide 64");
}

TEST_CASE("the global batch is micro-batches on every data-parallel rank") {
  const LayoutViolation found = Try("tp=8,mbs=2,gbs=100").only();
  CHECK(found.id == "batch-splits");
  CHECK(found.reason == "a global batch of 100 is not a multiple of mbs 2 x dp 8 = 16");
  CHECK(found.hint == "the nearest are gbs=96 and gbs=112");
}

TEST_CASE("heads split over tensor parallel ranks, and the hint lists how") {
  Try wide("tp=8,gbs=64");
  wide.model = gpt({.hidden = 5120, .heads = 20, .kv_heads = 4, .ffn = 20480});
  const LayoutViolation found = wide.only();
  CHECK(found.id == "heads-split-tp");
  CHECK(found.reason == "20 heads do not split 8 ways");
  CHECK(found.hint == "tp may be 1, 2, 4, 5, 10, 20");
}

TEST_CASE("key-value heads split or repeat") {
  Try repeated("tp=8,gbs=64");
  repeated.model = gpt({.heads = 16, .kv_heads = 4});
  CHECK(repeated.ids() == Ids{});
  Try uneven("tp=8,gbs=64");
  uneven.model = gpt({.hidden = 1536, .heads = 24, .kv_heads = 6});
  CHECK(uneven.only().id == "kv-heads-split-tp");
}

TEST_CASE("widths split over the ranks that share them") {
  Try dense("tp=8,gbs=64");
  dense.model = gpt({.ffn = 4100});
  CHECK(dense.only().id == "ffn-splits-tp");
  Try expert("tp=8,etp=8,gbs=64");
  expert.model = moe(8, 1020);
  CHECK(expert.ids() == Ids{"expert-ffn-splits-etp", "shared-ffn-splits-tp"});
  expert.layout.etp = 1;
  CHECK(expert.only().id == "shared-ffn-splits-tp");
}

TEST_CASE("a vocabulary that does not split is padded") {
  Try padded("tp=8,gbs=64");
  padded.model = gpt({.vocabulary = 50257});
  const LayoutViolation found = padded.only();
  CHECK(found.id == "vocabulary-splits-tp");
  CHECK(found.severity == Severity::Advice);
  CHECK(found.hint == "the next multiple is 50264");
  // Megatron-LM training/tokenizer: multiples of 128 x tp, here of 1024.
  padded.trainer.code.vocabulary_multiple = 128;
  CHECK(padded.only().hint == "the next multiple is 51200");
  CHECK(is_legal(padded.found()));
}

TEST_CASE("experts split over expert parallel ranks, and need to be there") {
  Try split("ep=16,gbs=64");
  split.model = moe(24, 1024);
  CHECK(split.only().id == "experts-split-ep");
  CHECK(split.only().hint == "ep may be 1, 2, 3, 4, 6, 8, 12, 24");
  CHECK(Try("ep=8,gbs=64").only().id == "ep-needs-experts");
}

TEST_CASE("expert ranks fold into the ranks of one pipeline rank") {
  Try folded("tp=2,pp=2,dp=16,ep=32,etp=2,gbs=64");
  folded.model = moe(32, 1024);
  const LayoutViolation found = folded.only();
  CHECK(found.id == "expert-ranks-split");
  CHECK(found.reason == "etp 2 x ep 32 does not divide tp 2 x cp 1 x dp 16 = 32 ranks");
  CHECK(found.hint == "ep may be 1, 2, 4, 8, 16");
}

TEST_CASE("experts and dense weights must have the same pipeline") {
  Try crossed("tp=2,pp=2,dp=16,ep=4,etp=1,order=tp-cp-ep-pp-dp,gbs=64");
  crossed.model = moe(8, 1024);
  CHECK(crossed.only().id == "expert-pipeline-same");
  crossed.layout.ep = 2;  // etp 1 x ep 2 = tp 2 x cp 1
  CHECK(crossed.ids() == Ids{});
}

TEST_CASE("the sequence splits over context parallel ranks, two parts each, and over sp") {
  CHECK(Try("cp=4,seq=2052,gbs=64").only().id == "sequence-splits-cp");
  CHECK(Try("cp=4,seq=2052,gbs=64").only().hint == "the nearest are seq=2048 and seq=2056");
  CHECK(Try("cp=4,seq=2052,cp_kind=ulysses,gbs=64").ids() == Ids{});
  CHECK(Try("tp=8,sp,seq=2044,gbs=64").only().id == "sequence-splits-sp");
  CHECK(Try("tp=8,seq=2044,gbs=64").ids() == Ids{});
}

TEST_CASE("the all-to-all of context parallelism splits the heads that tp leaves") {
  const LayoutViolation found = Try("tp=4,cp=8,cp_kind=ulysses,gbs=64").only();
  CHECK(found.id == "heads-split-ulysses");
  CHECK(found.hint == "cp may be up to 4");
  CHECK(Try("tp=4,cp=8,cp_kind=ulysses-ring,cp_ulysses=4,gbs=64").ids() == Ids{});
  CHECK(Try("cp=8,cp_kind=ulysses-ring,cp_ulysses=3,seq=4096,gbs=64").ids() ==
        Ids{"ulysses-splits-cp"});
  CHECK(Try("cp=8,cp_kind=ulysses-ring,gbs=64").only().id == "ulysses-splits-cp");
}

TEST_CASE("learned positions end, promised ones are advice") {
  Try learned("seq=4096,gbs=64");
  learned.model.positions = Positions::Learned;
  learned.model.learned_positions = 2048;
  CHECK(learned.only().id == "sequence-has-positions");
  Try promised("seq=4096,gbs=64");
  promised.model.sequence_most = 2048;
  CHECK(promised.only().id == "sequence-promised");
  CHECK(promised.only().hint == "extend the rotary positions, or shorten the sequence");
  promised.model.positions = Positions::Alibi;
  CHECK(promised.only().hint == "shorten the sequence");
  CHECK(promised.only().severity == Severity::Advice);
}

TEST_CASE("layers are dealt out to stages, of which some may be empty") {
  // DeepSpeed leaves stages empty; who does not says so by a rule.
  CHECK(Try("pp=16,gbs=64").ids() == Ids{});
  CHECK(Try("pp=4,layers=0/4/4/0,gbs=64").ids() == Ids{});
  // Six layers on eight stages when embedding and loss count as one each.
  Try ends("pp=8,count_embedding,count_loss,gbs=64");
  ends.model = gpt({.layers = 6});
  CHECK(ends.ids() == Ids{});
  CHECK(Try("pp=4,layers=1/4/4/1,gbs=64").only().id == "layers-dealt-out");
  CHECK(Try("pp=4,layers=4/4,gbs=64").only().id == "layers-dealt-out");
  CHECK(Try("pp=2,first_layers=9,gbs=64").only().id == "layers-dealt-out");
}

TEST_CASE("there is one way to split the layers") {
  CHECK(Try("pp=4,layers=2*4,count_loss,gbs=64").only().id == "one-way-to-split");
  CHECK(Try("pp=4,first_layers=2,count_embedding,gbs=64").only().id == "one-way-to-split");
}

TEST_CASE("MTP modules sit on a stage there is") {
  CHECK(Try("pp=4,mtp_stage=4,gbs=64").only().id == "mtp-on-a-stage");
}

TEST_CASE("a pipeline needs a schedule made for its chunks and their places") {
  CHECK(Try("pp=4,schedule=none,gbs=64").only().id == "pipeline-needs-a-schedule");
  CHECK(Try("vpp=2,gbs=64").only().id == "chunks-need-a-pipeline");
  CHECK(Try("pp=4,vpp=2,schedule=1f1b,gbs=64").only().id == "one-stage-per-rank");
  CHECK(Try("pp=2,vpp=4,schedule=zb-v,gbs=64").only().id == "v-has-two-stages");
  CHECK(Try("pp=4,schedule=interleaved-1f1b,gbs=64").only().id == "several-stages-per-rank");
  const LayoutViolation found = Try("pp=4,vpp=2,schedule=zb-v,placement=loop,gbs=64").only();
  CHECK(found.id == "schedule-placement");
  CHECK(found.hint == "placement=v");
}

TEST_CASE("recompute is stated for every stage and of things there are") {
  CHECK(Try("pp=4,recompute=full*3,gbs=64").only().id == "recompute-of-every-stage");
  Try nothing("gbs=64");
  nothing.layout.recompute.kind = RecomputeKind::Modules;
  CHECK(nothing.only().id == "recompute-says-what");
  const LayoutViolation found = Try("recompute=modules:norm+moe,gbs=64").only();
  CHECK(found.id == "recompute-finds-module");
  CHECK(found.severity == Severity::Advice);
  CHECK(Try("recompute=modules:mla-up-projection,gbs=64").only().id == "recompute-finds-module");
}

TEST_CASE("zero and the kind of sharding must agree, and shards divide dp") {
  CHECK(Try("sharding=ddp,zero=1,gbs=64").only().id == "zero-means-sharding");
  CHECK(Try("sharding=fsdp,zero=1,gbs=64").only().id == "zero-means-sharding");
  Try replicas("hsdp,gbs=64");
  replicas.layout.dp_replicate = 3;
  CHECK(replicas.only().id == "data-parallel-splits");
  CHECK(Try("sharding=fsdp,dp_replicate=2,gbs=64").only().id == "fsdp-is-one-replica");
  const LayoutViolation alone = Try("hsdp,gbs=64").only();
  CHECK(alone.id == "hsdp-has-replicas");
  CHECK(alone.hint == "give dp_shard, for instance dp_shard=8, or use fsdp");
  CHECK(Try("hsdp,dp_shard=8,gbs=64").ids() == Ids{});
}

TEST_CASE("tensor parallelism beyond the scale-up links is legal, with advice") {
  CHECK(Try("tp=8,gbs=64").ids() == Ids{});
  const LayoutViolation found = Try("tp=16,gbs=64").only();
  CHECK(found.id == "tp-in-scale-up");
  CHECK(found.severity == Severity::Advice);
  CHECK(found.reason == "tp 16 reaches beyond the scale-up links, which join 8 of its ranks");
}

TEST_CASE("a switch is on or off") {
  CHECK(Try("on=compile,off=compile,gbs=64").only().id == "on-or-off");
}

TEST_CASE("a precision needs a unit in the hardware") {
  CHECK(Try("precision=fp8-delayed,gbs=64").ids() == Ids{});
  const LayoutViolation found = Try("precision=mxfp8,gbs=64").only();
  CHECK(found.id == "precision-in-hardware");
  CHECK(found.reason == "H100 has no unit for mxfp8");
  // What it does multiply in 8 bits comes first, where the trainer offers a recipe for it.
  CHECK(found.hint == "precision=fp8-delayed, or bf16");
  CHECK(Try("precision=nvfp4,gbs=64").only().id == "precision-in-hardware");
}

TEST_CASE("adapters find their targets and something is trained") {
  Try lora("gbs=64");
  lora.job = parse_job("lora=8:query+valeu").value();
  CHECK(lora.only().id == "lora-finds-target");
  CHECK(lora.only().hint == "did you mean 'value'?");
  // A dense model has no experts; the words of Hugging Face and Megatron mean what is there.
  lora.job = parse_job("lora=8:expert_down").value();
  CHECK(lora.only().id == "lora-finds-target");
  lora.job = parse_job("lora=8:q_proj+o_proj+down-proj+linear_fc1").value();
  CHECK(lora.ids() == Ids{});
  lora.job = parse_job("qlora=8").value();
  CHECK(lora.only().id == "base-offered");
  lora.trainer.adapters.bases = {FrozenBase::Nf4, FrozenBase::Fp8};
  lora.job = parse_job("qlora=8,prepared=peft").value();
  CHECK(lora.only().id == "prepared-offered");
  lora.trainer.adapters.prepared = {Prepared::Peft};
  CHECK(lora.ids() == Ids{});
  lora.job = parse_job("lora=8,base=fp8,prepared=peft").value();
  CHECK(lora.only().id == "prepared-for-few-bits");
  Try layers("gbs=64");
  layers.job.frozen_layers = 9;
  CHECK(layers.only().id == "frozen-layers-exist");
  Try frozen("gbs=64");
  frozen.job.frozen.bits = 0xff;  // every part
  CHECK(frozen.only().id == "something-trains");
}

TEST_CASE("values nothing can be divided by stop the check") {
  Try zero("gbs=64");
  zero.layout.tp = 0;
  zero.layout.mbs = -1;
  CHECK(zero.ids() == Ids{"in-range", "in-range"});
}

TEST_CASE("a cluster of several kinds of accelerators is placed as its first") {
  Try mixed("gbs=64");
  mixed.cluster = h100s(32);
  mixed.cluster.groups.push_back(mixed.cluster.groups[0]);
  CHECK(mixed.only().id == "one-kind-of-accelerator");
  CHECK(mixed.only().severity == Severity::Advice);
}

TEST_CASE("a trainer offers only what its lists hold") {
  const auto without = [](std::string_view text, auto&& change) {
    Try asked(text);
    change(asked.trainer);
    return asked.only().id;
  };
  const auto clear = [](auto member) { return [member](Trainer& t) { (t.*member).clear(); }; };
  CHECK(without("pp=2,gbs=64", clear(&Trainer::schedules)) == "schedule-offered");
  CHECK(without("gbs=64", clear(&Trainer::precisions)) == "precision-offered");
  CHECK(without("gbs=64", clear(&Trainer::optimizers)) == "optimizer-offered");
  CHECK(without("fsdp,gbs=64", clear(&Trainer::shardings)) == "sharding-offered");
  CHECK(without("recompute=full,gbs=64", clear(&Trainer::recomputes)) == "recompute-offered");
  CHECK(without("cp=2,gbs=64", clear(&Trainer::cp_kinds)) == "cp_kind-offered");
  CHECK(without("offload=optimizer,gbs=64", clear(&Trainer::offloads)) == "offload-offered");
  CHECK(without("on=overlap-tp,gbs=64", clear(&Trainer::overlaps)) == "switch-offered");
  CHECK(without("loss=chunked,gbs=64", clear(&Trainer::losses)) == "loss-offered");
  CHECK(without("off=overlap-p2p,gbs=64", [](Trainer& t) {
          for (Overlap& overlap : t.overlaps) overlap.use = Use::Always;
        }) == "switch-offered");
  CHECK(without("pp=4,vpp=2,gbs=64", [](Trainer& t) {
          for (TrainerSchedule& schedule : t.schedules) schedule.placement = StagePlacement::V;
        }) == "placement-offered");
}

TEST_CASE("the loss that runs is the one asked for, the compiled one with compile, or the first") {
  Trainer trainer = permissive();
  const auto named = [&](std::string_view layout) {
    return trainer.losses[running_loss(parse_layout(layout).value().layout, trainer)].name;
  };
  const auto loss = [](std::string name, Use use, bool with_compile) {
    Loss made;
    made.name = std::move(name);
    made.use = use;
    made.with_compile = with_compile;
    return made;
  };
  trainer.losses = {loss("eager", Use::ByDefault, false), loss("chunked", Use::OptIn, false),
                    loss("compiled", Use::ByDefault, true)};
  CHECK(named("tp=1") == "eager");
  CHECK(named("on=compile") == "compiled");
  CHECK(named("loss=chunked,on=compile") == "chunked");
  trainer.losses.pop_back();
  CHECK(named("on=compile") == "eager");
  // What a run's own file names comes first and runs with and without.
  trainer.losses.insert(trainer.losses.begin(), loss("compiled", Use::Always, true));
  CHECK(named("tp=1") == "compiled");
  CHECK(named("on=compile") == "compiled");
}

TEST_CASE("what a trainer does unasked holds where the layout is silent") {
  Trainer trainer = permissive();
  const Layout silent;
  CHECK(!asks(silent, Switch::OverlapP2p, trainer));
  for (Overlap& overlap : trainer.overlaps) overlap.use = Use::ByDefault;
  CHECK(asks(silent, Switch::OverlapP2p, trainer));
  CHECK(!asks(parse_layout("off=overlap-p2p").value().layout, Switch::OverlapP2p, trainer));
}

TEST_CASE("a trainer's rule is checked against the facts and explained with them") {
  Try ruled("pp=4,vpp=2,mbs=1,gbs=48");
  Rule rule;
  rule.id = "interleave-micro-batches";
  rule.when = parse_expression("vpp > 1", "test").value();
  rule.require = parse_expression("micro_batches % pp == 0", "test").value();
  rule.reason = "{micro_batches} micro-batches are no multiple of pp {pp}";
  rule.source = "a source";
  ruled.trainer.rules.push_back(rule);
  const LayoutViolation found = ruled.only();  // 48 / 16 = 3
  CHECK(found.id == "interleave-micro-batches");
  CHECK(found.reason == "3 micro-batches are no multiple of pp 4");
  CHECK(found.source == "a source");
  ruled.layout.gbs = 64;
  CHECK(ruled.ids() == Ids{});
}

TEST_CASE("what arithmetic has found is not said again by a rule of the same name") {
  Try twice("tp=8,mbs=2,gbs=100");
  Rule rule;
  rule.id = "batch-splits";
  rule.require = parse_expression("gbs % (mbs * dp) == 0", "test").value();
  twice.trainer.rules.push_back(rule);
  CHECK(twice.only().hint == "the nearest are gbs=96 and gbs=112");
}

TEST_CASE("every variable of the rules is known but the environment's") {
  Try any("tp=8,pp=2,gbs=64");
  any.cluster.groups[0].accelerator.compute_capability = 9;
  for (PrecisionFacts& precision : any.trainer.precisions) precision.gradients = {"fp32"};
  const Facts known = facts(any.layout, any.job, any.model, any.cluster, any.trainer);
  for (std::size_t v = 0; v < kVariableCount; ++v) {
    const auto variable = static_cast<Variable>(v);
    CAPTURE(name_of(variable));
    CHECK(known.value(variable).has_value() ==
          (variable != Variable::MaxConnections && variable != Variable::TransformerEngine &&
           variable != Variable::Cuda));
  }
}

TEST_CASE("whether a backward is split is told by the kind of schedule, or by the order itself") {
  Try any("tp=8,pp=2,gbs=64");
  const auto split = [&](ScheduleKind kind, const Schedule* order) {
    any.layout.schedule = kind;
    return facts(any.layout, any.job, any.model, any.cluster, any.trainer, order)
        .value(Variable::SplitBackward);
  };
  const Schedule whole = make(ScheduleKind::OneFOneB, {.ranks = 2, .microbatches = 4}).value();
  const Schedule halves = make(ScheduleKind::ZbH1, {.ranks = 2, .microbatches = 4}).value();
  CHECK(split(ScheduleKind::OneFOneB, nullptr) == 0);
  CHECK(split(ScheduleKind::ZbV, nullptr) == 1);
  CHECK(split(ScheduleKind::Csv, nullptr) == std::nullopt);
  CHECK(split(ScheduleKind::Csv, &whole) == 0);
  CHECK(split(ScheduleKind::Csv, &halves) == 1);
}

TEST_CASE("facts are the numbers of the layout, the model and the machine") {
  Try any(
      "tp=2,pp=2,vpp=2,dp=16,ep=4,etp=1,sp,zero=1,gbs=64,seq=4096,max_connections=1,"
      "recompute=modules:norm+mlp,on=overlap-tp,offload=optimizer,precision=fp8-delayed,"
      "first_layers=2,count_loss");
  any.model = moe(8, 1024, 1, 1);
  any.cluster.groups[0].accelerator.peak[ComputeType::Fp4] = FlopsPerSecond(1e15);
  any.cluster.groups[0].accelerator.compute_capability = 9;
  any.trainer.libraries.transformer_engine = {2, 11, 0};
  any.trainer.libraries.cuda = {12, 9, 1};
  const Facts known = facts(any.layout, any.job, any.model, any.cluster, any.trainer);
  const auto is = [&](Variable variable, std::int64_t value) {
    CAPTURE(name_of(variable));
    CHECK(known.value(variable) == value);
  };
  const auto is_kind = [&](Variable variable, std::string_view kind) {
    CHECK(symbols(variable)[static_cast<std::size_t>(known.value(variable).value())] == kind);
  };
  is(Variable::World, 64);
  is(Variable::Stages, 4);
  is(Variable::DpShard, 16);
  is(Variable::DpReplicate, 1);
  is(Variable::MicroBatches, 4);
  is(Variable::MicroBatchGroup, 2);
  is(Variable::Heads, 16);
  is(Variable::HeadDim, 64);
  is(Variable::Ffn, 4096);
  is(Variable::MoeFfn, 1024);
  is(Variable::Experts, 8);
  is(Variable::TopK, 2);
  is(Variable::SharedExperts, 1);
  is(Variable::MtpLayers, 1);
  is(Variable::OwnHeadDim, 0);
  is(Variable::Windows, 0);
  is(Variable::LinearHeads, 0);
  is(Variable::MtpStage, 3);
  is(Variable::LayersBehindMtp, 0);
  is(Variable::RecomputeLayers, 1);
  is(Variable::Ulysses, 1);
  is(Variable::SplitBackward, 0);
  is(Variable::LossChunks, 1);
  is(Variable::FirstStageLayers, 2);
  is(Variable::LeastStageLayers, 1);
  is(Variable::CountLoss, 1);
  is(Variable::CountEmbedding, 0);
  is(Variable::RecomputeNorm, 1);
  is(Variable::RecomputeMlp, 1);
  is(Variable::RecomputeMoe, 0);
  is(Variable::OverlapTp, 1);
  is(Variable::OverlapP2p, 0);
  is(Variable::OffloadOptimizer, 1);
  is(Variable::Prepared, 0);
  is(Variable::NodeSize, 8);
  is(Variable::Blackwell, 1);
  is(Variable::Capability, 90);
  is(Variable::MaxConnections, 1);
  is(Variable::TransformerEngine, 211);
  is(Variable::Cuda, 1209);
  is_kind(Variable::Split, "uneven");
  is_kind(Variable::Schedule, "interleaved-1f1b");
  is_kind(Variable::Placement, "loop");
  is_kind(Variable::Recompute, "modules");
  is_kind(Variable::Precision, "fp8-delayed");
  is_kind(Variable::FrozenBase, "as-weights");
  is_kind(Variable::Optimizer, "adamw");
  is_kind(Variable::Sharding, "zero");
  is_kind(Variable::Dispatcher, "all-to-all");
  is_kind(Variable::CpKind, "ring");
}

TEST_CASE("the largest jobs are checked without overflow") {
  // 10T parameters in 1,024 experts, 1M-token sequences, 131,072 accelerators.
  Try large("gbs=64");
  large.model = moe(1024, 4096, 3, 1,
                    {.layers = 128,
                     .hidden = 16384,
                     .heads = 128,
                     .kv_heads = 16,
                     .ffn = 65536,
                     .vocabulary = 262144});
  large.cluster = h100s(131072);
  large.layout =
      parse_layout("tp=8,cp=16,pp=16,vpp=4,ep=128,etp=1,sp,zero=1,mbs=1,gbs=8192,seq=1048576",
                   {.world = 131072, .usual = {}})
          .value()
          .layout;
  CHECK(parameters(large.model).total() > Params(10'000'000'000'000));
  CHECK(large.layout.dp == 64);
  CHECK(large.ids() == Ids{});
  CHECK(tokens_per_step(large.layout) == Tokens(std::int64_t{1} << 33));
  // The largest degrees that can be read.
  large.layout = parse_layout(
                     "tp=16777216,pp=16777216,dp=16777216,cp=16777216,ep=16777216,"
                     "vpp=16777216,mbs=2147483648,gbs=2147483648,seq=2147483648")
                     .value()
                     .layout;
  CHECK(!is_legal(large.found()));
}

}  // namespace
}  // namespace trainwright
