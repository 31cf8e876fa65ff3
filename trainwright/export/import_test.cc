// Settings read back into our words.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

Understood understood(std::string_view text, SettingsForm form, const char* trainer_name) {
  const Trainer trainer = picked_trainer(trainer_name);
  const auto settings = read_settings(text, "file", form);
  REQUIRE_MESSAGE(settings.has_value(), to_text(settings.error()));
  const auto target = find_target("", trainer);
  REQUIRE(target.has_value());
  auto read = understand(*settings, trainer, *target, 8);
  REQUIRE_MESSAGE(read.has_value(), to_text(read.error()));
  return *std::move(read);
}

TEST_CASE("a launch script of Megatron-LM says layout, job and model") {
  const Understood read = understood(
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
      "TP=2\n"
      "python pretrain_gpt.py --num-layers 32 --hidden-size=4096 --num-attention-heads 32 \\\n"
      "  --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size 2 --sequence-parallel "
      "\\\n"
      "  --micro-batch-size 1 --global-batch-size 64 --seq-length 4096 --bf16 \\\n"
      "  --use-distributed-optimizer --recompute-granularity selective "
      "--moe-expert-capacity-factor 1.5 \\\n"
      "  --lr 1e-4 --pipeline-model-parallel-layout 'Et*15|t*17L'\n",
      SettingsForm::Options, "megatron@0.19");
  CHECK(read.layout ==
        "tp=2,pp=2,max_connections=1,seq=4096,sp,layers=15/"
        "17,mbs=1,gbs=64,precision=bf16,sharding=zero,recompute=selective");
  CHECK(read.model.find("\"num_layers\": 32") != std::string::npos);
  CHECK(read.model.find("tensor_model_parallel_size") == std::string::npos);
  CHECK(read.not_heeded == std::vector<std::string>{"--moe-expert-capacity-factor"});
  CHECK(read.not_said.empty());
  CHECK(read.ignored == 1);  // --lr: what describes the model has a part in this
}

TEST_CASE("of an option that is given twice the last counts, for the model too") {
  const Understood read = understood(
      "python pretrain_gpt.py --num-layers 8 --hidden-size 4096 --num-attention-heads 32 "
      "--micro-batch-size 1 --global-batch-size 8 --seq-length 512 --num-layers 32\n",
      SettingsForm::Options, "megatron@0.19");
  CHECK(read.model.find("\"num_layers\": 32") != std::string::npos);
  CHECK(read.model.find("\"num_layers\": 8") == std::string::npos);
}

TEST_CASE("a dictionary is the value of its option, not a word of its own") {
  const auto settings =
      read_settings("train.py --fsdp_config '{\"offload_params\": true}' --bf16\n", "x.sh",
                    SettingsForm::Options);
  REQUIRE(settings);
  const auto found = std::find_if(settings->begin(), settings->end(),
                                  [](const Setting& one) { return one.key == "--fsdp_config"; });
  REQUIRE(found != settings->end());
  CHECK(found->values == std::vector<std::string>{"{\"offload_params\": true}"});
}

// What DeepSpeed's three numbers say on 8 ranks, beside `asked`.
std::string batch_of(const std::string& members, std::string_view asked = {},
                     const char* name = "deepspeed") {
  const Trainer trainer = picked_trainer(name);
  const bool yaml = std::string_view(name).starts_with("accelerate");
  const auto settings = read_settings(yaml ? members : '{' + members + '}', "file",
                                      yaml ? SettingsForm::Yaml : SettingsForm::Json);
  REQUIRE_MESSAGE(settings.has_value(), to_text(settings.error()));
  const auto read = understand(*settings, trainer, find_target("", trainer).value(), 8, {}, asked);
  if (!read) return to_text(read.error());
  std::vector<std::string> parts;
  for (const std::string_view entry : split(read->layout, ',')) {
    if (entry.starts_with("mbs") || entry.starts_with("gbs")) parts.emplace_back(entry);
  }
  parts.insert(parts.end(), read->notes.begin(), read->notes.end());
  return join(parts, " ");
}

