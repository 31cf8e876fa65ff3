#include "trainwright/export/export.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/form.h"
#include "trainwright/export/pattern.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

Question asked(const char* trainer, const char* layout, const char* model = "llama-3.1-8b",
               const char* on = "8xH100", const char* job = "") {
  auto question = read_question({.model = model,
                                 .on = on,
                                 .trainer = trainer,
                                 .layout = layout,
                                 .job = job,
                                 .attention = {},
                                 .schedule = {}},
                                DataDirectory(kShippedData));
  REQUIRE_MESSAGE(question.has_value(), to_text(question.error()));
  return *std::move(question);
}

Target target_of(const Question& question) {
  const auto target = find_target("", question.trainer);
  REQUIRE_MESSAGE(target.has_value(), to_text(target.error()));
  return *target;
}

Translation translated(const Question& question) {
  return translate({.model = question.model,
                    .cluster = question.cluster,
                    .trainer = question.trainer,
                    .layout = question.read.layout,
                    .job = question.job},
                   target_of(question));
}

// All of them on one line, as a shell would take them.
std::string said(const Question& question) {
  const Translation translation = translated(question);
  REQUIRE_MESSAGE(translation.unsayable.empty(), translation.unsayable.front().what);
  return settings_line(translation.settings, target_of(question));
}

std::string unsayable(const Question& question) {
  std::vector<std::string> texts;
  for (const Unsayable& one : translated(question).unsayable) texts.push_back(one.what);
  return join(texts, "; ");
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a plan for Megatron-LM is its options and one variable") {
  CHECK(said(asked("megatron@0.19", "tp=2,pp=2,sp,zero=1,mbs=1,gbs=64,seq=4096,recompute=full")) ==
        "CUDA_DEVICE_MAX_CONNECTIONS=1 --tensor-model-parallel-size 2 --sequence-parallel "
        "--pipeline-model-parallel-size 2 "
        "--micro-batch-size 1 --global-batch-size 64 --seq-length 4096 --bf16 --optimizer adam "
        "--use-distributed-optimizer --recompute-granularity full --recompute-method uniform "
        "--recompute-num-layers 1");
}

TEST_CASE("what trainers do unasked with experts is always written") {
  // exports.md, finding 3: Megatron's usual dispatcher is allgather, its usual etp is tp.
  const std::string text =
      said(asked("megatron@0.19", "tp=2,ep=4,etp=1,mbs=1,gbs=64,seq=4096", "mixtral-8x7b"));
  CHECK(contains(text, "--moe-token-dispatcher-type alltoall"));
  CHECK(contains(text, "--expert-tensor-parallel-size 1"));
  CHECK(!contains(said(asked("megatron@0.19", "tp=2,mbs=1,gbs=64,seq=4096")), "moe"));
}

TEST_CASE("layers of each stage are Megatron's letters, without a count of chunks") {
  const std::string text =
      said(asked("megatron@0.19", "pp=2,vpp=2,layers=7/8*2/9,mbs=1,gbs=64,seq=4096"));
  CHECK(contains(text, "--pipeline-model-parallel-layout 'Et*7|t*8|t*8|t*9L'"));
  CHECK(!contains(text, "--num-virtual-stages-per-pipeline-rank"));
}

TEST_CASE("old versions of Megatron are told the layers of a chunk, new ones the chunks") {
  // 32 layers in 2 x 4 stages are 4 each.
  const char* layout = "pp=2,vpp=4,mbs=1,gbs=64,seq=4096";
  CHECK(
      contains(said(asked("megatron@0.10", layout)), "--num-layers-per-virtual-pipeline-stage 4"));
  CHECK(contains(said(asked("megatron@0.11", layout)), "--num-virtual-stages-per-pipeline-rank 4"));
}

TEST_CASE("modules that are recomputed have the trainer's names") {
  CHECK(contains(
      said(asked("megatron@0.19", "mbs=1,gbs=64,seq=4096,recompute=modules:norm+core-attention")),
      "--recompute-granularity selective --recompute-modules core_attn layernorm"));
}

