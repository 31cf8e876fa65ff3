// Runs of Megatron-LM itself: SimuMax's B200 cases, Korthikanti et al., the golden values of its
// own tests.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/calibrate/draft.h"

namespace trainwright::detail {
namespace {

ModelOrReason b200_model(const MeasuredRun& run, const Knowledge& knowledge) {
  if (!run.model_name.starts_with("deepseek")) {
    return llama_model(shape_of(run));
  }
  // simu_tools/megatron_scripts/scripts/run_pretrain_deepseekv2.sh: one dense layer, softmax
  // scores without a selection bias.
  auto model =
      trimmed(knowledge, run.model_name.starts_with("deepseekv3") ? "deepseek-v3" : "deepseek-v2",
              run.layers.value_or(0), 1);
  if (!model) return model;
  for (LayerKind& kind : model->kinds) {
    if (auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward)) {
      experts->score_correction_trained = false;
    }
  }
  return model;
}

}  // namespace

DraftOrReason simumax_b200(const MeasuredRun& run, const Knowledge& knowledge) {
  // docs/b200/b200_real_repro_guide.md and the launch scripts it names; the loss is "TE Triton
  // fused CE".
  TrainerChoice trainer{.name = "megatron-core@0.16",
                        .kernels = {{KernelKind::FlashAttention, true},
                                    {KernelKind::FusedSoftmax, false},
                                    {KernelKind::FusedBiasDropout, false}},
                        .loss = "te-fused"};
  if (knowledge.learned == Learned::Taken) trainer.workspaces = {{"cublas", 8519680}};
  DraftOrReason draft =
      start(run, knowledge, std::move(trainer), "8xB200", b200_model(run, knowledge));
  if (!draft) return draft;
  Case& made = draft->made;
  made.notes.emplace_back(
      "learned: cuBLAS workspaces as before Hopper, as of a PyTorch that does not know Blackwell");
  // The null tokenizer adds an end-of-document token before the vocabulary is padded.
  ++draft->model.vocabulary;
  made.layout.etp = run.moe_experts ? 1 : made.layout.tp;
  made.layout.cp_kind = CpKind::Ulysses;
  made.layout.max_connections = 1;
  for (const Switch what : {Switch::OverlapTp, Switch::OverlapGradientReduce,
                            Switch::OverlapParameterGather, Switch::OverlapP2p}) {
    made.layout.off.insert(what);
  }
  if (run.moe_experts) {
    made.layout.on.insert(Switch::GroupedGemm);
    made.notes.emplace_back("experts take capacity factor 1 and are padded to it: balanced");
  }
  if (run.notes.find("memory reused from") != std::string::npos) {
    made.notes.emplace_back("memory was measured once and reused: " +
                            run.notes.substr(run.notes.find("memory reused from")));
  }
  for (const RankMemory& rank : run.ranks) {
    made.memory.push_back(
        {MemoryKind::Allocated, ReadAt::Rank, rank.rank, rank.allocated, Bytes(0)});
    made.memory.push_back({MemoryKind::Reserved, ReadAt::Rank, rank.rank, rank.reserved, Bytes(0)});
  }
  return draft;
}

namespace {

// arXiv:2205.05198 figure 1: activations of the first stage with sequence parallelism and selective
// recompute, in GiB, as calculon's calculon/llm/validation.py reads them.
std::optional<double> figure_one(const MeasuredRun& run) {
  if (run.recompute != "selective" || run.dp != 1) return std::nullopt;
  if (run.layers == 48) return 9.5625;
  if (run.layers == 96) return 12.3515625;
  if (run.layers == 105) return 23.076171875;
  if (run.layers == 128) return 26.5625;
  return std::nullopt;
}

}  // namespace