TEST_CASE("two of DeepSpeed's three numbers give the third, and three have to agree") {
  const std::string gbs = R"("train_batch_size": 512)",
                    steps = R"("gradient_accumulation_steps": 16)",
                    mbs = R"("train_micro_batch_size_per_gpu": 4)";
  CHECK(batch_of(gbs + ',' + mbs) == "mbs=4 gbs=512");
  CHECK(batch_of(gbs + ',' + steps) == "mbs=4 gbs=512");
  CHECK(batch_of(mbs + ',' + steps) == "mbs=4 gbs=512");
  CHECK(batch_of(mbs + ',' + steps + ',' + gbs) == "mbs=4 gbs=512");
  CHECK(batch_of(R"("train_batch_size": 256,)" + mbs + ',' + steps) ==
        "train_batch_size: 256 is not train_micro_batch_size_per_gpu 4 x "
        "gradient_accumulation_steps 16 x 8 data-parallel ranks, which is 512\n"
        "  hint: write 512, or leave out one of the three; --batch 512 asks about it as it is");
  CHECK(batch_of(R"("train_batch_size": 200,)" + steps) ==
        "train_batch_size: 200 is no multiple of gradient_accumulation_steps 16 x 8 data-parallel "
        "ranks\n  hint: write 256");
  // Ranks of tensor parallelism share their sequences.
  CHECK(batch_of(gbs + ',' + steps + R"(,"tensor_parallel": {"autotp_size": 2})") ==
        "mbs=8 gbs=512");
  CHECK(batch_of(gbs + ',' + steps, "tp=2") == "mbs=8 gbs=512");
}

TEST_CASE("what is asked for goes before a file's number of micro-batches, and says so") {
  const std::string steps =
      "deepspeed_config: {zero_stage: 2, gradient_accumulation_steps: 16}\n"
      "distributed_type: DEEPSPEED\n";
  CHECK(batch_of(steps, "mbs=4", "accelerate-deepspeed") == "gbs=512");
  CHECK(batch_of(steps, "gbs=512", "accelerate-deepspeed") == "mbs=4 gbs=512");
  CHECK(batch_of(steps, "mbs=4,gbs=256", "accelerate-deepspeed") ==
        "gbs=512 deepspeed_config.gradient_accumulation_steps 16 is left aside: it would make 512 "
        "sequences a step, not 256.");
  CHECK(batch_of(steps + "num_processes: 4\n", "mbs=4", "accelerate-deepspeed") ==
        "gbs=512 num_processes 4 is left aside: 8 accelerators are asked about.");
}

TEST_CASE("torchtitan's run_train.sh is told module and configuration by the environment") {
  const Understood read = understood(
      "export MODULE=llama3\n"
      "NGPU=8 CONFIG=llama3_8b ./run_train.sh --training.local_batch_size 2 "
      "--training.seq_len 4096",
      SettingsForm::Options, "torchtitan@0.3");
  CHECK(read.model == "llama-3.1-8b");
  CHECK(read.not_said.empty());
}

TEST_CASE(
    "torchtitan gives a rank two stages where its schedule needs several and none says how many") {
  const auto layout = [](const char* schedule) {
    return understood(fmt::format("--training.local_batch_size 8 --training.seq_len 4096 "
                                  "--parallelism.pipeline_parallel_degree 2 "
                                  "--parallelism.pipeline_parallel_schedule {}",
                                  schedule),
                      SettingsForm::Options, "torchtitan@0.3")
        .layout;
  };
  // distributed/pipeline_parallel.py: stages_per_rank = 1 if is_single_stage_schedule else 2.
  CHECK(layout("Interleaved1F1B").find("vpp=2") != std::string::npos);
  CHECK(layout("ZBVZeroBubble").find("vpp=2") != std::string::npos);
  CHECK(layout("1F1B").find("vpp") == std::string::npos);
}

TEST_CASE("a micro-batch that is asked for makes the step of torchtitan that much larger") {
  const Trainer trainer = picked_trainer("torchtitan@0.3");
  const auto settings = read_settings("--training.local_batch_size 2 --training.seq_len 4096",
                                      "run.sh", SettingsForm::Options);
  const auto read =
      understand(*settings, trainer, find_target("", trainer).value(), 8, {}, "mbs=4");
  REQUIRE(read.has_value());
  CHECK(read->layout.find("gbs=32") != std::string::npos);
}

