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
}

TEST_CASE("files with faults are diagnosed with their line") {
  CHECK(!read_settings("a = \n", "x.toml", SettingsForm::Toml));
  CHECK(!read_settings("a: [1\n", "x.yaml", SettingsForm::Yaml));
  CHECK(!read_settings("- 1\n", "x.yaml", SettingsForm::Yaml));
  const auto twice = read_settings("a: 1\na: 2\n", "x.yaml", SettingsForm::Yaml);
  REQUIRE(!twice);
  CHECK(twice.error().diagnostics[0].where == "x.yaml:2");
}

TEST_CASE("a number that a script takes from elsewhere is asked for") {
  const Trainer trainer = picked_trainer("megatron@0.19");
  const auto settings =
      read_settings("--tensor-model-parallel-size $TP", "x.sh", SettingsForm::Options);
  REQUIRE(settings.has_value());
  const auto read = understand(*settings, trainer, *find_target("", trainer), 8);
  REQUIRE(!read);
  CHECK(read.error().diagnostics[0].where == "x.sh:1 --tensor-model-parallel-size");
  CHECK(read.error().diagnostics[0].what == "'$TP' is not a number");
}

}  // namespace
}  // namespace trainwright