TEST_CASE("torchtitan is told every module of every stage") {
  const std::string text =
      said(asked("torchtitan@0.3", "pp=2,sharding=fsdp,layers=1/31,mbs=2,gbs=64,seq=2048"));
  CHECK(
      contains(text, "--parallelism.module_fqns_per_model_part tok_embeddings,layers.0 layers.1,"));
  CHECK(contains(text, "layers.31,norm,lm_head "));
  // 64 sequences over 4 shards are 16 of a rank, 8 micro-batches of 2; a pipeline cannot be a
  // graph.
  CHECK(contains(text, "--training.local_batch_size 16"));
  CHECK(contains(text, "--parallelism.pipeline_parallel_microbatch_size 2"));
  CHECK(contains(text, "--training.disable_cuda_graphs"));
}

TEST_CASE("torchtitan 0.3 is told degrees of 1, which its configurations set otherwise") {
  // 0.3.0 models/llama3/config_registry.py: llama3_70b sets tensor_parallel_degree to 8, and
  // models/deepseek_v3/config_registry.py: deepseek_v3_16b ep to 8 and compiles the loss.
  const std::string text = said(
      asked("torchtitan@0.3", "sharding=fsdp,mbs=1,gbs=64,seq=2048", "llama-3.1-70b", "64xH100"));
  for (const char* degree : {"tensor", "context", "pipeline"}) {
    CHECK(contains(text, fmt::format("--parallelism.{}_parallel_degree 1 ", degree)));
  }
  CHECK(contains(text, "--parallelism.data_parallel_replicate_degree 1 "));
  CHECK(contains(text, "--compile.no-enable "));
  CHECK(!contains(text, "expert_parallel_degree"));
  CHECK(contains(said(asked("torchtitan@0.3", "sharding=fsdp,mbs=1,gbs=64,seq=2048",
                            "deepseek-v2-lite", "8xH100")),
                 "--parallelism.expert_parallel_degree 1 "));
}

TEST_CASE("torchtitan 0.3 records no graph where experts are spread") {
  // 0.3.0 trainer.py _validate_cuda_graphs: a dispatcher that waits for the host is refused.
  const char* off = "--training.disable_cuda_graphs";
  CHECK(contains(
      said(asked("torchtitan@0.3", "sharding=fsdp,ep=8,mbs=1,gbs=64,seq=2048", "qwen3-30b-a3b")),
      off));
  CHECK(!contains(
      said(asked("torchtitan@0.3", "sharding=fsdp,mbs=1,gbs=64,seq=2048", "qwen3-30b-a3b")), off));
}

TEST_CASE("torchtitan 0.2 reads a file, 0.3 a command line whose subcommand stands alone") {
  const char* layout = "sharding=fsdp,mbs=1,gbs=64,seq=2048,recompute=full";
  const Question old = asked("torchtitan@0.2", layout), now = asked("torchtitan@0.3", layout);
  CHECK(target_of(old).form == SettingsForm::Toml);
  CHECK(target_of(now).form == SettingsForm::Options);
  CHECK(contains(said(now), "activation_checkpoint:full"));
  CHECK(contains(detail::to_toml(translated(old).settings),
                 "[activation_checkpoint]\nmode = \"full\""));
}

TEST_CASE("torchtitan 0.2 is told of float8 by the names that its converters are registered by") {
  // 0.2.0 to 0.2.2 components/quantization/float8.py, mx.py: register_model_converter.
  const auto toml = [](const char* trainer, const char* precision, const char* on) {
    return detail::to_toml(
        translated(asked(trainer,
                         fmt::format("fsdp,precision={},mbs=1,gbs=64,seq=2048", precision).c_str(),
                         "llama-3.1-8b", on))
            .settings);
  };
  for (const char* trainer : {"torchtitan@0.2", "torchtitan@0.2.2"}) {
    const std::string tensorwise = toml(trainer, "fp8-tensorwise", "8xH100");
    CHECK(contains(tensorwise, "converters = [\"quantize.linear.float8\"]"));
    CHECK(!contains(tensorwise, "recipe_name"));
    CHECK(contains(toml(trainer, "fp8-rowwise", "8xH100"), "recipe_name = \"rowwise\""));
    CHECK(contains(toml(trainer, "mxfp8", "8xB200"), "converters = [\"quantize.linear.mx\"]"));
    // Its recipes are by tensors and by rows.
    CHECK(find_kind(picked_trainer(trainer).precisions, PrecisionKind::Fp8Blockwise) == nullptr);
  }
}