TEST_CASE("what accelerate launch is told is told as in its own file") {
  const auto launch = accelerate_launch(
      "accelerate launch --config_file fsdp.yaml --use_fsdp --fsdp_offload_params true \\\n"
      "  --num_processes=8 train.py --bf16 --zero_stage 1\n",
      "run.sh", SettingsForm::Options);
  REQUIRE(launch.has_value());
  CHECK(launch->config_file == "fsdp.yaml");
  CHECK(launch->config_where == "run.sh:1");
  std::vector<std::string> told;
  for (const Setting& one : launch->settings) told.push_back(one.key + '=' + one.values.front());
  const std::vector<std::string> all = {"distributed_type=FSDP",
                                        "fsdp_config.fsdp_offload_params=true", "num_processes=8"};
  CHECK(told == all);
  CHECK(!accelerate_launch("torchrun train.py --config_file a.yaml", "a", SettingsForm::Options));
}

TEST_CASE("embedding and loss that count as layers do so before layers are dealt out to chunks") {
  const auto vpp = [](const std::string& accounts) {
    const Understood read = understood(
        "train.py --num-layers 126 --micro-batch-size 1 --global-batch-size 64 --seq-length 8192 "
        "--pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 2 " +
            accounts,
        SettingsForm::Options, "megatron@0.19");
    return entry_of(read.layout, "vpp").value_or("none");
  };
  // (126 + 2) / 8 ranks / 2 layers: Llama 3.1 405B as NVIDIA trains it.
  CHECK(vpp("--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split") ==
        "8");
  CHECK(vpp("") == "7");  // 126 / 8 is 15
}

TEST_CASE("options that describe Megatron-LM's model are spelt like others") {
  const auto notes = [](const std::string& option) {
    return understood(
               "train.py --num-layers 32 --micro-batch-size 1 --global-batch-size 8 "
               "--seq-length 512 " +
                   option,
               SettingsForm::Options, "megatron@0.19")
        .notes;
  };
  CHECK(notes("--attention-dropuot 0") ==
        std::vector<std::string>{
            "--attention-dropuot is not heeded: did you mean --attention-dropout?"});
  CHECK(notes("--attention-dropout 0 --vocab-file a --decoder-seq-length 8 --lr-decay-iters 9")
            .empty());
}

TEST_CASE("a misspelt option is told with the one that was meant") {
  const Understood read = understood(
      "train.py --num-layers 32 --micro-batch-size 1 --global-batch-size 8 --seq-length 512 "
      "--overlap-grad-redcue --lr 1e-4 --save-interval 100 --fp4-param-gather",
      SettingsForm::Options, "megatron@0.19");
  REQUIRE(read.notes.size() == 1);
  CHECK(read.notes[0] ==
        "--overlap-grad-redcue is not heeded: did you mean --overlap-grad-reduce?");
  CHECK(read.not_heeded == std::vector<std::string>{"--fp4-param-gather"});  // exists
  CHECK(read.ignored == 2);
}

// What Megatron's flags add to a layout of tp 1 and pp 2.
std::string added(const std::string& flags, const char* trainer) {
  const Understood read = understood(
      "train.py --micro-batch-size 1 --global-batch-size 8 --seq-length 512 --num-layers 40 "
      "--pipeline-model-parallel-size 2 " +
          flags,
      SettingsForm::Options, trainer);
  std::vector<std::string> entries;
  for (const std::string_view entry : split(read.layout, ',')) {
    constexpr std::string_view kSaid[] = {"pp=2", "mbs=1", "gbs=8", "seq=512", "sharding=ddp"};
    if (std::find(std::begin(kSaid), std::end(kSaid), entry) == std::end(kSaid))
      entries.emplace_back(entry);
  }
  if (!read.attention.empty()) entries.push_back("attention=" + read.attention);
  for (const std::string& key : read.not_heeded) entries.push_back('?' + key);
  for (const Unreadable& one : read.unreadable) entries.push_back('!' + one.key);
  return join(entries, ",");
}

