// Layouts that were trained with, checked against the trainers as their files describe them.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "trainwright/layout/layout.h"
#include "trainwright/testing/layout_cases.h"

namespace trainwright {
namespace {

const std::string kData = TRAINWRIGHT_SOURCE_DIR "/data";

// The value, or a failed test that says why there is none.
template <class T>
T must(Result<T> result) {
  if (!result) FAIL(to_text(result.error()));
  return std::move(result).value();
}

std::vector<LayoutViolation> found(const std::string& model, const std::string& cluster,
                                   const std::string& trainer, const std::string& text,
                                   const Job& job = {}) {
  const Hardware hardware = must(load_hardware(kData));
  const Cluster machines = must(parse_cluster(cluster, hardware));
  const Trainer how = must(find_trainer(trainer, kData));
  const auto read =
      must(parse_layout(text, {.world = accelerator_count(machines), .usual = usual_layout(how)}));
  return violations(read.layout, job, must(find_model(model, kData)), machines, how);
}

// What is forbidden, by id; nothing for a legal layout.
std::string forbidden(const std::string& model, const std::string& cluster,
                      const std::string& trainer, const std::string& text, const Job& job = {}) {
  std::string ids;
  for (const LayoutViolation& violation : found(model, cluster, trainer, text, job)) {
    if (violation.severity == Severity::Advice) continue;
    ids += (ids.empty() ? "" : " ") + violation.id;
  }
  return ids;
}

TEST_CASE("the layouts of Korthikanti et al. are legal on Megatron") {
  // arXiv:2205.05198, table 3: model, accelerators, tp, pp, global batch, micro-batch; 175B and
  // 530B interleave 3 chunks.
  const std::string each = ",tp=8,sp,recompute=selective,seq=2048,max_connections=1";
  CHECK(forbidden("megatron-22b", "8xA100-80GB", "megatron@0.8", "pp=1,mbs=4,gbs=4" + each) == "");
  CHECK(forbidden("megatron-175b", "64xA100-80GB", "megatron@0.8",
                  "pp=8,vpp=3,mbs=1,gbs=64" + each) == "");
  CHECK(forbidden("megatron-530b", "280xA100-80GB", "megatron@0.8",
                  "pp=35,vpp=3,mbs=1,gbs=280" + each) == "");
  CHECK(forbidden("megatron-1t", "512xA100-80GB", "megatron@0.8", "pp=64,mbs=1,gbs=512" + each) ==
        "");
}

TEST_CASE("the layouts of Llama 3 405B are legal once both ends count as a layer") {
  // arXiv:2407.21783, table 4: tp 8, cp 1 or 16, pp 16, on 8,192 and 16,384 H100; 16M tokens per
  // step. Section 3.3.2: one layer less on the first and the last stage, interleaved.
  const std::string each = "tp=8,pp=16,sp,zero=1,mbs=1,count_embedding,count_loss";
  CHECK(forbidden("llama-3.1-405b", "8192xH100", "megatron@0.12",
                  each + ",vpp=8,gbs=2048,seq=8192") == "");
  CHECK(forbidden("llama-3.1-405b", "16384xH100", "megatron@0.12",
                  each + ",vpp=8,gbs=2048,seq=8192") == "");
  CHECK(forbidden("llama-3.1-405b", "16384xH100", "megatron@0.12",
                  each + ",cp=16,vpp=4,gbs=128,seq=131072") == "");
  // 126 layers without the ends do not split over 16 ranks.
  CHECK(forbidden("llama-3.1-405b", "8192xH100", "megatron@0.12",
                  "tp=8,pp=16,sp,zero=1,mbs=1,gbs=2048,seq=8192")
            .find("even-split") != std::string::npos);
}

TEST_CASE("the layout of DeepSeek-V3 is legal where a trainer can express it") {
  // arXiv:2412.19437, section 3.2: pp 16, ep 64, ZeRO-1, no tp, 2,048 H800, batch 15,360 at 4K.
  // 61 layers: the paper does not print the split; 13 stages of 4 and 3 of 3 hold them.
  CHECK(forbidden("deepseek-v3", "2048xH800", "megatron@0.16",
                  "pp=16,ep=64,etp=1,zero=1,mbs=1,gbs=15360,seq=4096,layers=4*13/3*3") == "");
  // DualPipe itself is not in Megatron-Core.
  CHECK(forbidden("deepseek-v3", "2048xH800", "megatron@0.16",
                  "pp=16,vpp=2,schedule=dualpipe-v,ep=64,etp=1,zero=1,mbs=1,gbs=15360,seq=4096,"
                  "layers=2*29/1*3")
            .find("schedule-offered") != std::string::npos);
}

TEST_CASE("plainly illegal layouts are refused by everyone") {
  for (const std::string trainer : {"megatron", "torchtitan", "deepspeed"}) {
    CAPTURE(trainer);
    // 32 heads, 32 layers.
    const auto ids = [&](const std::string& text) {
      return forbidden("llama-3.1-8b", "64xH100", trainer, text);
    };
    CHECK(ids("tp=64,gbs=64").find("heads-split-tp") != std::string::npos);
    // DeepSpeed runs stages without a layer.
    CHECK((ids("pp=64,gbs=64").find("layers-for-every-stage") != std::string::npos) ==
          (trainer != "deepspeed"));
    CHECK(ids("dp=32,gbs=64").find("world-splits") != std::string::npos);
    CHECK(ids("gbs=63").find("batch-splits") != std::string::npos);
    CHECK(ids("ep=2,gbs=64").find("ep-needs-experts") != std::string::npos);
    CHECK(ids("vpp=2,gbs=64").find("chunks-need-a-pipeline") != std::string::npos);
    CHECK(ids("precision=nvfp4,gbs=64").find("precision-in-hardware") != std::string::npos);
  }
}

TEST_CASE("torchtitan runs FSDP and refuses what it cannot express") {
  CHECK(forbidden("llama-3.1-8b", "64xH100", "torchtitan", "fsdp,gbs=64,seq=8192") == "");
  CHECK(forbidden("llama-3.1-8b", "64xH100", "torchtitan", "zero=1,gbs=64,seq=8192")
            .find("sharding-offered") != std::string::npos);
}

TEST_CASE("a kind is refused exactly when the trainer's file does not list it") {
  for (const Trainer& trainer : must(load_trainers(kData))) {
    const auto check = [&](const std::string& id, const auto& offered, auto kind, auto&& set) {
      Layout layout;
      Job job;
      layout.cp = 2;  // context parallelism is only looked at where there is some,
      layout.pp = 2;  // and so are schedules
      set(layout, job, kind);
      const auto all = violations(layout, job, testing::gpt(), testing::h100s(4), trainer);
      const bool refused = std::any_of(all.begin(), all.end(),
                                       [&](const LayoutViolation& one) { return one.id == id; });
      CHECK_MESSAGE(refused == (find_kind(offered, kind) == nullptr), trainer.name, " ", id, " ",
                    name_of(kind));
    };
    for (const auto kind : all_of<ScheduleKind>()) {
      check("schedule-offered", trainer.schedules, kind,
            [](Layout& layout, Job&, auto chosen) { layout.schedule = chosen; });
    }
    for (const auto kind : all_of<RecomputeKind>()) {
      check("recompute-offered", trainer.recomputes, kind,
            [](Layout& layout, Job&, auto chosen) { layout.recompute.kind = chosen; });
    }
    for (const auto kind : all_of<PrecisionKind>()) {
      check("precision-offered", trainer.precisions, kind,
            [](Layout& layout, Job&, auto chosen) { layout.precision = chosen; });
    }
    for (const auto kind : all_of<OptimizerKind>()) {
      check("optimizer-offered", trainer.optimizers, kind,
            [](Layout&, Job& job, auto chosen) { job.optimizer = chosen; });
    }
    for (const auto kind : all_of<CpKind>()) {
      check("cp_kind-offered", trainer.cp_kinds, kind,
            [](Layout& layout, Job&, auto chosen) { layout.cp_kind = chosen; });
    }
    for (const auto kind : all_of<ShardingKind>()) {
      check("sharding-offered", trainer.shardings, kind,
            [](Layout& layout, Job&, auto chosen) { layout.sharding = chosen; });
    }
    for (const auto kind : all_of<Offload>()) {
      check("offload-offered", trainer.offloads, kind,
            [](Layout& layout, Job&, auto chosen) { layout.offload.insert(chosen); });
    }
  }
}

TEST_CASE("running the feed-forward of experts again is running the experts again") {
  // megatron-core 0.17.0 transformer_config.py:2109: overlap_moe_expert_parallel_comm excludes
  // recompute of the whole expert layer, however it is asked for.
  const std::string each = "tp=2,sp,pp=2,vpp=2,ep=4,mbs=1,gbs=64,seq=4096,on=overlap-ep,recompute=";
  const auto ids = [&](const std::string& model, const std::string& recompute) {
    return forbidden(model, "32xH100", "megatron@0.17", each + recompute);
  };
  CHECK(ids("mixtral-8x7b", "none") == "");
  CHECK(ids("mixtral-8x7b", "modules:moe") == "ep-overlap-recompute");
  CHECK(ids("mixtral-8x7b", "feed-forward") == "ep-overlap-recompute");
  // Both are there to be run again, so there is nothing to leave out.
  for (const LayoutViolation& violation :
       found("mixtral-8x7b", "32xH100", "megatron@0.14", each + "feed-forward")) {
    CHECK(violation.id != "recompute-finds-module");
  }
  // A model without experts has an mlp instead, and no rule about experts is broken by that.
  Layout dense;
  dense.recompute.kind = RecomputeKind::FeedForwardOnly;
  const Facts of_dense = facts(dense, {}, testing::gpt(), testing::h100s(8), testing::permissive());
  CHECK(of_dense.value(Variable::RecomputeMlp) == 1);
  CHECK(of_dense.value(Variable::RecomputeMoe) == 0);
}

}  // namespace
}  // namespace trainwright