TEST_CASE("what a target has no setting for is named, and the nearest layout is without it") {
  const Question mixed = asked("megatron@0.19", "pp=2,recompute=full/none,mbs=1,gbs=64,seq=4096");
  CHECK(unsayable(mixed) == "recompute by stage");
  const Layout near = translated(mixed).nearest;
  CHECK(near.recompute_by_stage.empty());
  CHECK(near.recompute.kind == RecomputeKind::Full);
  CHECK(unsayable(asked("torchtitan@0.3", "sharding=fsdp,precision=mxfp8,mbs=1,gbs=64,seq=2048",
                        "llama-3.1-8b", "8xB200")) == "precision=mxfp8");
  CHECK(unsayable(asked("megatron@0.19", "order=tp-dp-cp-ep-pp,mbs=1,gbs=64,seq=4096")) ==
        "order=tp-dp-cp-ep-pp");
  CHECK(contains(unsayable(asked("megatron@0.19", "mbs=1,gbs=64,seq=4096", "llama-3.1-8b", "8xH100",
                                 "lora=16")),
                 "lora=16"));
}

TEST_CASE("an order of ranks that Megatron has a word for is that word") {
  CHECK(contains(said(asked("megatron@0.19", "pp=2,order=tp-cp-ep-pp-dp,mbs=1,gbs=64,seq=4096")),
                 "--use-tp-pp-dp-mapping"));
}

TEST_CASE("an optimizer with a word of its own for ZeRO is not told of it twice") {
  const char* layout = "zero=1,mbs=1,gbs=64,seq=4096";
  const std::string text =
      said(asked("megatron@0.16", layout, "llama-3.1-8b", "8xH100", "optimizer=muon"));
  CHECK(contains(text, "--optimizer dist_muon"));
  CHECK(!contains(text, "--use-distributed-optimizer"));
}

TEST_CASE("a target is found by its name or by its trainer, and stands for one trainer") {
  const Trainer megatron = picked_trainer("megatron");
  CHECK(find_target("", megatron)->name == "megatron-lm");
  CHECK(find_target("Megatron-LM", megatron)->name == "megatron-lm");
  const auto other = find_target("torchtitan", megatron);
  REQUIRE(!other);
  CHECK(other.error().diagnostics[0].hint == "plan with --trainer torchtitan");
  const auto unknown = find_target("megatron-ml", megatron);
  REQUIRE(!unknown);
  CHECK(contains(unknown.error().diagnostics[0].hint, "megatron-lm"));
  CHECK(!find_target("", picked_trainer("litgpt")));
}

TEST_CASE("no prose is among the settings of targets") {
  for (const Target& target : targets()) {
    for (const Trainer& trainer : shipped_trainers()) {
      if (trainer.name != target.trainer || trainer.from < target.from) continue;
      for (const std::string& key : known_keys(trainer, target)) {
        const bool plain = std::all_of(key.begin(), key.end(), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' ||
                 c == ':';
        });
        CHECK_MESSAGE(plain, trainer.name << ": " << key);
      }
    }
  }
}

// Megatron's arguments as the JSON that model.h reads.
std::string json_of(const std::vector<Setting>& arguments) {
  Json json = Json::object();
  json.add("model_type", Json::of("megatron"));
  for (const Setting& argument : arguments) {
    std::string name = argument.key.substr(2);
    std::replace(name.begin(), name.end(), '-', '_');
    if (name == "moe_layer_freq") {
      json.add(name, Json::of(argument.values.front()));
    } else {
      json.add(name, argument.values.empty() ? Json::of(true)
                                             : detail::value_of(argument.values.front()));
    }
  }
  return to_text(json);
}

