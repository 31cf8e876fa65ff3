#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/layout/layout.h"
#include "trainwright/testing/layout_cases.h"

namespace trainwright {
namespace {

Layout layout_of(std::string_view text) { return parse_layout(text).value().layout; }

Diagnostics faults_of(std::string_view text) { return parse_layout(text).error().diagnostics; }

TEST_CASE("the text of a layout says every degree once and prints as it was typed") {
  const std::string text =
      "tp=8,pp=4,vpp=2,dp=2,sp,zero=1,mbs=1,gbs=1024,seq=8192,recompute=selective";
  const Layout layout = layout_of(text);
  CHECK(layout.tp == 8);
  CHECK(layout.pp == 4);
  CHECK(layout.vpp == 2);
  CHECK(layout.dp == 2);
  CHECK(layout.sp);
  CHECK(layout.zero == 1);
  CHECK(layout.sharding == ShardingKind::Zero);
  CHECK(layout.gbs == 1024);
  CHECK(layout.seq == 8192);
  CHECK(layout.recompute.kind == RecomputeKind::Selective);
  CHECK(layout.schedule == ScheduleKind::InterleavedOneFOneB);
  CHECK(layout.placement == StagePlacement::Loop);
  CHECK(to_text(layout) == text);
}

TEST_CASE("names of kinds are those of the trainer's rules, in the same order") {
  const auto same = [](auto last, Variable variable) {
    REQUIRE(static_cast<std::size_t>(last) + 1 == symbols(variable).size());
    CHECK(name_of(last) == symbols(variable).back());
  };
  same(ShardingKind::MegatronFsdp, Variable::Sharding);
  same(ScheduleKind::Csv, Variable::Schedule);
  same(StagePlacement::V, Variable::Placement);
  same(PrecisionKind::Nvfp4, Variable::Precision);
  same(CpKind::UlyssesRing, Variable::CpKind);
  same(DispatcherKind::NcclEp, Variable::Dispatcher);
  same(OptimizerKind::AdamWForeach, Variable::Optimizer);
  same(RecomputeKind::Full, Variable::Recompute);
  CHECK(name_of(ScheduleKind::OneFOneB) == "1f1b");
  CHECK(name_of(ScheduleKind::InterleavedOneFOneB) == "interleaved-1f1b");
  CHECK(name_of(ScheduleKind::InterleavedZeroBubble) == "interleaved-zb");
  CHECK(name_of(ScheduleKind::ZbVpp) == "zb-vpp");
  CHECK(name_of(ScheduleKind::DualPipeV) == "dualpipe-v");
  CHECK(name_of(PrecisionKind::Bf16) == "bf16");
  CHECK(name_of(PrecisionKind::Fp8Blockwise) == "fp8-blockwise");
  CHECK(name_of(RecomputeKind::FeedForwardOnly) == "feed-forward");
  CHECK(name_of(RecomputeKind::OpSelective) == "op-selective");
  CHECK(name_of(RecomputeKind::Block) == "block");
  CHECK(name_of(OptimizerKind::AdamW8bit) == "adamw-8bit");
  CHECK(name_of(ShardingKind::Hsdp) == "hsdp");
  CHECK(name_of(CpKind::Ulysses) == "ulysses");
}

TEST_CASE("what is left out is filled in, and how is said") {
  const ReadLayout read = parse_layout("tp=8,pp=2,ep=4,mbs=2", {.world = 64, .usual = {}}).value();
  CHECK(read.layout.dp == 4);  // 64 / (8 x 2 x 1)
  CHECK(read.layout.etp == 8);
  CHECK(read.layout.gbs == 8);  // 2 x 4
  CHECK(read.layout.schedule == ScheduleKind::OneFOneB);
  const std::vector<std::string> notes = {
      "etp=8: as tp", "dp=4: 64 accelerators / (tp 8 x pp 2 x cp 1)",
      "gbs=8: one micro-batch for each of dp 4", "schedule=1f1b: the default for pp 2 and vpp 1"};
  CHECK(read.notes == notes);
}

TEST_CASE("what a trainer does unasked is taken where the text is silent") {
  Trainer trainer = testing::permissive();
  trainer.pipeline.first_stage_less_layers = 1;
  trainer.pipeline.last_stage_less_layers = 2;
  trainer.rank_order = "tp-cp-ep-pp-dp";
  const LayoutContext context{.world = std::nullopt, .usual = usual_layout(trainer)};
  const Layout split = parse_layout("pp=4", context).value().layout;
  CHECK(split.count_embedding == 1);
  CHECK(split.count_loss == 2);
  CHECK(split.order[3] == Axis::Pp);
  CHECK(parse_layout("pp=4,count_loss=0", context).value().layout.count_loss == 0);
  // Nothing is dealt out without a pipeline, or when the layers are stated.
  CHECK(parse_layout("pp=1", context).value().layout.count_loss == 0);
  CHECK(parse_layout("pp=4,layers=2*4", context).value().layout.count_embedding == 0);
}

TEST_CASE("where no dp fills the cluster, it is the largest that the cluster holds") {
  const auto read = parse_layout("tp=3", {.world = 64, .usual = {}});
  REQUIRE(read.has_value());
  CHECK(read->layout.dp == 21);
  CHECK(read->notes.front() == "dp=21: at most 64 accelerators / (tp 3 x pp 1 x cp 1)");
  CHECK(parse_layout("tp=128", {.world = 64, .usual = {}})->layout.dp == 1);
}

TEST_CASE("data parallelism is shards times replicas, any two of which give the third") {
  CHECK(layout_of("dp=16,dp_shard=8,hsdp").dp_replicate == 2);
  CHECK(layout_of("dp_shard=8,dp_replicate=4,hsdp").dp == 32);
  CHECK(dp_shard(layout_of("dp=32,dp_replicate=4,hsdp")) == 8);
  CHECK(faults_of("dp=16,dp_shard=3")[0].what == "dp_shard 3 x dp_replicate 5 is not dp 16");
}

TEST_CASE("zero and sharding imply each other") {
  CHECK(layout_of("zero=2").sharding == ShardingKind::Zero);
  CHECK(layout_of("zero=0").sharding == ShardingKind::Ddp);
  CHECK(layout_of("fsdp").zero == 3);
  CHECK(layout_of("fsdp").sharding == ShardingKind::Fsdp);
  CHECK(layout_of("sharding=fsdp,zero=2").zero == 2);
  CHECK(layout_of("sharding=zero").zero == 1);
  CHECK(faults_of("fsdp,hsdp")[0].what == "sharding is given twice");
}

TEST_CASE("recompute is one for all stages or a list with repeats") {
  CHECK(layout_of("recompute=full").recompute.kind == RecomputeKind::Full);
  CHECK(layout_of("recompute=full:2").recompute.n == 2);
  CHECK(layout_of("recompute=block:4").recompute ==
        Recompute{.kind = RecomputeKind::Block, .modules = {}, .n = 4});
  CHECK(layout_of("recompute=modules:norm+moe").recompute.modules ==
        Flags<RecomputeModule>{RecomputeModule::Norm, RecomputeModule::Moe});
  const Layout listed = layout_of("pp=8,recompute=full*2/none*5/every-nth:2");
  REQUIRE(listed.recompute_by_stage.size() == 8);
  CHECK(listed.recompute_by_stage[1].kind == RecomputeKind::Full);
  CHECK(listed.recompute_by_stage[2].kind == RecomputeKind::None);
  CHECK(listed.recompute_by_stage[7].n == 2);
  CHECK(layout_of(to_text(listed)) == listed);
}

TEST_CASE("layers are listed with repeats and order names every axis once") {
  CHECK(layout_of("pp=4,layers=1/2*2/3").layers == std::vector<std::int64_t>{1, 2, 2, 3});
  CHECK(layout_of("order=tp-cp-ep-pp-dp").order[3] == Axis::Pp);
  CHECK(faults_of("order=tp-tp-ep-dp-pp").size() == 1);
  CHECK(faults_of("order=tp-cp").size() == 1);
  CHECK(layout_of("order=tp-dp-pp") == layout_of("order=tp-cp-ep-dp-pp"));
}

TEST_CASE("keys and kinds may be typed in any case, with - or _") {
  CHECK(layout_of("TP=8,Dp-Replicate=2,dp=4,sharding=Megatron_FSDP") ==
        layout_of("tp=8,dp_replicate=2,dp=4,sharding=megatron-fsdp"));
}

TEST_CASE("ten mistakes give ten faults, each where it is") {
  const Diagnostics faults = faults_of(
      "tpp=8,pp=0,dp=x,sp=maybe,zero=4,schedule=1f1bb,recompute=most,layers=1/a,on=overlap-t2p,"
      "mbs,pp=2");
  CHECK(faults.size() == 11);
  const auto said = [&](std::string_view where, std::string_view what, std::string_view hint) {
    return std::any_of(faults.begin(), faults.end(), [&](const Diagnostic& fault) {
      return fault.where == where && fault.what == what && fault.hint == hint;
    });
  };
  CHECK(said("layout 'schedule=1f1bb'", "schedule cannot be '1f1bb'", "did you mean '1f1b'?"));
  CHECK(said("layout 'pp=0'", "0 is out of range", "1 to 16777216"));
  CHECK(said("layout 'dp=x'", "'x' is not a whole number", ""));
  CHECK(said("layout 'pp=2'", "pp is given twice", ""));
  CHECK(said("layout 'mbs'", "mbs needs a value", "write mbs=..."));
  const auto unknown = std::find_if(faults.begin(), faults.end(), [](const Diagnostic& fault) {
    return fault.what == "unknown key 'tpp'";
  });
  REQUIRE(unknown != faults.end());
  CHECK(unknown->hint.find("'tp'") != std::string::npos);
}

TEST_CASE("lists too long to be stages are refused, not built") {
  CHECK(faults_of("layers=1*1000000000000").size() == 1);
  CHECK(faults_of("layers=1*65536/1*65536").size() == 1);
  CHECK(faults_of("recompute=full*60000/none*60000").size() == 1);
}

TEST_CASE("a layout in JSON has the same keys, and faults have their places") {
  const Json good = parse_json(R"({
    "tp": 8, "pp": 2, "dp": 4, "sp": true, "gbs": 64, "layers": [3, 5],
    "recompute": ["full", "none"], "offload": ["optimizer", "activations"], "zero": 1})",
                               "l.json")
                        .value();
  const Layout layout = read_layout(good, "l.json").value().layout;
  CHECK(layout == layout_of("tp=8,pp=2,dp=4,sp,gbs=64,layers=3/5,recompute=full/none,"
                            "offload=optimizer+activations,zero=1"));
  CHECK(read_layout(to_json(layout), "again").value().layout == layout);