DraftOrReason korthikanti(const MeasuredRun& run, const Knowledge& knowledge) {
  Shape shape = shape_of(run);
  shape.tied = true;
  DraftOrReason draft =
      start(run, knowledge, {.name = "megatron-lm-2022@3.0", .kernels = {}, .loss = {}},
            fmt::format("{}xselene", run.gpus.value_or(0)), gpt_model(shape));
  if (!draft) return draft;
  // arXiv:2205.05198 section 4.1 counts dropout masks, as GPT-3 was trained with.
  draft->model.dropout_hidden = draft->model.dropout_attention = 0.1;
  draft->made.layout.max_connections = 1;
  if (const auto figure = figure_one(run)) {
    draft->made.memory.push_back(
        printed(*figure, PrintedUnit::GiB, 4, MemoryKind::Activations, ReadAt::PipelineRank, 0));
  }
  return draft;
}

namespace {

std::optional<std::int64_t> noted_number(const MeasuredRun& run, std::string_view key) {
  return parse_integer(noted(run.notes, key));
}
bool noted_true(const MeasuredRun& run, std::string_view key) {
  return noted(run.notes, key) == "True";
}

bool says(const MeasuredRun& run, std::string_view word) {
  return run.model_name.find(word) != std::string::npos;
}

// What the table of golden values cannot say and the layout hangs on.
std::string golden_reason(const MeasuredRun& run) {
  const std::string_view family = noted(run.notes, "family");
  if (family == "hybrid" || noted_true(run, "is-hybrid-model") || family == "nemotron") {
    return "a hybrid of attention and state-space layers";
  }
  if (!run.gpus) return "the number of GPUs is not public";
  if (!run.layers) return "the number of layers is not in the table";
  if (!noted(run.notes, "pipeline-model-parallel-layout").empty()) {
    return "a pipeline layout given as a picture of stages";
  }
  if (run.precision.starts_with("fp8")) return "FP8 recipes of tests are not in the table";
  return {};
}

// Layers of a model with experts: "([0]*3+[1]*11)" has 3 dense ones first.
std::int64_t dense_layers(const MeasuredRun& run) {
  const std::string_view pattern = noted(run.notes, "moe-layer-freq");
  if (!pattern.starts_with("([0]*")) return 0;
  const std::string_view digits =
      pattern.substr(5, std::min(pattern.find('+'), pattern.size()) - 5);
  return std::clamp<std::int64_t>(parse_integer(digits).value_or(0), 0, run.layers.value_or(0));
}

void add_latent_attention(const MeasuredRun& run, LayerKind& kind) {
  if (!noted_true(run, "multi-latent-attention")) return;
  // Widths of the heads by default: megatron-core transformer_config.py MLATransformerConfig.
  kind.attention = LatentAttention{.heads = run.heads.value_or(1),
                                   .query_rank = noted_number(run, "q-lora-rank").value_or(0),
                                   .kv_rank = noted_number(run, "kv-lora-rank").value_or(512),
                                   .rope_dim = 64,
                                   .nope_dim = 128,
                                   .value_dim = 128};
}

void add_experts(const MeasuredRun& run, Model& model) {
  if (run.moe_experts.value_or(0) < 1) return;
  LayerKind kind = model.kinds.front();
  Mlp expert = std::get<Mlp>(kind.feed_forward);
  expert.width = noted_number(run, "moe-ffn-hidden-size").value_or(expert.width);
  MixtureOfExperts experts;
  experts.experts = std::min<std::int64_t>(*run.moe_experts, 1 << 20);
  experts.experts_per_token = std::clamp<std::int64_t>(or_one(run.moe_topk), 1, experts.experts);
  experts.expert = expert;
  if (const auto shared = noted_number(run, "moe-shared-expert-intermediate-size")) {
    experts.shared = expert;
    experts.shared->width = *shared;
  }
  kind.feed_forward = experts;
  model.kinds.push_back(kind);
  const auto dense = static_cast<std::size_t>(dense_layers(run));
  for (std::size_t i = dense; i < model.layers.size(); ++i) model.layers[i] = LayerKindId(1);
  if (dense == 0) {
    model.kinds.erase(model.kinds.begin());
    model.layers.assign(model.layers.size(), LayerKindId(0));
  }
}

ModelOrReason golden_model(const MeasuredRun& run) {
  Shape shape = shape_of(run);
  // Megatron-LM arguments.py: 4 h, or with SwiGLU two thirds of it in multiples of 64.
  if (!shape.ffn && shape.hidden) {
    shape.ffn = noted_true(run, "swiglu") ? *shape.hidden * 8 / 3 / 64 * 64 : *shape.hidden * 4;
  }
  // The null tokenizer adds a token; the other tests read GPT-2's vocabulary of 50,257 (the default
  // tokenizer of pretrain_gpt.py).
  shape.vocabulary = shape.vocabulary ? *shape.vocabulary + 1 : 50257;
  shape.tied = !noted_true(run, "untie-embeddings-and-output-weights");
  auto model = gpt_model(shape);
  if (!model) return model;
  LayerKind& kind = model->kinds.front();
  if (noted_true(run, "swiglu")) std::get<Mlp>(kind.feed_forward).gated = true;
  if (says(run, "rope")) {
    model->positions = Positions::Rotary;
    model->learned_positions = 0;
    if (auto* attention = std::get_if<SoftmaxAttention>(&kind.attention)) attention->rotary = true;
  }
  // Megatron-LM's default; the configs with context parallelism set it to 0.
  model->dropout_hidden = model->dropout_attention = or_one(run.cp) > 1 ? 0 : 0.1;
  add_latent_attention(run, kind);
  add_experts(run, *model);
  const auto modules =
      std::clamp<std::int64_t>(noted_number(run, "mtp-num-layers").value_or(0), 0, 16);
  model->mtp.assign(static_cast<std::size_t>(modules), model->layers.back());
  return model;
}

void read_recompute(const MeasuredRun& run, Layout& layout) {
  const std::string_view modules = noted(run.notes, "recompute-modules");
  if (run.recompute != "selective" || modules.empty()) return;
  layout.recompute.kind = RecomputeKind::Modules;
  const std::pair<std::string_view, RecomputeModule> known[] = {
      {"layernorm", RecomputeModule::Norm},
      {"mla_up_proj", RecomputeModule::MlaUpProjection},
      {"mlp", RecomputeModule::Mlp},
      {"moe_act", RecomputeModule::MoeActivation},
      {"core_attn", RecomputeModule::CoreAttention}};
  for (const auto& [name, module] : known) {
    if (modules.find(name) != std::string_view::npos) layout.recompute.modules.insert(module);
  }
}

void read_golden_layout(const MeasuredRun& run, Case& made) {
  Layout& layout = made.layout;
  layout.etp = noted_number(run, "expert-tensor-parallel-size").value_or(layout.tp);
  layout.etp = std::clamp<std::int64_t>(layout.etp, 1, kMostDegree);
  if (noted_true(run, "use-megatron-fsdp")) layout.sharding = ShardingKind::MegatronFsdp;
  const std::int64_t copies = noted_number(run, "num-distributed-optimizer-instances").value_or(1);
  if (copies > 1 && layout.dp % copies == 0) layout.dp_replicate = copies;
  // Arguments of the tests' model_config.yaml that the table left out.
  if (says(run, "account_for_embedding_loss")) layout.count_embedding = layout.count_loss = 1;
  if (says(run, "tunable_overlap")) layout.micro_batch_group = 5;
  layout.first_layers = noted_number(run, "decoder-first-pipeline-num-layers").value_or(0);
  layout.last_layers = noted_number(run, "decoder-last-pipeline-num-layers").value_or(0);
  layout.first_layers = std::clamp<std::int64_t>(layout.first_layers, 0, kMostDegree);
  layout.last_layers = std::clamp<std::int64_t>(layout.last_layers, 0, kMostDegree);
  if (noted(run.notes, "moe-token-dispatcher-type") == "allgather") {
    layout.dispatcher = DispatcherKind::AllGather;
  }
  if (noted(run.notes, "moe-token-dispatcher-type") == "flex")
    layout.dispatcher = DispatcherKind::Flex;
  if (noted(run.notes, "cp-comm-type") == "a2a+p2p") {
    layout.cp_kind = CpKind::UlyssesRing;
    layout.cp_ulysses = std::max<std::int64_t>(1, layout.cp / 2);
  }
  const std::pair<std::string_view, Switch> switches[] = {
      {"overlap-grad-reduce", Switch::OverlapGradientReduce},
      {"overlap-param-gather", Switch::OverlapParameterGather},
      {"tp-comm-overlap", Switch::OverlapTp},
      {"overlap-moe-expert-parallel-comm", Switch::OverlapEp},
      {"delay-wgrad-compute", Switch::DelayWeightGradient},
      {"moe-grouped-gemm", Switch::GroupedGemm}};
  for (const auto& [key, what] : switches) {
    if (noted_true(run, key)) layout.on.insert(what);
  }
  if (noted(run.notes, "optimizer") == "muon") made.job.optimizer = OptimizerKind::Muon;
  read_recompute(run, layout);
}

}  // namespace