TEST_CASE("models of the zoo as Megatron's arguments are read back as themselves") {
  const auto zoo = load_zoo(kShippedData);
  REQUIRE(zoo);
  int written = 0;
  for (const ZooEntry& entry : *zoo) {
    const auto arguments = megatron_model(entry.model, entry.model.sequence_most, {0, 19});
    if (!arguments) continue;
    ++written;
    auto read = parse_model(json_of(*arguments), entry.model.name, kShippedData);
    REQUIRE_MESSAGE(read.has_value(), entry.model.name << ": " << to_text(read.error()));
    CHECK_MESSAGE(parameters(*read).total() == parameters(entry.model).total(), entry.model.name);
    CHECK_MESSAGE(read->layers == entry.model.layers, entry.model.name);
  }
  CHECK(written > 100);
}

std::string model_line(const Model& model, const Version& version = {0, 19}) {
  const auto arguments = megatron_model(model, 4096, version);
  if (!arguments) return arguments.error().diagnostics.front().what;
  return settings_line(*arguments,
                       *find_target("megatron-lm", asked("megatron", "mbs=1,gbs=8,seq=8").trainer));
}

TEST_CASE("Megatron is told the base of rotary positions and the epsilon of norms") {
  // Qwen/Qwen3-8B config.json; Megatron's own are 10000 and 1e-5.
  const auto model = find_model("qwen3-8b", kShippedData);
  REQUIRE(model);
  CHECK(contains(model_line(*model), "--norm-epsilon 1e-06 --rotary-base 1000000 "));
  Model silent = *model;
  silent.constants = {};
  CHECK(!contains(model_line(silent), "--rotary-base"));
  CHECK(contains(join(megatron_model_notes(silent), ""), "--rotary-base (10000)"));
  CHECK(megatron_model_notes(*model).empty());
}

TEST_CASE("Megatron is told how DeepSeek-V3's router scores, which came with 0.11") {
  // 0.19.0 examples/post_training/modelopt/conf/deepseek-ai/DeepSeek-R1.sh
  const auto model = find_model("deepseek-v3", kShippedData);
  REQUIRE(model);
  CHECK(contains(model_line(*model),
                 "--moe-router-score-function sigmoid --moe-router-enable-expert-bias "
                 "--moe-router-num-groups 8 --moe-router-group-topk 4 "
                 "--moe-router-topk-scaling-factor 2.5"));
  CHECK(contains(model_line(*model), "--rotary-scaling-factor 40"));
  CHECK(contains(model_line(*model, {0, 10}), "its router before 0.11"));
}

TEST_CASE("Megatron is told how latent attention is scaled by YaRN, which came with 0.11") {
  // training/arguments.py: --mscale is 1, --mscale-all-dim 1 in 0.11.0 to 0.13.0 and 0 since.
  const auto deep = find_model("deepseek-v3", kShippedData);
  const auto kimi = find_model("kimi-k2", kShippedData);
  const auto lite = find_model("deepseek-v2-lite", kShippedData);
  REQUIRE(deep);
  REQUIRE(kimi);
  REQUIRE(lite);
  CHECK(contains(model_line(*deep), "--rotary-scaling-factor 40 --mscale-all-dim 1 "));
  CHECK(!contains(model_line(*deep), "--mscale "));
  CHECK(!contains(model_line(*deep, {0, 13}), "--mscale"));
  CHECK(contains(model_line(*kimi), "--rotary-scaling-factor 32 --mscale-all-dim 1 "));
  CHECK(contains(join(megatron_model_notes(*kimi), ""), "beta_fast of 1"));
  CHECK(contains(model_line(*lite), "--mscale 0.707 --mscale-all-dim 0.707 "));
  CHECK(!contains(model_line(*lite, {0, 10}), "--mscale"));
  Model silent = *deep;
  silent.constants.rotary_mscale_all = {};
  CHECK(!contains(model_line(silent), "--mscale"));
  CHECK(contains(model_line(silent, {0, 13}), "--mscale-all-dim 0 "));
}