  const Json bad = parse_json("{\n\"tp\": 8.5,\n\"ppp\": 2, \"sp\": {}}", "l.json").value();
  const Diagnostics faults = read_layout(bad, "l.json").error().diagnostics;
  REQUIRE(faults.size() == 3);
  CHECK(faults[0].where == "l.json:2 /tp");
  CHECK(faults[1].where == "l.json:3 /sp");
  CHECK(faults[2].what == "unknown key 'ppp'");
}

TEST_CASE("entries given anew stand in place of what they name") {
  CHECK(amended("tp=8,PP = 4,sp", "pp=2,dp=4") == "tp=8,sp,pp=2,dp=4");
  CHECK(amended("fsdp,dp_shard=8", "dp=4,sharding=zero") == "dp=4,sharding=zero");
  CHECK(amended("tp=2", "") == "tp=2");
  CHECK(amended("", "tp=2") == "tp=2");
}

TEST_CASE("a change says what the words do not, also what they would imply or keep") {
  const auto change = [](std::string_view words, const char* to, const LayoutContext& context) {
    return change_to(words, parse_layout(to).value().layout, context);
  };
  const LayoutContext eight{.world = 8, .usual = {}};
  // dp follows from the world, and etp from tp.
  CHECK(change("tp=2,gbs=8", "tp=4,dp=2,gbs=8", eight) == "tp=4");
  CHECK(change("tp=2,dp=4,gbs=8", "tp=4,dp=2,gbs=8", eight) == "tp=4,dp=2");
  // The batch was dp micro-batches of two.
  CHECK(change("mbs=2", "dp=8,mbs=1,gbs=16", eight) == "mbs=1,gbs=16");
  // Layers of the first rank were of another number of ranks.
  CHECK(change("pp=2,first_layers=39,gbs=8", "pp=8,dp=1,gbs=8", eight) == "pp=8,first_layers=0");
  CHECK(change("tp=2,sp,gbs=8", "tp=2,dp=4,gbs=8", eight) == "sp=false");
  CHECK(change("sharding=ddp,gbs=8", "dp=8,zero=1,gbs=8", eight) == "sharding=zero");
  // The trainer counts the loss as a layer.
  LayoutContext counts = eight;
  counts.usual.count_loss = 1;
  CHECK(change("gbs=8", "pp=2,dp=4,gbs=8", counts) == "pp=2,count_loss=0");
  CHECK(change("gbs=8,dp=8", "dp=8,gbs=8", counts).empty());
}

