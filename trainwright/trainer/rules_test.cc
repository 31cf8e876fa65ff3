// Every rule of the shipped data, with a layout that violates it and nothing else.
#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/trainer/trainer.h"

using namespace trainwright;

namespace {

// Sets "tp=2,schedule=1f1b,..." on top of what is there.
void set_all(std::string_view text, Facts& facts) {
  for (const auto part : split(text, ',')) {
    if (part.empty()) continue;
    const auto equals = part.find('=');
    const auto variable = variable_named(part.substr(0, equals));
    REQUIRE_MESSAGE(variable.has_value(), part);
    const auto value = part.substr(equals + 1);
    if (!symbols(*variable).empty()) {
      facts.set(*variable, value);
    } else {
      facts.set(*variable, parse_integer(value).value());
    }
  }
}

// 8 ranks: dp 2 x tp 2 x pp 2, a small dense model, nothing switched on. Legal everywhere with the
// few changes below.
Facts plain_facts(const std::string& trainer) {
  Facts facts;
  for (std::size_t i = 0; i < kVariableCount; ++i) facts.set(static_cast<Variable>(i), 0);
  set_all("world=8,dp=2,tp=2,pp=2,vpp=1,cp=1,ep=1,etp=1,dp_shard=2,dp_replicate=1,stages=2", facts);
  set_all("zero=1,sp=1,mbs=1,gbs=16,seq=4096,micro_batches=8,micro_batch_group=2", facts);
  set_all("layers=8,hidden=4096,ffn=16384,heads=32,kv_heads=8,head_dim=128,vocab=32000", facts);
  set_all("least_stage_layers=4,split=even,schedule=1f1b,placement=single,recompute=none", facts);
  set_all("precision=bf16,optimizer=adamw,cp_kind=ring,sharding=zero,dispatcher=all-to-all", facts);
  set_all("overlap_p2p=1,node_size=8,max_connections=1,mtp_stage=1,ulysses=1", facts);
  set_all("recompute_layers=1,capability=90,transformer_engine=209,cuda=1209", facts);
  if (trainer == "megatron-core") set_all("etp=2", facts);
  if (trainer == "torchtitan") set_all("sharding=fsdp,zero=3,recompute=full", facts);
  if (trainer == "nemo-automodel") set_all("sharding=fsdp,zero=3", facts);
  if (trainer == "deepspeed") set_all("cp_kind=ulysses,sp=0", facts);
  return facts;
}

std::vector<std::string> violated(const Trainer& trainer, const Facts& facts) {
  std::vector<std::string> ids;
  for (const Rule& rule : trainer.rules) {
    const Verdict verdict = evaluate(rule, facts);
    CHECK_MESSAGE(verdict != Verdict::Unknown, trainer.name << " " << rule.id);
    if (verdict == Verdict::Violated) ids.push_back(rule.id);
  }
  return ids;
}

const std::string kMamba = "mamba_heads=64,mamba_groups=8,";
const std::string kChunks = "vpp=2,stages=4,schedule=interleaved-1f1b,placement=loop,";
const std::string kFourRanks =
    "pp=4,dp=1,dp_shard=1,micro_batches=16,stages=8,vpp=2,schedule=interleaved-1f1b,"
    "placement=loop,micro_batch_group=4,";
const std::string kV = "vpp=2,stages=4,schedule=zb-v,split_backward=1,placement=v,";
const std::string kExperts = "experts=8,ep=2,";
const std::string kAlone = "pp=1,dp=4,dp_shard=4,stages=1,micro_batches=4,schedule=none,";
const std::string kUlysses = "pp=1,stages=1,schedule=none,dp=1,dp_shard=1,micro_batches=16,cp=4,";

struct Case {
  std::string trainer;
  std::string rule;
  std::string change;  // of the plain layout
};

std::vector<Case> shared_cases() {
  const std::string m = "megatron@0.16";
  const std::string t = "torchtitan@0.2";
  return {
      {m, "world-splits", "world=16"},
      {m, "data-parallel-splits", "dp_shard=1"},
      {m, "batch-splits", "gbs=15"},
      {m, "heads-split-tp", "heads=33,own_head_dim=1"},
      {m, "width-splits-tp", "hidden=4097,own_head_dim=1"},
      {m, "experts-split-ep", "experts=9,ep=2"},
      {m, "ep-needs-experts", "ep=2"},
      {m, "chunks-need-a-pipeline",
       "pp=1,dp=4,dp_shard=4,vpp=2,stages=2,micro_batches=4,schedule=none"},
      {m, "kv-heads-split-tp", "kv_heads=3"},
      {t, "kv-heads-whole", "kv_heads=3"},
      {m, "sequence-splits-cp", "cp=2,dp=1,dp_shard=1,micro_batches=16,seq=4098,sp=0"},
      {m, "cp-needs-fused-attention",
       "cp=2,dp=1,dp_shard=1,micro_batches=16,capability=70,precision=fp16"},
      {m, "sequence-splits-sp", "seq=4097"},
      {"pytorch", "layers-for-every-stage", "layers=1"},
      {m, "windows-need-whole-keys", kUlysses + "windows=1"},
      {m, "heads-split-ulysses", kUlysses + "cp_kind=ulysses,ulysses=3,kv_heads=8"},
      {m, "empty-stage", "least_stage_layers=0"},
      {t, "v-has-two-stages", "schedule=csv,placement=v"},
      {t, "enough-micro-batches", "micro_batches=1,gbs=2"},
      // 7 micro-batches over 2 ranks: 3 rounds, and 7 is no multiple of 3.
      {t, "interleave-rounds", kChunks + "micro_batches=7,gbs=14"},
      {"pytorch", "offload-needs-fsdp", "offload_optimizer=1,zero=0,sharding=ddp"},
      {t, "zero-bubble-compile", kV + "zero=2,compile=1"},
      {"pytorch", "zero-bubble-ddp", kV + "sharding=ddp,dp_shard=1,dp_replicate=2,zero=0"},
      {t, "zero-bubble-op-recompute", kV + "zero=2,recompute=op-selective"},
  };
}

std::vector<Case> megatron_cases() {
  const std::string overlap = kChunks + kExperts + "overlap_ep=1,";
  return {
      {"megatron@0.8", "zero-stage-one", "zero=2"},
      {"megatron@0.8", "expert-data-parallel-splits", "experts=8,ep=4"},
      {"megatron@0.8", "experts-share-tp", "experts=8,tp=2,etp=1"},
      {"megatron@0.8", "width-splits-heads", "hidden=4098"},
      {"megatron@0.8", "even-split", "layers=9"},
      {"megatron@0.8", "even-split-chunks", kChunks + "layers=6"},
      {"megatron@0.8", "split-offered", "split=uneven,first_stage_layers=4"},
      {"megatron@0.10", "split-offered", "split=explicit"},
      {"megatron@0.11", "split-offered", "split=explicit"},
      {"megatron@0.8", "interleave-needs-schedule", "schedule=interleaved-1f1b,placement=loop"},
      {"megatron@0.8", "interleave-without-overlap", kChunks + "overlap_p2p=0"},
      {"megatron@0.9", "interleave-micro-batches", kChunks + "micro_batches=7,gbs=14"},
      {"megatron@0.8", "sp-needs-tp", "tp=1,etp=1,dp=4,dp_shard=4,micro_batches=4"},
      {"megatron@0.14", "ep-tp-needs-sp", kExperts + "sp=0"},
      {"megatron@0.15", "ep-tp-needs-sp", kExperts + "sp=0"},
      {"megatron@0.8", "tp-overlap-needs-sp", "overlap_tp=1,sp=0"},
      {"megatron@0.8", "one-connection", "max_connections=8"},
      {"megatron@0.8", "distribute-saved", "distribute_saved=1"},
      {"megatron@0.8", "offload-needs-no-pipeline", "offload_activations=1"},
      {"megatron@0.8", "gather-overlap", "overlap_parameter_gather=1"},
      {"megatron-bridge", "gather-overlap", "overlap_parameter_gather=1,zero=0,sharding=ddp"},
      {"megatron@0.8", "graphs-one-kind", "graphs=1,part_graphs=1"},
      {"megatron@0.8", "graphs-experts", kExperts + "graphs=1"},
      {"megatron@0.18", "graphs-experts", kExperts + "graphs=1"},
      {"megatron@0.8", "graphs-recompute", "graphs=1,recompute=full"},
      {"megatron@0.16", "graphs-offload", "graphs=1,offload_activations=1,transformer_engine=209"},
      {"megatron@0.18", "graphs-offload", "graphs=1,offload_activations=1,transformer_engine=209"},
      {"megatron@0.15", "part-graphs-recompute", "part_graphs=1,recompute=full"},
      {"megatron@0.16", "part-graphs-recompute", "part_graphs=1,recompute=full"},
      {"megatron@0.16", "part-graphs-delayed",
       overlap + "part_graphs=1,delay_weight_gradient=1,transformer_engine=209"},
      {"megatron@0.17", "part-graphs-delayed",
       overlap + "part_graphs=1,delay_weight_gradient=1,overlap_gradient_reduce=1,"
                 "transformer_engine=211"},
      {"megatron@0.8", "gather-with-step",
       "overlap_gather_with_step=1,overlap_parameter_gather=1,overlap_gradient_reduce=1"},
      {"megatron@0.10", "expert-world-splits", "experts=12,ep=3"},
      {"megatron@0.10", "micro-batch-group", kChunks + "micro_batch_group=9"},
      {"megatron@0.10", "micro-batch-remainder", kChunks + "micro_batches=7,gbs=14"},
      {"megatron@0.10", "uneven-ends-chunks",
       kChunks + "split=uneven,first_stage_layers=3,last_stage_layers=5"},
      {"megatron@0.10", "uneven-middle",
       "pp=4,dp=1,dp_shard=1,micro_batches=16,stages=4,split=uneven,first_stage_layers=3"},
      {"megatron@0.10", "uneven-no-middle",
       "split=uneven,first_stage_layers=3,last_stage_layers=4"},
      {"megatron@0.10", "fsdp-alone", "sharding=fsdp,zero=3"},
      {"megatron@0.12", "fsdp-connections", kAlone + "sharding=fsdp,zero=3"},
      {"megatron@0.10", "shared-overlap-dispatcher",
       "overlap_shared_experts=1,dispatcher=all-gather"},
      {"megatron@0.13", "count-or-uneven",
       "count_loss=1,split=uneven,first_stage_layers=4,last_stage_layers=4"},
      {"megatron@0.11", "precision-aware-needs-zero",
       "optimizer=adamw-precision-aware,sharding=ddp,zero=0"},
      {"megatron@0.12", "moe-activation-needs-grouped-gemm",
       "recompute=modules,recompute_moe_activation=1"},
      {"megatron@0.12", "mla-up-projection-needs-mla",
       "recompute=modules,recompute_mla_up_projection=1"},
      {"megatron@0.12", "recompute-shared-experts-offered",
       "recompute=modules,recompute_shared_experts=1"},
      {"megatron@0.12", "mx-needs-blackwell", "precision=mxfp8"},
      {"megatron@0.12", "mx-needs-blackwell", "precision=nvfp4,cdna4=1"},
      {"megatron@0.12", "mxfp8-on-rocm", "precision=mxfp8,cdna4=1"},
      {"megatron@0.12", "fp8-gather-needs-fp8", "fp8_parameter_gather=1"},
      {"megatron@0.13", "layout-alone", "split=explicit,first_stage_layers=4"},
      {"megatron@0.13", "layout-stages", "split=explicit,stages=3"},
      {"megatron@0.14", "delayed-fp8-recompute",
       "precision=fp8-delayed,recompute=modules,recompute_norm=1"},
      {"megatron@0.14", "shared-experts-recompute-or-overlap",
       "recompute=modules,recompute_shared_experts=1,overlap_shared_experts=1"},
      {"megatron@0.14", "ep-overlap-needs-ep", kChunks + "overlap_ep=1"},
      {"megatron@0.14", "ep-overlap-needs-chunks", kExperts + "overlap_ep=1"},
      {"megatron@0.14", "ep-overlap-recompute", overlap + "recompute=full"},
      {"megatron@0.14", "ep-overlap-precision", overlap + "precision=fp32"},
      {"megatron@0.14", "ep-overlap-shared-experts", overlap + "overlap_shared_experts=1"},
      {"megatron@0.14", "ep-overlap-mtp", overlap + "mtp_layers=2,mtp_stage=3"},
      {"megatron@0.14", "delay-needs-ep-overlap", "delay_weight_gradient=1"},
  };
}

// What later versions, hardware and libraries changed.
std::vector<Case> megatron_changes() {
  const std::string overlap = kChunks + kExperts + "overlap_ep=1,";
  const std::string uneven = "split=uneven,first_stage_layers=4,last_stage_layers=4";
  return {
      {"megatron@0.8", "kv-heads-split-tp", "kv_heads=1"},
      {"megatron@0.8", "ep-precision", kExperts + "precision=fp16"},
      {"megatron@0.8", "grouped-gemm-precision", "grouped_gemm=1,precision=fp16"},
      {"megatron@0.8", "mla-offered", "mla=1"},
      {"megatron@0.8", "mamba-splits-tp", "mamba_heads=64,mamba_groups=1"},
      {"megatron@0.12", "mamba-cp-offered", kMamba + "dp=1,dp_shard=1,micro_batches=16,cp=2"},
      {"megatron@0.13", "mamba-splits-cp",
       "mamba_heads=6,mamba_groups=2,dp=1,dp_shard=1,micro_batches=16,cp=2"},
      {"megatron@0.12", "mamba-no-chunks", kMamba + kChunks},
      {"megatron@0.13", "mamba-stages",
       kMamba + "split=uneven,first_stage_layers=3,last_stage_layers=5"},
      {"megatron@0.16", "mamba-stages", kMamba + "split=explicit"},
      {"megatron@0.17", "mamba-stages", kMamba + "count_loss=1,layers=7"},
      {"megatron@0.12", "mamba-recompute", kMamba + "recompute=full"},
      {"megatron@0.16", "mamba-beside-offered", kMamba + "mamba_beside=1"},
      {"litgpt", "mamba-offered", kMamba},
      {"aa-scaling", "compile-offered", "compile=1"},
      {"megatron@0.8", "mtp-offered", "mtp_layers=1"},
      {"megatron@0.8", "dispatcher-offered", "dispatcher=flex"},
      {"megatron@0.12", "deepep-ranks",
       "world=24,dp=6,dp_shard=6,gbs=24,micro_batches=4,experts=12,ep=6,dispatcher=flex,"
       "flex_backend=deepep"},
      {"megatron@0.12", "deepep-node",
       kExperts + "dispatcher=flex,flex_backend=deepep,node_size=2"},
      {"megatron@0.12", "flex-accelerator",
       kExperts + "dispatcher=flex,flex_backend=deepep,capability=70,precision=fp32"},
      {"megatron-bridge", "flex-accelerator",
       kExperts + "dispatcher=flex,flex_backend=hybridep,capability=120"},
      {"megatron@0.8", "grouped-gemm-hardware", "grouped_gemm=1,capability=70"},
      {"megatron@0.8", "linear-attention-offered", "linear_heads=16"},
      {"megatron@0.10", "ulysses-heads", kUlysses + "cp_kind=ulysses,head_dim=100"},
      {"megatron@0.10", "fsdp-precision", kAlone + "sharding=fsdp,zero=3,precision=fp16"},
      {"megatron@0.11", "uneven-no-middle", uneven},
      {"megatron@0.11", "count-without-balance", kExperts + "count_loss=1,layers=7"},
      {"megatron@0.12", "one-connection", "max_connections=8"},
      {"megatron@0.12", "mtp-stage", "mtp_layers=1,mtp_stage=0"},
      {"megatron@0.12", "offload-optimizer-kind", "offload_optimizer=1"},
      {"megatron@0.12", "fp8-gather-recipe",
       "precision=mxfp8,blackwell=1,capability=100,fp8_parameter_gather=1"},
      {"megatron@0.13", "uneven-ends-chunks",
       kChunks + "split=uneven,first_stage_layers=3,last_stage_layers=5"},
      {"megatron@0.13", "uneven-no-middle",
       "split=uneven,first_stage_layers=3,last_stage_layers=4"},
      {"megatron@0.13", "one-connection", "max_connections=8"},
      {"megatron@0.13", "fp8-recompute",
       "precision=fp8-tensorwise,recompute=modules,recompute_norm=1"},
      {"megatron@0.13", "blockwise-hardware",
       "precision=fp8-blockwise,blackwell=1,capability=100,transformer_engine=208"},
      {"megatron@0.13", "expert-bias", kExperts + "expert_bias=1,etp=1"},
      {"megatron@0.13", "layout-mtp", "split=explicit,mtp_layers=1"},
      {"megatron@0.14", "one-connection", "max_connections=8"},
      {"megatron@0.14", "mtp-stage",
       kChunks + "mtp_layers=1,mtp_stage=1,layers_behind_mtp=4,split=explicit"},
      {"megatron@0.14", "mtp-recompute", "mtp_layers=1,recompute=full,recompute_layers=2"},
      {"megatron@0.15", "expert-bias", kExperts + "expert_bias=1,etp=2"},
      {"megatron@0.14", "offload-optimizer-gather",
       "offload_optimizer=1,optimizer=adamw-precision-aware,fp8_parameter_gather=1,"
       "precision=fp8-tensorwise"},
      {"megatron@0.16", "muon-sharding", "optimizer=muon,overlap_gradient_reduce=1"},
      {"megatron@0.16", "ep-overlap-mtp", overlap + "mtp_layers=2,mtp_stage=3"},
      {"megatron@0.16", "offload-weights-too", "offload_activations=1,transformer_engine=211"},
      {"megatron@0.16", "linear-attention-context", kUlysses + "linear_heads=16"},
      {"megatron@0.18", "linear-attention-context", kUlysses + "linear_heads=12"},
      {"megatron@0.17", "muon-sharding",
       "optimizer=muon,sharding=megatron-fsdp,zero=3,max_connections=8"},
      {"megatron@0.17", "ep-overlap-recompute", overlap + "recompute=modules,recompute_moe=1"},
      {"megatron@0.18", "muon-sharding", "optimizer=muon,precision=fp16"},
      {"megatron@0.18", "ep-overlap-mtp", overlap + "mtp_layers=2,mtp_stage=3"},
      {"megatron@0.18", "shared-overlap-dispatcher",
       "overlap_shared_experts=1,dispatcher=all-gather"},
      {"megatron@0.19", "offload-weights-too", "offload_activations=1,transformer_engine=217"},
      {"megatron-lm-2022", "distribute-saved", "distribute_saved=1"},
      {"megatron-lm-2022", "interleave-without-overlap", kChunks},
      {"megatron-deepspeed@0.10", "ulysses-offered", kUlysses},
      {"megatron-deepspeed@0.14", "zb-h1-without-sp", "schedule=zb-h1"},
      {"zbpp@1.0", "untied-embeddings", "tied_embeddings=1"},
      {"zbpp@1.0", "v-even-layers", kV + "layers=9,max_connections=8"},
      {"zbpp@1.0", "zero-bubble-overlap",
       "schedule=zb-h1,overlap_gradient_reduce=1,max_connections=8"},
      {"zbpp@1.0", "zero-bubble-connections", "schedule=zb-h1"},
      {"zbpp@1.2", "vocab-parallel-schedule", "vocab_parallel=1,schedule=zb-h1,max_connections=8"},
  };
}

std::vector<Case> other_cases() {
  return {
      {"torchtitan@0.2", "sequence-splits-tp-cp", "seq=4098"},
      {"torchtitan@0.1", "no-experts", "experts=8,ep=2"},
      {"torchtitan@0.0.2", "no-accumulation", "pp=1,stages=1,dp=4,dp_shard=4,micro_batches=2"},
      {"torchtitan@0.2", "csv-placement", "schedule=csv,placement=loop"},
      {"torchtitan@0.2", "shard-or-replicate", "sharding=hsdp"},
      {"torchtitan@0.2", "ep-borrows", "experts=8,ep=8,etp=2"},
      {"torchtitan@0.3", "ep-borrows", "experts=8,ep=8"},
      {"torchtitan@0.2", "sp-goes-with-tp", "sp=0"},
      {"torchtitan@0.2", "mx-needs-blackwell",
       "precision=mxfp8,compile=1,tp=1,sp=0,dp=4,dp_shard=4,micro_batches=4"},
      {"torchtitan@0.2", "float8-wants-compile", "precision=fp8-rowwise"},
      {"torchtitan@0.2", "async-tp-needs-compile", "overlap_tp=1"},
      {"torchtitan@0.2", "zero-bubble-resharded", kV},
      {"torchtitan@0.3", "zero-bubble-chunked-loss", kV + "zero=2,loss_chunks=8"},
      {"deepspeed@0.16.4", "pipeline-zero", "zero=2"},
      {"deepspeed@0.16.4", "no-sp", "sp=1"},
      {"deepspeed@0.16.4", "activation-offload-needs-recompute", "offload_activations=1"},
      {"deepspeed@0.16.4", "no-virtual-stages", "vpp=2,stages=4"},
      {"deepspeed@0.16.4", "parameter-offload-needs-stage-3", "offload_parameters=1"},
      {"deepspeed@0.16.4", "optimizer-offload-needs-zero",
       "offload_optimizer=1,sharding=ddp,zero=0"},
      {"deepspeed@0.16.4", "heads-for-ulysses", kUlysses + "kv_heads=2"},
      {"deepspeed@0.19.8", "heads-even-in-transformers", kUlysses + "heads=6"},
      {"deepspeed@0.16.4", "sequence-splits-ulysses", kUlysses + "seq=4094"},
      {"deepspeed@0.16.4", "ulysses-without-pipeline", "dp=1,dp_shard=1,micro_batches=16,cp=2"},
      {"deepspeed@0.16.4", "ep-inside-dp", "experts=8,ep=4"},
      {"nanotron", "no-virtual-stages", "vpp=2,stages=4"},
      {"nanotron", "zero-stage-one", "zero=2"},
      {"paddlenlp", "pipeline-zero", "zero=2"},
      {"paddlenlp", "interleave-needs-three-ranks", kChunks},
      {"paddlenlp", "interleave-micro-batches", kFourRanks + "micro_batches=4,gbs=4"},
      {"paddlenlp", "interleave-fthenb", kFourRanks + "schedule=looped-bfs"},
      {"paddlenlp", "vpp-whole-rounds", kFourRanks + "micro_batches=15,gbs=15"},
      {"paddlenlp", "chunks-need-a-schedule", kFourRanks + "schedule=1f1b,placement=single"},
      {"paddlenlp", "zb-h1-micro-batches", "schedule=zb-h1,micro_batches=1,gbs=2"},
      {"paddlenlp", "zb-vpp-micro-batches", kFourRanks + "schedule=zb-vpp,placement=v"},
      {"paddleformers", "no-expert-tensor-parallelism", "experts=8,etp=2"},
      {"paddleformers", "chunks-need-a-schedule", kFourRanks + "schedule=1f1b,placement=single"},
      {"paddleformers", "dualpipe-has-two-stages",
       kFourRanks + "schedule=dualpipe-v,placement=v,vpp=3,stages=12,layers=12"},
      {"paddleformers", "dualpipe-micro-batches",
       kFourRanks + "schedule=dualpipe-v,placement=v,micro_batches=7,gbs=7"},
      {"pytorch", "zero-stage-one", "zero=2"},
  };
}

std::vector<Case> all_cases() {
  auto cases = shared_cases();
  for (auto& row : megatron_cases()) cases.push_back(row);
  for (auto& row : megatron_changes()) cases.push_back(row);
  for (auto& row : other_cases()) cases.push_back(row);
  return cases;
}

// Trainers of which tests/legality looks that every rule has a case there.
bool has_table(const std::string& trainer) {
  constexpr std::string_view kNames[] = {"torchtitan",     "deepspeed",     "nanotron",
                                         "pytorch",        "accelerate",    "paddlenlp",
                                         "paddlenlp-auto", "paddleformers", "accelerate-deepspeed",
                                         "nemo-automodel"};
  return std::find(std::begin(kNames), std::end(kNames), trainer) != std::end(kNames);
}

}  // namespace