TEST_CASE("routers of the zoo scale their scores by what the models' configs say") {
  for (const auto& [name, factor] : {std::pair{"kimi-k2", "2.827"},
                                     {"moonlight-16b-a3b", "2.446"},
                                     {"glm-4.5", "2.5"},
                                     {"deepseek-v2", "16"}}) {
    const auto model = find_model(name, kShippedData);
    REQUIRE(model);
    CHECK_MESSAGE(
        contains(model_line(*model), fmt::format("--moe-router-topk-scaling-factor {}", factor)),
        name);
    CHECK(!contains(join(megatron_model_notes(*model), ""), "scaling-factor"));
  }
  const auto silent = parse_model(R"({"model_type": "deepseek_v3"})", "c.json", kShippedData);
  REQUIRE(silent);
  CHECK(
      contains(join(megatron_model_notes(*silent), ""),
               "--moe-router-topk-scaling-factor is the default of the family deepseek_v3 (2.5)"));
}

TEST_CASE("what Megatron's arguments cannot say of Granite leaves the model blank") {
  for (const char* name : {"granite-3.0-2b", "granite-3.0-1b-a400m"}) {
    const auto model = find_model(name, kShippedData);
    REQUIRE(model);
    CHECK(contains(model_line(*model), "cannot describe the multipliers of its embedding"));
  }
}

TEST_CASE("layers without rotary positions are named, from 0.13 on") {
  // HuggingFaceTB/SmolLM3-3B: every fourth layer; 0.13.0 transformer_config.py no_rope_freq 4 is
  // [0, 0, 0, 1, ...], 1 for no rotation.
  const auto model = find_model("smollm3-3b", kShippedData);
  REQUIRE(model);
  CHECK(contains(model_line(*model), "--no-rope-freq 4 "));
  CHECK(contains(model_line(*model, {0, 12}), "layers without rotary positions before 0.13"));
  Model odd = *model;
  odd.layers.resize(6);  // a number has to divide the layers
  CHECK(contains(model_line(odd), "--no-rope-freq '([0]*3+[1]*1+[0]*2)' "));
  const auto linear = find_model("qwen3-next-80b-a3b", kShippedData);
  REQUIRE(linear);
  CHECK(contains(model_line(*linear), "(--linear-attention-freq) are not written"));
  CHECK(contains(model_line(*linear, {0, 15}), "cannot describe"));
}

TEST_CASE("Megatron has windows and sinks from 0.15 on") {
  // 0.19.0 examples/post_training/modelopt/conf/openai/gpt-oss-20b.sh
  const auto model = find_model("gpt-oss-20b", kShippedData);
  REQUIRE(model);
  const std::string line = model_line(*model);
  for (const char* part :
       {"--quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0",
        "--window-size 127,0 --window-attn-skip-freq 2 --softmax-type learnable"}) {
    CHECK_MESSAGE(contains(line, part), line);
  }
  CHECK(contains(model_line(*model, {0, 14}), "sliding windows before 0.15"));
}

Question asked_with(const char* attention, const char* trainer) {
  auto question = read_question({.model = "llama-2-13b",
                                 .on = "16xH100",
                                 .trainer = trainer,
                                 .layout = "tp=2,mbs=1,gbs=64,seq=4096",
                                 .job = {},
                                 .attention = attention,
                                 .schedule = {}},
                                DataDirectory(kShippedData));
  REQUIRE_MESSAGE(question.has_value(), to_text(question.error()));
  return *std::move(question);
}

std::string said_of_attention(const char* attention, const char* trainer) {
  const Question question = asked_with(attention, trainer);
  const Translation translation = translate({.model = question.model,
                                             .cluster = question.cluster,
                                             .trainer = question.trainer,
                                             .layout = question.read.layout,
                                             .job = question.job,
                                             .attention = question.attention},
                                            target_of(question));
  if (!translation.unsayable.empty()) return "not: " + translation.unsayable.front().what;
  if (translation.settings.empty()) return "";
  return settings_line(translation.settings, target_of(question)) + join(translation.notes, "");
}