DraftOrReason megatron_golden(const MeasuredRun& run, const Knowledge& knowledge) {
  if (std::string reason = golden_reason(run); !reason.empty()) return skip(std::move(reason));
  const bool flash = noted(run.notes, "attention-backend") != "unfused" &&
                     noted(run.notes, "transformer-impl") != "local";
  TrainerChoice trainer{.name = "megatron-core@0.16",
                        .kernels = {{KernelKind::FlashAttention, flash},
                                    {KernelKind::FusedGradientAccumulation, false}},
                        .loss = {}};
  // PyTorch refuses to be deterministic without it, and the tests set CUBLAS_WORKSPACE_CONFIG to
  // :4096:8.
  if (noted_true(run, "deterministic-mode")) {
    trainer.workspaces.emplace_back("cublas", std::int64_t{32} << 20);
  }
  if (noted(run.notes, "transformer-impl") == "local") {
    trainer.workspaces.emplace_back("transformer-engine", 0);
  }
  const bool gb200 = run.accelerator == "GB200";
  const bool h100 = run.accelerator.starts_with("H100");
  DraftOrReason draft = start(run, knowledge, std::move(trainer),
                              fmt::format("{}x{}", *run.gpus,
                                          gb200  ? "GB200"
                                          : h100 ? "H100"
                                                 : "A100-80GB"),
                              golden_model(run));
  if (!draft) return draft;
  Case& made = draft->made;
  read_golden_layout(run, made);
  made.notes.emplace_back(
      "dropout as by default, no fused gradient accumulation (most model_config.yaml switch it "
      "off), "
      "biases and LayerNorm unless the table says otherwise");
  if (says(run, "reruns_resume_check_grads")) {
    made.broken = "its model_config.yaml overrides the number of GPUs run by run";
  }
  if (!run.vocab) {
    made.undetermined = "vocabulary";
    made.notes.emplace_back("vocabulary not in the table: GPT-2's 50,257 assumed");
  }
  const std::int64_t last = run.gpus.value_or(1) - 1;
  if (const auto bytes = noted_number(run, "mem_allocated_bytes_at_step_end");
      bytes && *bytes > 0) {
    made.memory.push_back({MemoryKind::Static, ReadAt::Rank, last, Bytes(*bytes), Bytes(0)});
  }
  if (const auto bytes = noted_number(run, "mem_max_allocated_bytes"); bytes && *bytes > 0) {
    made.memory.push_back({MemoryKind::Allocated, ReadAt::Rank, last, Bytes(*bytes), Bytes(0)});
  }
  return draft;
}

}  // namespace trainwright::detail