TEST_CASE("a plain layout of 8 ranks is legal for every trainer and version") {
  for (const Trainer& file : shipped_trainers()) {
    // A pipeline is not for everyone.
    if (find_kind(file.schedules, ScheduleKind::OneFOneB) == nullptr) continue;
    const Trainer trainer = picked_trainer(file.name + "@" + to_text(file.to));
    const auto ids = violated(trainer, plain_facts(trainer.name));
    CHECK_MESSAGE(ids.empty(),
                  trainer.name << " " << to_text(trainer.from) << ": " << join(ids, ", "));
  }
}

TEST_CASE("each rule is violated by its own layout and by nothing else") {
  for (const Case& row : all_cases()) {
    CAPTURE(row.trainer);
    CAPTURE(row.rule);
    const Trainer trainer = picked_trainer(row.trainer);
    Facts facts = plain_facts(trainer.name);
    set_all(row.change, facts);
    const auto ids = violated(trainer, facts);
    CHECK(join(ids, ", ") == row.rule);
  }
}

TEST_CASE("no rule of the data is left untried") {
  std::vector<Rule> tried;
  for (const Case& row : all_cases()) {
    for (const Rule& rule : picked_trainer(row.trainer).rules) {
      if (rule.id == row.rule) tried.push_back(rule);
    }
  }
  for (const Trainer& trainer : shipped_trainers()) {
    if (has_table(trainer.name) || has_table(trainer.stack))
      continue;  // its rules are those of its stack
    for (const Rule& rule : trainer.rules) {
      CHECK_MESSAGE(std::find(tried.begin(), tried.end(), rule) != tried.end(),
                    trainer.name << " " << to_text(trainer.from) << " " << rule.id);
    }
  }
}