TEST_CASE("attention that is asked for is switched on") {
  // 0.11.0 training/arguments.py --attention-backend; before, Transformer Engine's variables. Its
  // unfused attention has a fused softmax unless NVTE_MASKED_SOFTMAX_FUSION is 0.
  const std::string now = said_of_attention("eager", "megatron@0.19");
  CHECK(contains(now, "--attention-backend unfused"));
  CHECK(contains(now, "NVTE_MASKED_SOFTMAX_FUSION=0"));
  CHECK(!contains(said_of_attention("fused-softmax", "megatron@0.19"), "NVTE_MASKED"));
  CHECK(contains(said_of_attention("eager", "megatron@0.10"), "NVTE_FLASH_ATTN=0"));
  CHECK(!contains(said_of_attention("flash", "megatron@0.19"), "attention"));
  CHECK(said_of_attention("sdpa", "megatron@0.19") == "not: attention=sdpa");
  CHECK(contains(said_of_attention("eager", "deepspeed"), "has to run eager attention"));
}

TEST_CASE("accelerate without FSDP recomputes by the Trainer's own argument") {
  // accelerate 1.15.0 utils/launch.py reads fsdp_config only for FSDP; transformers 5.22.2
  // trainer.py refuses both at once.
  const char* own = "TrainingArguments.gradient_checkpointing=true";
  const char* layout = "mbs=2,gbs=16,seq=2048,recompute=full";
  const Question one = asked("accelerate", layout, "llama-3.2-1b", "1xH100");
  const Question eight = asked("accelerate", layout, "llama-3.2-1b", "8xH100");
  const auto line = [](const Question& question) {
    std::string text;
    for (const Setting& each : translated(question).settings) {
      text += each.key + '=' + join(each.values, " ") + ' ';
    }
    return text;
  };
  for (const Question* question : {&one, &eight}) {
    CHECK(contains(line(*question), own));
    CHECK(!contains(line(*question), "fsdp_config"));
  }
  // commands/launch.py _validate_launch_command: MULTI_GPU wants two processes.
  CHECK(contains(line(one), "distributed_type=\"NO\""));
  CHECK(contains(line(eight), "distributed_type=MULTI_GPU"));
  const std::string sharded = line(
      asked("accelerate", "fsdp,mbs=2,gbs=16,seq=2048,recompute=full", "llama-3.2-1b", "8xH100"));
  CHECK(!contains(sharded, own));
  CHECK(contains(sharded, "fsdp_config.fsdp_activation_checkpointing=true"));
}

TEST_CASE("DeepSpeed's batch and precision are the Trainer's arguments too") {
  // transformers 5.22.2 integrations/deepspeed.py fill_match: a mismatch is refused.
  const auto has = [](const Question& question, const char* key, const char* value) {
    const auto settings = translated(question).settings;
    return std::any_of(settings.begin(), settings.end(), [&](const Setting& one) {
      return one.key == fmt::format("TrainingArguments.{}", key) &&
             one.values == std::vector<std::string>{value};
    });
  };
  // 64 sequences over 8 ranks in micro-batches of 2.
  const Question plain = asked("deepspeed", "zero=3,mbs=2,gbs=64,seq=2048");
  CHECK(has(plain, "per_device_train_batch_size", "2"));
  CHECK(has(plain, "gradient_accumulation_steps", "4"));
  CHECK(has(plain, "bf16", "true"));
  CHECK(has(plain, "deepspeed", "ds_config.json"));
  CHECK(!has(asked("deepspeed", "pp=2,zero=1,mbs=2,gbs=64,seq=2048"), "bf16", "true"));
}

TEST_CASE("an export says what it leaves blank") {
  // 0.2.0 config/job_config.py: the model is llama3's debugmodel unless it is named.
  const auto notes = [](const char* trainer, const char* model) {
    const Question question = asked(trainer, "mbs=1,gbs=64,seq=2048", model);
    return join(translated(question).notes, " ");
  };
  CHECK(contains(notes("torchtitan@0.2", "qwen2.5-7b"), "debugmodel"));
  CHECK(notes("torchtitan@0.2", "qwen3-8b").empty());
  CHECK(contains(notes("torchtitan@0.3", "qwen3-8b"), "MODULE and CONFIG"));
  CHECK(contains(notes("megatron@0.14", "gpt-oss-20b"), "MODEL in settings.sh is left blank"));
}