TEST_CASE("a job is text too") {
  const Job job = parse_job("optimizer=muon,lora=16:query+kv_down").value();
  CHECK(job.optimizer == OptimizerKind::Muon);
  REQUIRE(job.lora);
  CHECK(job.lora->rank == 16);
  CHECK(job.lora->targets == std::vector<std::string>{"query", "kv_down"});
  CHECK(parse_job(to_text(job)).value() == job);
  const Job frozen = parse_job("frozen=embedding+router,frozen_layers=8").value();
  CHECK(frozen.frozen.has(Part::Embedding));
  CHECK(frozen.frozen.has(Part::Router));
  CHECK(frozen.frozen_layers == 8);
  CHECK(parse_job(to_text(frozen)).value() == frozen);
  CHECK(read_job(to_json(frozen), "job").value() == frozen);
  CHECK(parse_job("optimiser=adam").error().diagnostics[0].hint.find("optimizer") !=
        std::string::npos);
  CHECK(parse_job("lora=0").error().diagnostics.size() == 1);
  const Job quantised = parse_job("qlora=8:q-proj,lora_dtype=as-weight,lora_dropout").value();
  CHECK(quantised == parse_job("lora=8:q_proj,base=nf4,lora_dtype=as_weight,lora_dropout").value());
  CHECK(to_text(quantised) ==
        "optimizer=adamw,lora=8:q_proj,base=nf4,lora_dtype=as-weight,lora_dropout");
  CHECK(parse_job(to_text(quantised)).value() == quantised);
  CHECK(parse_job("qlora=8,base=int8").value().lora->base == FrozenBase::Int8);
  CHECK(parse_job("lora=8,qlora=8").error().diagnostics.size() == 1);
  const Job prepared = parse_job("qlora=8,prepared=trl").value();
  CHECK(prepared.lora->prepared == Prepared::Trl);
  CHECK(to_text(prepared) == "optimizer=adamw,lora=8,base=nf4,prepared=trl");
  CHECK(parse_job("base=nf4,prepared=peft,lora_dropout").error().diagnostics.size() == 3);
}

TEST_CASE("a text of more entries than there are keys is refused at once") {
  std::string text;
  for (int i = 0; i < 201; ++i) text += fmt::format("k{}=1,", i);
  const auto layout = parse_layout(text + "tp=2");
  REQUIRE(!layout);
  REQUIRE(layout.error().diagnostics.size() == 1);
  CHECK(layout.error().diagnostics[0].what == "more than 200 entries");
}

}  // namespace
}  // namespace trainwright