TEST_CASE("what Megatron's flags leave out is its default, and flags have other spellings") {
  // 0.12.0 training/arguments.py: --fp8-recipe delayed, --optimizer-offload-fraction 1.0.
  CHECK(added("--bf16 --fp8-format hybrid", "megatron@0.12") == "precision=fp8-delayed");
  CHECK(added("--bf16 --fp8-format e4m3 --fp8-recipe tensorwise", "megatron@0.12") ==
        "precision=fp8-tensorwise");
  CHECK(added("--bf16 --fp8-format hybrid --fp8-recipe custom", "megatron@0.19") ==
        "precision=bf16,?--fp8-format,?--fp8-recipe");
  CHECK(added("--bf16 --optimizer-cpu-offload", "megatron@0.19") ==
        "precision=bf16,offload=optimizer");
  CHECK(added("--bf16 --optimizer-cpu-offload --optimizer-offload-fraction 0.5", "megatron@0.19") ==
        "precision=bf16,?--optimizer-cpu-offload,?--optimizer-offload-fraction");
  CHECK(added("--bf16 --recompute-activations", "megatron@0.8") ==
        "recompute=selective,precision=bf16");
  CHECK(added("--bf16 --grad-reduce-in-bf16", "megatron@0.19") == "precision=bf16,gradients=bf16");
  CHECK(added("--bf16 --use-precision-aware-optimizer --main-grads-dtype bf16", "megatron@0.19")
            .starts_with("gradients=bf16,precision=bf16"));
  CHECK(added("--bf16", "megatron@0.19") == "precision=bf16");
  // It says nothing of fp16, whose gradients have never been in bf16.
  CHECK(added("--fp16 --grad-reduce-in-bf16", "megatron@0.19") == "precision=fp16");
  CHECK(added("--attention-backend unfused", "megatron@0.19") ==
        "precision=fp32,attention=fused-softmax");
  CHECK(added("--use-flash-attn", "megatron@0.8") == "precision=fp32,attention=flash");
  // Tokens are gathered unless told otherwise.
  CHECK(added("--bf16 --expert-model-parallel-size 4", "megatron@0.19") ==
        "ep=4,dispatcher=all-gather,precision=bf16");
}

TEST_CASE("Megatron-Bridge sums gradients up in what its mixed precision says, not what ddp says") {
  const auto read = [](const std::vector<std::pair<std::string, std::string>>& overrides) {
    std::vector<Setting> settings;
    for (const auto& [key, value] : overrides) {
      settings.push_back({.key = key, .values = {value}, .of = {}, .why = {}});
    }
    const Trainer trainer = picked_trainer("megatron-bridge");
    const auto found = understand(settings, trainer, find_target("", trainer).value(), 8);
    REQUIRE(found.has_value());
    return entry_of(found->layout, "gradients").value_or("") + '/' +
           entry_of(found->layout, "precision").value_or("");
  };
  CHECK(read({{"mixed_precision", "bf16_mixed"}}) == "/bf16");
  CHECK(read({{"mixed_precision.bf16", "true"},
              {"mixed_precision.fp8", "e4m3"},
              {"mixed_precision.fp8_recipe", "mxfp8"},
              {"mixed_precision.grad_reduce_in_fp32", "False"},
              {"ddp.grad_reduce_in_fp32", "False"}}) == "bf16/mxfp8");
  CHECK(read({{"mixed_precision", "bf16_mixed"}, {"ddp.grad_reduce_in_fp32", "False"}}) == "/bf16");
}

TEST_CASE("float8 of torchtitan 0.2 is read by the names of its converters and by those of 0.1") {
  const auto precision = [](const std::string& converters, const std::string& recipe) {
    const Understood read =
        understood(fmt::format("[model]\nconverters = [{}]\n[training]\nlocal_batch_size = 1\n"
                               "[quantize.linear.float8]\n{}",
                               converters,
                               recipe.empty() ? "" : fmt::format("recipe_name = \"{}\"\n", recipe)),
                   SettingsForm::Toml, "torchtitan@0.2.2");
    std::string text = join(read.not_heeded, ",");
    for (const std::string_view entry : split(read.layout, ',')) {
      if (entry.starts_with("precision=")) text += entry.substr(10);
    }
    return text;
  };
  CHECK(precision("", "") == "bf16");
  CHECK(precision("\"quantize.linear.float8\"", "") == "fp8-tensorwise");
  CHECK(precision("\"quantize.linear.float8\"", "tensorwise") == "fp8-tensorwise");
  CHECK(precision("\"quantize.linear.float8\"", "rowwise") == "fp8-rowwise");
  CHECK(precision("\"quantize.linear.float8\", \"quantize.grouped_mm.float8\"", "rowwise") ==
        "fp8-rowwise");
  CHECK(precision("\"quantize.linear.mx\"", "") == "mxfp8");
  CHECK(precision("\"float8\"", "") == "fp8-tensorwise");
  CHECK(precision("\"float8\"", "rowwise") == "fp8-rowwise");
  CHECK(precision("\"mx\"", "") == "mxfp8");
}