TEST_CASE("a list of lists is cut at its own commas") {
  using detail::list_items;
  CHECK(list_items("[a,[b,c],d]") == std::vector<std::string>{"a", "[b,c]", "d"});
  CHECK(list_items("[]") == std::vector<std::string>{});
  CHECK(!list_items("a,b"));
}

// 0.3.0 components/loss.py ChunkedLossWrapper.Config.loss_fn: the plain loss inside the chunked
// one.
TEST_CASE("torchtitan's plain loss is said in a module of Python that launch.sh starts with") {
  const auto files_of = [](const char* layout) {
    const Question question = asked("torchtitan@0.3", layout);
    const Plan plan{.model = question.model,
                    .cluster = question.cluster,
                    .trainer = question.trainer,
                    .layout = question.read.layout,
                    .job = question.job};
    return write_files(plan, target_of(question), translated(question), {});
  };
  std::string module, launch, settings;
  for (const Artefact& file :
       files_of("pp=2,fsdp,zero=2,mbs=1,gbs=64,seq=4096,loss=loss-parallel")) {
    if (file.path == "trainwright_config.py") module = file.text;
    if (file.path == "launch.sh") launch = file.text;
    if (file.path == "settings.sh") settings = file.text;
  }
  CHECK(contains(module, "from torchtitan.models.llama3.config_registry import llama3_8b as base"));
  CHECK(contains(module, "config.loss = getattr(config.loss, \"loss_fn\", config.loss)"));
  CHECK(contains(launch, "\"${SETTINGS[@]}\" --module trainwright_config --config plan"));
  CHECK(!contains(settings, "trainwright_config"));
  for (const Artefact& file : files_of("pp=2,fsdp,zero=2,mbs=1,gbs=64,seq=4096")) {
    CHECK(file.path != "trainwright_config.py");
    CHECK(!contains(file.text, "trainwright_config"));
  }
}

std::string put(const Question& question, const std::string& text) {
  const auto changed = put_into(text, "mine", translated(question).settings, target_of(question));
  REQUIRE_MESSAGE(changed.has_value(), to_text(changed.error()));
  return *changed;
}

TEST_CASE("a user's own TOML keeps its comments, its order and what is not of the layout") {
  const Question question =
      asked("torchtitan@0.2", "sharding=fsdp,tp=2,sp,mbs=1,gbs=64,seq=8192,recompute=full");
  const std::string changed = put(question,
                                  "# mine\n"
                                  "[parallelism]\n"
                                  "tensor_parallel_degree = 4  # inside a node\n"
                                  "module_fqns_per_model_part = [\n  [\"norm\"],\n]\n"
                                  "\n"
                                  "[optimizer]\n"
                                  "lr = 3e-4\n");
  CHECK(
      changed.starts_with("# mine\n[parallelism]\ntensor_parallel_degree = 2  # inside a node\n"
                          "module_fqns_per_model_part = [\n  [\"norm\"],\n]\n"));
  CHECK(contains(changed, "\nlr = 3e-4\n"));
  CHECK(contains(changed, "\n[training]\n"));
  CHECK(put(question, changed) == changed);
}

TEST_CASE("a user's own YAML gets what it lacks below the keys it has") {
  const Question question = asked("accelerate", "sharding=fsdp,mbs=1,gbs=64,seq=4096");
  const std::string changed = put(question,
                                  "fsdp_config:\n"
                                  "    fsdp_version: 1  # old\n"
                                  "    fsdp_offload_params: false\n"
                                  "machine_rank: 0\n");
  CHECK(contains(changed, "\n    fsdp_version: 2  # old\n    fsdp_offload_params: false\n"));
  CHECK(contains(changed, "\nmachine_rank: 0\n"));
  CHECK(put(question, changed) == changed);
}

