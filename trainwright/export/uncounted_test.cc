// What is refused because it is not counted; graphs and experts that settings switch.
#include <doctest/doctest.h>

#include <string>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// What a target of that trainer is told on 16 H100.
std::vector<Setting> settings_of(const char* trainer, const std::string& layout,
                                 const char* model) {
  const auto question = read_question({.model = model,
                                       .on = "16xH100",
                                       .trainer = trainer,
                                       .layout = layout,
                                       .job = {},
                                       .attention = {},
                                       .schedule = {}},
                                      DataDirectory(kShippedData));
  REQUIRE_MESSAGE(question, to_text(question.error()));
  const Plan plan{.model = question->model,
                  .cluster = question->cluster,
                  .trainer = question->trainer,
                  .layout = question->read.layout,
                  .job = question->job};
  return translate(plan, find_target("", question->trainer).value()).settings;
}

Result<Understood> read_of(std::string_view text, SettingsForm form, std::string_view trainer) {
  const Trainer known = picked_trainer(trainer);
  const auto settings = read_settings(text, "file", form);
  return understand(settings.value(), known, find_target("", known).value(), 16);
}

TEST_CASE("graphs of parts leave out the router where the expert layer is recomputed") {
  const auto graphs = [](const std::string& more) {
    const std::string layout = "zero=1,ep=8,on=part-graphs,mbs=1,gbs=64,seq=4096" + more;
    const auto settings = settings_of("megatron@0.19", layout, "mixtral-8x7b");
    return settings_line(settings, find_target("", picked_trainer("megatron@0.19")).value());
  };
  // Megatron-Core 0.19.2 transformer_config.py:2534.
  CHECK(holds(graphs(""), "moe_router"));
  CHECK(holds(graphs(",recompute=modules:moe"), "--cuda-graph-modules attn"));
  CHECK(!holds(graphs(",recompute=modules:moe"), "moe_router"));
}

TEST_CASE("torchtitan's graphs that are asked for beside experts are not switched off") {
  const auto graphs = [](const std::string& more) {
    const std::string layout = "sharding=fsdp,ep=8,dispatcher=flex,mbs=1,gbs=64,seq=4096" + more;
    for (const Setting& setting : settings_of("torchtitan@0.3", layout, "deepseek-v2-lite")) {
      if (setting.key.ends_with("training.disable_cuda_graphs")) return setting.values.front();
    }
    return std::string("unsaid");
  };
  CHECK(graphs("") == "true");
  CHECK(graphs(",on=graphs") == "false");
}

TEST_CASE("settings that change memory and are not counted are refused, idle ones are not") {
  const auto refused = [](std::string_view text, SettingsForm form, std::string_view trainer) {
    const auto read = read_of(text, form, trainer);
    return read ? std::string() : to_text(read.error());
  };
  // DeepSpeed 0.19.8 runtime/zero/config.py:324: ZeRO++.
  const std::string hpz =
      refused(R"({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8,
                  "zero_quantized_weights": true}})",
              SettingsForm::Json, "deepspeed@0.19.8");
  CHECK(hpz.find("zero_optimization.zero_hpz_partition_size is 8, which changes memory and time "
                 "and is not counted here yet") != std::string::npos);
  CHECK(hpz.find("zero_quantized_weights is true") != std::string::npos);
  CHECK(refused(R"({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 1}})",
                SettingsForm::Json, "deepspeed@0.19.8")
            .empty());
  // Megatron-Core 0.19.2 training/arguments.py:413: an axis of the world.
  CHECK(refused("pretrain_gpt.py --tensor-parallel-num-weight-shards 4", SettingsForm::Options,
                "megatron@0.19")
            .find("--tensor-parallel-num-weight-shards is 4") != std::string::npos);
}

TEST_CASE("experts that DeepSpeed spreads by a setting are read, and Muon") {
  const Understood read =
      read_of(R"({"zero_optimization": {"stage": 3}, "optimizer": {"type": "Muon"},
                  "expert_parallel": {"enabled": true, "autoep_size": 8}})",
              SettingsForm::Json, "deepspeed@0.19.8")
          .value();
  CHECK(read.layout.find("ep=8") != std::string::npos);
  CHECK(read.job == "optimizer=muon");
}