TEST_CASE("Megatron-FSDP is known by its flag; what it shards unasked changed with 0.18") {
  // training/arguments.py: --data-parallel-sharding-strategy is no_shard in 0.14.0,
  // optim_grads_params in 0.18.0 (:2798) and 0.19.0 (:3023).
  CHECK(added("--bf16 --use-megatron-fsdp", "megatron@0.19") ==
        "sharding=megatron-fsdp,zero=3,precision=bf16");
  CHECK(added("--bf16 --use-megatron-fsdp --data-parallel-sharding-strategy optim",
              "megatron@0.14") == "sharding=megatron-fsdp,zero=1,precision=bf16");
  CHECK(added("--bf16 --use-megatron-fsdp", "megatron@0.14") ==
        "precision=bf16,?--use-megatron-fsdp");
}

TEST_CASE("stages of Megatron-LM: layers of a virtual one, and all the ways to write a layout") {
  // 40 layers / pp 2 / 5 a virtual stage.
  CHECK(added("--bf16 --num-layers-per-virtual-pipeline-stage 5", "megatron@0.8") ==
        "vpp=4,precision=bf16");
  CHECK(added("--bf16 --num-layers-per-virtual-pipeline-stage 5", "megatron@0.19") ==
        "vpp=4,precision=bf16");
  CHECK(added("--bf16 --num-layers-per-virtual-pipeline-stage $N", "megatron@0.19") ==
        "precision=bf16,!vpp");
  // pipeline_parallel_layer_layout.py: "Ettt|(tt|)*29,m|L"
  CHECK(added("--pipeline-model-parallel-layout 'Ettt|(t*10,tt|)*2,t*13L'", "megatron@0.19") ==
        "vpp=2,layers=3/12/12/13,precision=fp32");
  CHECK(added("--pipeline-model-parallel-layout 'E(tt|x)*2'", "megatron@0.19") ==
        "precision=fp32,!layers");
}

TEST_CASE("CUDA graphs hold whole layers or steps, or the parts that are named") {
  const auto heard = [](const std::string& flags, const char* trainer) {
    const Understood read = understood(
        "train.py --micro-batch-size 1 --global-batch-size 8 "
        "--seq-length 512 " +
            flags,
        SettingsForm::Options, trainer);
    const std::size_t at = read.layout.find(",on=");
    return at == std::string::npos ? "" : read.layout.substr(at + 1);
  };
  CHECK(heard("--cuda-graph-impl none", "megatron@0.19").empty());
  CHECK(heard("--cuda-graph-impl full_iteration", "megatron@0.19") == "on=graphs");
  CHECK(heard("--cuda-graph-impl local", "megatron@0.19") == "on=graphs");
  CHECK(heard("--cuda-graph-impl local --cuda-graph-scope full_iteration", "megatron@0.16") ==
        "on=graphs");
  CHECK(heard("--cuda-graph-impl transformer_engine --cuda-graph-scope moe_router attn",
              "megatron@0.16") == "on=part-graphs");
  CHECK(heard("--cuda-graph-impl local --cuda-graph-modules attn", "megatron@0.19") ==
        "on=part-graphs");
  CHECK(heard("--enable-cuda-graph", "megatron@0.12") == "on=graphs");
  CHECK(heard("--external-cuda-graph --cuda-graph-scope attn", "megatron@0.12") ==
        "on=part-graphs");
  // Told where they would be made unasked, and only there.
  const auto off = [](const std::string& settings) {
    return understood("train.py --training.local_batch_size 1 --training.seq_len 512 " + settings +
                          " --training.disable_cuda_graphs",
                      SettingsForm::Options, "torchtitan@0.3")
               .layout.find("off=graphs") != std::string::npos;
  };
  CHECK(off(""));
  CHECK_FALSE(off("--parallelism.pipeline_parallel_degree 2"));
}