TEST_CASE("a user's own JSON keeps its keys; one that is no JSON is told where") {
  const Question question = asked("deepspeed", "zero=3,mbs=1,gbs=64,seq=4096");
  const std::string changed =
      put(question,
          R"({"zero_optimization": {"stage": 1, "overlap_comm": true}, "steps_per_print": 5})");
  const auto read = read_settings(changed, "mine", SettingsForm::Json);
  REQUIRE(read.has_value());
  const auto value = [&](std::string_view key) {
    for (const Setting& one : *read) {
      if (one.key == key) return one.values.front();
    }
    return std::string();
  };
  CHECK(value("zero_optimization.stage") == "3");
  CHECK(value("zero_optimization.overlap_comm") == "true");
  CHECK(value("steps_per_print") == "5");
  CHECK_FALSE(
      put_into("{", "mine", translated(question).settings, target_of(question)).has_value());
}

TEST_CASE("what changed is told as diff -u does") {
  CHECK(line_diff("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nd\nE\nf\ng\n", "x") ==
        "--- x\n+++ x\n@@ -2,5 +2,6 @@\n b\n c\n d\n-e\n+E\n f\n+g\n");
  CHECK(line_diff("a\n", "a\n", "x").empty());
  CHECK(line_diff("", "a\n", "x") == "--- x\n+++ x\n@@ -0,0 +1,1 @@\n+a\n");
}

TEST_CASE("Paddle's tuner gets the layouts that it has words for, in their order, each once") {
  const Question asks =
      asked("paddlenlp", "tp=2,dp=4,sp,zero=3,mbs=1,gbs=64,seq=4096", "llama-2-7b", "8xA100-40GB");
  std::vector<Layout> layouts;
  for (const char* text :
       {"tp=2,dp=4,sp,zero=3,mbs=1,gbs=64,seq=4096,recompute=selective",
        "tp=2,dp=2,cp=2,sp,zero=3,mbs=1,gbs=64,seq=4096",  // no word for cp
        "tp=2,dp=4,mbs=1,gbs=64,seq=4096",                 // nor for tp alone
        "pp=4,vpp=2,dp=2,zero=1,mbs=2,gbs=64,seq=4096,recompute=full", "dp=8,mbs=1,gbs=64,seq=4096",
        "dp=8,dp_replicate=2,zero=1,mbs=1,gbs=64,seq=4096", "dp=8,mbs=1,gbs=64,seq=4096",
        "tp=2,dp=4,sp,zero=2,mbs=1,gbs=64,seq=4096,on=overlap-tp"}) {  // of all trials alike
    const auto read = parse_layout(text, {.world = 8, .usual = usual_layout(asks.trainer)});
    REQUIRE_MESSAGE(read.has_value(), to_text(read.error()));
    layouts.push_back(read->layout);
  }
  const auto files = paddle_tuner_files(asks.model, layouts, "run");
  REQUIRE(files.size() == 2);
  CHECK(files[0].text ==
        "dp_degree,mp_degree,pp_degree,vpp_degree,micro_batch_size,sharding_degree,sharding_stage,"
        "use_recompute,recompute_granularity\n"
        "1,2,1,1,1,4,3,true,core_attn\n"
        "1,1,4,2,2,2,1,true,full\n"
        "8,1,1,1,1,1,1,false,\n"
        "2,1,1,1,1,4,1,false,\n"
        "1,2,1,1,1,4,2,false,\n");
  const auto json = parse_json(files[1].text, files[1].path);
  REQUIRE(json.has_value());
  CHECK(json->find("task_limit")->integer == 5);
  CHECK(json->find("configs_csv")->string == "run/auto_tuner.csv");
  CHECK(json->find("model_cfg")->find("intermediate_size")->integer == 11008);
  CHECK(to_line(*json->find("sharding_stage")) == "[3, 1, 2]");
  CHECK(to_line(*json->find("recompute_granularity")) == R"(["core_attn", "full"])");
  CHECK(paddle_tuner_files(asks.model, {}, "run").empty());
}

}  // namespace
}  // namespace trainwright