TEST_CASE("backends of the flex dispatcher are written and read back") {
  struct Row {
    const char* trainer;
    const char* dispatcher;
    const char* word;
  };
  for (const Row& row : {Row{"megatron@0.12", "deepep", "--moe-enable-deepep"},
                         Row{"megatron@0.19", "deepep", "--moe-flex-dispatcher-backend deepep"},
                         Row{"megatron@0.19", "hybridep", "--moe-flex-dispatcher-backend hybridep"},
                         Row{"megatron@0.19", "nccl-ep", "--moe-flex-dispatcher-backend ncclep"},
                         Row{"megatron@0.19", "all-to-all", "--moe-token-dispatcher-type alltoall"},
                         Row{"megatron-bridge", "hybridep", "moe_flex_dispatcher_num_sms=32"},
                         Row{"megatron-bridge", "deepep", "moe_flex_dispatcher_backend=deepep"}}) {
    CAPTURE(row.trainer);
    CAPTURE(row.dispatcher);
    const std::string entry = std::string("dispatcher=") + row.dispatcher;
    const auto settings =
        settings_of(row.trainer, "zero=1,ep=8,mbs=1,gbs=64,seq=4096," + entry, "mixtral-8x7b");
    const Trainer trainer = picked_trainer(row.trainer);
    const Target target = find_target("", trainer).value();
    CHECK(holds(settings_line(settings, target), row.word));
    const auto read = understand(settings, trainer, target, 16);
    REQUIRE(read.has_value());
    CHECK(holds("," + read->layout + ",", "," + entry + ","));
    CHECK(read->not_heeded.empty());
  }
  // Other numbers of SMs, and the older spelling.
  const auto said = [](const char* words, const char* trainer) {
    return read_of(std::string("train.py ") + words, SettingsForm::Options, trainer)->layout;
  };
  const char* deepep =
      "--expert-model-parallel-size 8 --moe-token-dispatcher-type flex --moe-enable-deepep "
      "--micro-batch-size 1 --global-batch-size 64 --seq-length 512";
  CHECK(holds(said(deepep, "megatron@0.19"), "dispatcher=deepep"));
  CHECK(holds(said("model.expert_model_parallel_size=8 model.moe_token_dispatcher_type=flex "
                   "model.moe_flex_dispatcher_backend=hybridep model.moe_hybridep_num_sms=16 "
                   "train.micro_batch_size=1 train.global_batch_size=64 model.seq_length=512",
                   "megatron-bridge"),
              "dispatcher=hybridep"));
}

TEST_CASE("Bridge's words are settings wherever they stand on the command line") {
  const char* script =
      "torchrun --nproc-per-node 8 run_recipe.py --recipe llama3_8b_pretrain_config \\\n"
      "  model.tensor_model_parallel_size=4 mixed_precision=bf16_with_mxfp8_mixed \\\n"
      "  train.micro_batch_size=2 train.global_batch_size=64 model.seq_length=8192\n";
  const auto settings = read_settings(script, "run.sh", SettingsForm::Options);
  REQUIRE(settings);
  CHECK(trainer_of_settings(*settings, SettingsForm::Options) == "megatron-bridge");
  const auto read = read_of(script, SettingsForm::Options, "megatron-bridge");
  REQUIRE(read);
  CHECK(read->layout == "tp=4,seq=8192,mbs=2,gbs=64,precision=mxfp8,sharding=zero");
  // The word behind an option is its value, whatever it looks like.
  const auto value =
      read_settings("train.py --kwargs use_reentrant=False\n", "run.sh", SettingsForm::Options);
  REQUIRE(value);
  CHECK(value->back().values == std::vector<std::string>{"use_reentrant=False"});
}

TEST_CASE("mxfp8 weights are gathered through the gradients' buffer, but not by FSDP") {
  const auto line = [](const std::string& more) {
    const std::string layout =
        "mbs=1,gbs=64,seq=4096,precision=mxfp8,on=fp8-parameter-gather," + more;
    return settings_line(settings_of("megatron@0.19", layout, "llama-3.1-8b"),
                         find_target("", picked_trainer("megatron@0.19")).value());
  };
  CHECK(holds(line("zero=1"), "--reuse-grad-buf-for-mxfp8-param-ag"));
  CHECK(!holds(line("sharding=megatron-fsdp,zero=3"), "--reuse-grad-buf-for-mxfp8-param-ag"));
}

TEST_CASE("graphs that hold no attention are told apart") {
  const auto notes = [](const char* modules) {
    return join(read_of(std::string("train.py --micro-batch-size 1 --global-batch-size 64 "
                                    "--seq-length 512 --cuda-graph-impl transformer_engine "
                                    "--cuda-graph-modules ") +
                            modules,
                        SettingsForm::Options, "megatron@0.19")
                    ->notes,
                " ");
  };
  CHECK(holds(notes("moe_router moe_preprocess"), "CUDA graphs hold moe_router, moe_preprocess"));
  CHECK(!holds(notes("attn moe_router moe_preprocess"), "CUDA graphs hold"));
}

}  // namespace
}  // namespace trainwright