TEST_CASE("what DeepSpeed's file does not carry is named") {
  // 8 ranks x 4 micro-batches x 2 sequences are 64.
  const Understood read = understood(
      R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "bf16": {"enabled": true},
          "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "reduce_bucket_size": 5e8}})",
      SettingsForm::Json, "deepspeed@0.19.8");
  CHECK(read.layout == "mbs=2,gbs=64,precision=bf16,sharding=zero,zero=3,offload=optimizer");
  CHECK(read.not_said == std::vector<std::string>{"seq"});
  CHECK(read.not_heeded == std::vector<std::string>{"zero_optimization.reduce_bucket_size"});
}

TEST_CASE("torchtitan's command line may write dashes, and 0.2 reads TOML") {
  CHECK(understood("torchrun -m torchtitan.train --module llama3 --config llama3_8b "
                   "--parallelism.tensor-parallel-degree 2 --training.seq_len 4096 "
                   "--training.local_batch_size 1 "
                   "activation-checkpoint:full",
                   SettingsForm::Options, "torchtitan@0.3")
            .layout.starts_with("tp=2,seq=4096,"));
  const Understood old = understood(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\ntensor_parallel_degree = 2\n"
      "[training]\nlocal_batch_size = 1\nseq_len = 4096\n",
      SettingsForm::Toml, "torchtitan@0.2");
  CHECK(old.model == "llama-3.1-8b");
  CHECK(old.layout.find("gbs=4") != std::string::npos);  // 8 ranks / tp 2 x 1
  CHECK(old.layout.find(",sp,") != std::string::npos);   // always, without a setting for it
}

TEST_CASE("torchtitan shards over all ranks unless told otherwise") {
  // config/job_config.py of 0.2.2: shard degree -1, reshard "default", recompute of every second
  // layer, 8 sequences of 2,048.
  const auto toml = [](const std::string& parallelism) {
    return understood("[parallelism]\n" + parallelism, SettingsForm::Toml, "torchtitan@0.2").layout;
  };
  const std::string rest = ",precision=bf16,sharding=fsdp,zero=3,recompute=every-nth:2";
  CHECK(toml("") == "seq=2048,mbs=8,gbs=64" + rest);
  CHECK(toml("data_parallel_shard_degree = -1") == "seq=2048,mbs=8,gbs=64" + rest);
  CHECK(toml("data_parallel_shard_degree = 8") == "seq=2048,mbs=8,gbs=64" + rest);
  CHECK(toml("data_parallel_replicate_degree = 2").find("sharding=hsdp,zero=3,dp_replicate=2") !=
        std::string::npos);
  CHECK(toml("data_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1")
            .find("sharding=ddp") != std::string::npos);
  // A pipeline keeps weights gathered.
  CHECK(toml("pipeline_parallel_degree = 2").find("sharding=fsdp,zero=2") != std::string::npos);
  CHECK(toml("fsdp_reshard_after_forward = \"never\"").find("sharding=fsdp,zero=2") !=
        std::string::npos);
  CHECK(toml("context_parallel_degree = 2").find("cp_kind=all-gather") != std::string::npos);
}

TEST_CASE("a configuration of torchtitan 0.3 brings settings of its own") {
  // models/llama3/config_registry.py: llama3_8b, llama3_70b.
  const auto line = [](const std::string& words) {
    return understood("torchrun -m torchtitan.train --module llama3 " + words,
                      SettingsForm::Options, "torchtitan@0.3")
        .layout;
  };
  CHECK(line("--config llama3_8b") ==
        "seq=8192,mbs=1,gbs=8,precision=bf16,sharding=fsdp,zero=3,recompute=op-selective");
  CHECK(line("--config llama3_70b") ==
        "tp=8,seq=8192,sp,mbs=8,gbs=8,precision=bf16,sharding=ddp,recompute=full");
  CHECK(line("--config llama3_70b --parallelism.tensor_parallel_degree 2 "
             "activation-checkpoint:selective") ==
        "tp=2,seq=8192,sp,mbs=8,gbs=32,precision=bf16,sharding=fsdp,zero=3,recompute=op-selective");
}

TEST_CASE("accelerate's FSDP is heard in all its spellings") {
  const auto yaml = [](const std::string& fsdp) {
    const Understood read = understood(
        "distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\n"
        "mixed_precision: bf16\nfsdp_config:\n  fsdp_state_dict_type: "
        "SHARDED_STATE_DICT\n" +
            fsdp,
        SettingsForm::Yaml, "accelerate");
    return read.layout + (read.not_heeded.empty() ? "" : " ?" + join(read.not_heeded, " ?"));
  };
  CHECK(yaml("  fsdp_sharding_strategy: 1") == "sharding=fsdp,zero=3,precision=bf16");
  CHECK(yaml("  fsdp_sharding_strategy: FULL_SHARD") == "sharding=fsdp,zero=3,precision=bf16");
  CHECK(yaml("  fsdp_sharding_strategy: SHARD_GRAD_OP") == "sharding=fsdp,zero=2,precision=bf16");
  CHECK(yaml("  fsdp_sharding_strategy: NO_SHARD") == "sharding=ddp,precision=bf16");
  CHECK(yaml("  fsdp_sharding_strategy: HYBRID_SHARD") ==
        "sharding=hsdp,zero=3,dp_replicate=2,precision=bf16");
  CHECK(yaml("  fsdp_sharding_strategy: 5") ==
        "sharding=hsdp,zero=2,dp_replicate=2,precision=bf16");
  CHECK(yaml("") == "sharding=fsdp,zero=3,precision=bf16");
  CHECK(yaml("  fsdp_version: 2") == "precision=bf16,sharding=fsdp,zero=3");
  CHECK(yaml("  fsdp_version: 2\n  fsdp_reshard_after_forward: false") ==
        "precision=bf16,sharding=fsdp,zero=2");
  CHECK(yaml("  fsdp_version: 2\n  fsdp_auto_wrap_policy: SIZE_BASED_WRAP") ==
        "precision=bf16,sharding=fsdp,zero=3 ?fsdp_config.fsdp_auto_wrap_policy");
  // On one node there is nothing to copy between.
  CHECK(understood("distributed_type: FSDP\nnum_machines: 1\nnum_processes: 8\nfsdp_config:\n  "
                   "fsdp_sharding_strategy: HYBRID_SHARD\n",
                   SettingsForm::Yaml, "accelerate")
            .layout == "sharding=fsdp,zero=3");
  // utils/dataclasses.py DeepSpeedPlugin: stage 2 unless told otherwise.
  CHECK(understood("distributed_type: DEEPSPEED\nmixed_precision: bf16\n", SettingsForm::Yaml,
                   "accelerate-deepspeed")
            .layout == "precision=bf16,sharding=zero,zero=2");
}

TEST_CASE("auto of a DeepSpeed file is a thing not said") {
  const Understood read = understood(
      R"({"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "zero_optimization": {"stage": 3,
          "reduce_bucket_size": "auto"}, "gradient_accumulation_steps": "auto",
          "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"})",
      SettingsForm::Json, "deepspeed@0.19.8");
  CHECK(read.layout == "precision=bf16,sharding=zero,zero=3");
  CHECK(read.not_said == std::vector<std::string>{"gbs", "mbs", "seq"});
  CHECK(read.not_heeded.empty());
  REQUIRE(read.notes.size() == 1);
  CHECK(read.notes[0].find("bf16 is assumed") != std::string::npos);
}

TEST_CASE("files with faults are diagnosed with their line") {
  CHECK(!read_settings("a = \n", "x.toml", SettingsForm::Toml));
  CHECK(!read_settings("a: [1\n", "x.yaml", SettingsForm::Yaml));
  CHECK(!read_settings("- 1\n", "x.yaml", SettingsForm::Yaml));
  const auto twice = read_settings("a: 1\na: 2\n", "x.yaml", SettingsForm::Yaml);
  REQUIRE(!twice);
  CHECK(twice.error().diagnostics[0].where == "x.yaml:2");
}

TEST_CASE("a number that a script takes from elsewhere is asked for, with its line") {
  const Understood read = understood("\ntrain.py --tensor-model-parallel-size $TP",
                                     SettingsForm::Options, "megatron@0.19");
  CHECK(read.unreadable ==
        std::vector<Unreadable>{{"tp", "file:2 --tensor-model-parallel-size", "$TP"}});
}

}  // namespace
}  // namespace trainwright
