// Files of programs of fine-tuning, and what becomes of their keys.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

const ImportPrograms& programs() {
  static const auto known = read_import_programs(kShippedData);
  REQUIRE_MESSAGE(known.has_value(), to_text(known.error()));
  return *known;
}

ImportKeys keys_of(std::string_view program) {
  auto keys = read_import_keys(kShippedData, program);
  REQUIRE_MESSAGE(keys.has_value(), to_text(keys.error()));
  return *std::move(keys);
}

std::vector<Setting> settings_of(std::string_view text, SettingsForm form = SettingsForm::Yaml) {
  auto settings = read_settings(text, "file", form);
  REQUIRE_MESSAGE(settings.has_value(), to_text(settings.error()));
  return *std::move(settings);
}

const ImportProgram& program_called(std::string_view text, SettingsForm form = SettingsForm::Yaml) {
  const auto* program =
      program_of(settings_of(text, form), started_program(text, form), programs());
  REQUIRE(program != nullptr);
  return *program;
}

ClassedKeys classed(std::string_view text, SettingsForm form = SettingsForm::Yaml,
                    bool job = false) {
  return class_keys(settings_of(text, form), keys_of(program_called(text, form).name), "file", job);
}

// What a file of fine-tuning says on 8 ranks.
FineTuning tuned(std::string_view text, SettingsForm form = SettingsForm::Yaml,
                 std::string_view beside = {}) {
  const auto program = fine_tuner_named(program_called(text, form).name);
  REQUIRE(program.has_value());
  return understand_fine_tuning(*program, classed(text, form).counted, 8, beside);
}

TEST_CASE("axolotl's file says model, adapters, batch and what is computed again") {
  const FineTuning fine = tuned(
      "base_model: meta-llama/Llama-3.1-8B\nload_in_4bit: true\nadapter: qlora\n"
      "sequence_len: 4096\nlora_r: 32\nlora_target_modules: [q_proj, v_proj]\n"
      "gradient_accumulation_steps: 4\nmicro_batch_size: 2\noptimizer: adamw_bnb_8bit\n"
      "bf16: auto\ngradient_checkpointing: true\n");
  CHECK(fine.trainer == "axolotl");
  CHECK(fine.understood.model == "meta-llama/Llama-3.1-8B");
  // 2 sequences x 4 micro-batches x 8 ranks.
  CHECK(fine.understood.layout == "mbs=2,seq=4096,gbs=64,recompute=full,precision=bf16");
  CHECK(fine.understood.job == "lora=32:q_proj+v_proj,base=nf4,optimizer=adamw-8bit");
  CHECK(fine.understood.not_said.empty());
}

TEST_CASE(
    "a number of a fine-tuning file that is none is told as such, and no batch is made of it") {
  const FineTuning fine = tuned(
      "model_name_or_path: a/b\nfinetuning_type: lora\ncutoff_len: four\n"
      "per_device_train_batch_size: 2\ngradient_accumulation_steps: auto\n");
  const std::vector<Unreadable> none = {{"seq", "cutoff_len", "four"},
                                        {"gbs", "gradient_accumulation_steps", "auto"}};
  CHECK(fine.understood.unreadable == none);
  CHECK(fine.understood.not_said.empty());
  CHECK(fine.understood.layout.find("gbs") == std::string::npos);
}

TEST_CASE("LLaMA-Factory computes layers again unless told otherwise, and targets all matrices") {
  const std::string file =
      "model_name_or_path: meta-llama/Meta-Llama-3-8B\nfinetuning_type: lora\nlora_target: all\n"
      "cutoff_len: 2048\nper_device_train_batch_size: 1\nbf16: true\n";
  CHECK(tuned(file).trainer == "llama-factory");
  CHECK(tuned(file).understood.layout == "mbs=1,seq=2048,gbs=8,precision=bf16");
  CHECK(picked_trainer("llama-factory").defaults.recompute == RecomputeKind::Full);
  CHECK(tuned(file).understood.job == "lora=8");
  CHECK(tuned(file + "disable_gradient_checkpointing: true\n").understood.layout ==
        "mbs=1,seq=2048,gbs=8,recompute=none,precision=bf16");
}

TEST_CASE(
    "a file of TRL is TRL's, which runs layers again and loads in fp32 unless told otherwise") {
  // trl 1.16.0 trainer/base_config.py, trainer/model_config.py: lora_r 16, dtype float32; targets
  // are peft's for the family (peft 0.21.2 utils/constants.py).
  const std::string file =
      "model_name_or_path: Qwen/Qwen3-8B\nuse_peft: true\nmax_length: 1024\n"
      "per_device_train_batch_size: 1\n";
  CHECK(tuned(file).trainer == "trl");
  CHECK(tuned(file).understood.layout == "mbs=1,seq=1024,gbs=8,precision=bf16");
  CHECK(tuned(file).understood.job == "lora=16:q_proj+v_proj");
  const FineTuning told = tuned(
      file + "dtype: bfloat16\nlora_target_modules: all-linear\nactivation_checkpointing: false\n");
  CHECK(told.understood.job == "lora=16,loaded=bf16");
  CHECK(told.understood.layout == "mbs=1,seq=1024,gbs=8,recompute=none,precision=bf16");
  const Trainer trl = picked_trainer("trl");
  CHECK(trl.defaults.recompute == RecomputeKind::Full);
  CHECK(trl.precisions.front().frozen == "fp32");
  CHECK(trl.stack == "accelerate");
}

TEST_CASE("modules that are trained whole beside adapters are heard by each program's key") {
  const auto job = [](const std::string& key) {
    return tuned("base_model: a/b\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n" + key)
        .understood.job;
  };
  CHECK(job("lora_modules_to_save: [embed_tokens, lm_head]\n") == "lora=8,trained=embedding+head");
  CHECK(job("load_in_4bit: true\nquantize_moe_experts: true\n") ==
        "lora=8,base=nf4,quantised_experts");
  CHECK(tuned("model_name_or_path: a/b\nfinetuning_type: lora\nadditional_target: lm_head\n")
            .understood.job == "lora=8,trained=head");
}

TEST_CASE("arguments of Hugging Face's Trainer are read from a command line, too") {
  const FineTuning fine = tuned(
      "deepspeed --num_gpus 8 train.py --model_name_or_path gpt2 --deepspeed ds.json \\\n"
      "  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --fp16 True",
      SettingsForm::Options, "tp=2");
  CHECK(fine.trainer == "accelerate-deepspeed");
  CHECK(fine.deepspeed == "ds.json");
  CHECK(fine.understood.layout == "mbs=2,gbs=32,precision=fp16");  // 2 x 4 x 8 / 2
  CHECK(fine.understood.not_said == std::vector<std::string>{"seq"});
  CHECK(program_of(
            *read_settings("distributed_type: FSDP\nnum_processes: 8", "a", SettingsForm::Yaml), {},
            programs()) == nullptr);
}

TEST_CASE("keys of fsdp_config are heeded with and without their prefix") {
  const auto sharding = [](const std::string& keys, std::int64_t nodes) {
    const auto settings =
        *read_settings("base_model: a/b\nfsdp_config:\n" + keys, "a.yaml", SettingsForm::Yaml);
    const std::string layout =
        understand_fine_tuning(FineTuner::Axolotl, settings, 16, {}, nodes).understood.layout;
    const std::string first = "precision=bf16";
    return (layout.find("recompute=full") == layout.npos ? "" : "again ") +
           layout.substr(layout.find(first) + first.size());
  };
  const std::string none = ",sharding=fsdp,zero=3";
  for (const std::string prefix : {"  ", "  fsdp_"}) {
    CHECK(sharding(prefix + "activation_checkpointing: true\n", 1) == "again " + none);
    CHECK(sharding(prefix + "offload_params: true\n", 1) == none + ",offload=optimizer+parameters");
    CHECK(sharding(prefix + "reshard_after_forward: false\n", 1) == ",sharding=fsdp,zero=2");
    CHECK(sharding(prefix + "version: 2\n", 1) == none);
    CHECK(sharding(prefix + "sharding_strategy: SHARD_GRAD_OP\n", 1) == ",sharding=fsdp,zero=2");
    CHECK(sharding(prefix + "sharding_strategy: NO_SHARD\n", 1) == ",sharding=ddp");
    CHECK(sharding(prefix + "sharding_strategy: HYBRID_SHARD\n", 1) == none);
    CHECK(sharding(prefix + "sharding_strategy: HYBRID_SHARD\n", 2) ==
          ",sharding=hsdp,zero=3,dp_replicate=2");
    CHECK(sharding(prefix + "state_dict_type: FULL_STATE_DICT\n", 1) == none);
  }
  // Of the Trainer's the section alone does nothing.
  const auto args = tuned(
      "model_name_or_path: a/b\nper_device_train_batch_size: 1\nbf16: true\n"
      "fsdp_config:\n  fsdp_offload_params: true\n");
  CHECK(args.understood.layout.find("sharding") == std::string::npos);
}

TEST_CASE("DeepSpeed's settings may stand in the file itself") {
  const auto fine = tuned(
      "base_model: a/b\nbf16: true\ndeepspeed:\n  zero_optimization:\n    stage: 3\n"
      "    offload_param: {device: cpu}\n");
  CHECK(fine.trainer == "axolotl-deepspeed");
  CHECK(fine.deepspeed.empty());
  CHECK(fine.understood.layout == "precision=bf16,zero=3,offload=parameters");
  CHECK(shipped_deepspeed_entries("deepspeed_configs/zero3_bf16.json") == "zero=3");
  CHECK(shipped_deepspeed_entries("mine/zero3.json").empty());
}

TEST_CASE("a misspelt key of fine-tuning is told with the one that is known") {
  const auto notes = [](const std::string& key) {
    return classed("base_model: a/b\nmicro_batch_size: 1\n" + key + ": 8\n").notes;
  };
  const std::pair<const char*, const char*> slips[] = {
      {"gradient_acumulation_steps", "gradient_accumulation_steps"},
      {"gradient_checkpoint", "gradient_checkpointing"},
      {"flash_atention", "flash_attention"},
      {"micro_batchsize", "micro_batch_size"},
      {"load_in_4bits", "load_in_4bit"},
      {"adaptor", "adapter"},
      {"deepsped", "deepspeed"}};
  for (const auto& [key, other] : slips) {
    CHECK(notes(key) == std::vector{fmt::format("{} is not heeded: did you mean {}?", key, other)});
  }
  // Keys that axolotl has.
  for (const char* key : {"local_rank", "quantization", "lora_alpha", "max_steps", "seed"}) {
    CHECK(notes(key).empty());
  }
  // And keys that it has not.
  CHECK(notes("bf17") ==
        std::vector<std::string>{"Unknown to axolotl 0.21.0, and not counted: bf17."});
  CHECK(notes("lora_ranks").front() == "Unknown to axolotl 0.21.0, and not counted: lora_ranks.");
  CHECK(classed("base_model: a/b\nfsdp_config:\n  ofload_params: true\n").notes.front() ==
        "fsdp_config.ofload_params is not heeded: did you mean fsdp_config.offload_params?");
  const auto option =
      classed("python train.py --per_device_train_batch_size 1 --lora_targe_modules 64",
              SettingsForm::Options);
  CHECK(option.notes.front() ==
        "--lora_targe_modules is not heeded: did you mean --lora_target_modules?");
}

TEST_CASE("what is not counted of a file is told with its reason, keys of one reason together") {
  const auto notes =
      classed(
          "base_model: a/b\nsample_packing: true\nval_set_size: 0.1\neval_batch_size: 1\n"
          "activation_offloading: false\nlora_modules_to_save: []\nwandb_project: x\n")
          .notes;
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] ==
        "Not counted of file: sample_packing (packed samples: every sequence is counted as one "
        "sample of full length, with attention over all of it); val_set_size and eval_batch_size "
        "(evaluation between steps).");
}

// The faults of a file, and where they are.
std::string faults(std::string_view text, SettingsForm form = SettingsForm::Yaml) {
  std::vector<std::string> lines;
  for (const Diagnostic& one : classed(text, form).faults)
    lines.push_back(one.where + ": " + one.what.substr(0, one.what.find(':')));
  return join(lines, "; ");
}

TEST_CASE("another run than supervised fine-tuning is refused, with the place of the key") {
  const std::string lf =
      "model_name_or_path: a/b\nfinetuning_type: lora\nper_device_train_batch_size: 1\n";
  CHECK(faults(lf + "stage: sft\n").empty());
  CHECK(faults(lf + "stage: pt\n").empty());
  for (const std::string stage : {"dpo", "kto", "ppo", "rm"}) {
    CHECK(faults(lf + "stage: " + stage + "\n") ==
          "file:4 stage: " + stage + " is not counted here");
  }
  CHECK(faults(lf + "stage: blabla\n") == "file:4 stage: 'blabla' is none of its values");
  CHECK(faults("base_model: a/b\nrl: grpo\nreward_model: true\n") ==
        "file:2 rl: grpo is not counted here; file:3 reward_model: not counted here");
  CHECK(faults("model_name_or_path: a/b\nper_device_train_batch_size: 1\nnum_generations: 8\n")
            .starts_with("file:3 num_generations: "));
  CHECK(faults("base_model: a/b\nexpert_parallel_size: 1\n").empty());
  CHECK(!faults("base_model: a/b\nexpert_parallel_size: 2\n").empty());
}

TEST_CASE("a script's name or command says what it trains") {
  const auto method = [](std::string_view text) {
    const std::string why = other_method(started_program(text, SettingsForm::Options), programs());
    return why.substr(0, why.find(':'));
  };
  CHECK(method("accelerate launch --config_file a.yaml trl/scripts/dpo.py \\\n --max_length 8") ==
        "dpo.py");
  CHECK(method("trl grpo --model_name_or_path a/b --use_vllm") == "grpo");
  CHECK(method("python examples/scripts/reward_modeling.py --max_length 8 --bf16") ==
        "reward_modeling.py");
  CHECK(method("trl sft --model_name_or_path a/b --dataset_name c").empty());
  CHECK(method("python sft.py --output_dir out_dpo --max_length 8").empty());
}

TEST_CASE("files of programs that are not read are told apart from those that are") {
  const auto refused = [](std::string_view text, SettingsForm form) {
    const ImportProgram& program = program_called(text, form);
    return program.refused.empty() ? "" : program.name;
  };
  constexpr auto kScript = SettingsForm::Options;
  constexpr auto kYaml = SettingsForm::Yaml;
  CHECK(refused("swift sft --model a/b --per_device_train_batch_size 1 --lora_rank 8", kScript) ==
        "ms-swift");
  CHECK(refused("NPROC_PER_NODE=8 megatron sft --micro_batch_size 1 --max_epochs 1", kScript) ==
        "ms-swift");
  CHECK(refused("model: a/b\ntuner_type: lora\nper_device_train_batch_size: 1\n", kYaml) ==
        "ms-swift");
  CHECK(refused("model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n", kYaml) ==
        "torchtune");
  CHECK(refused("actor_rollout_ref:\n  model: {path: a/b}\n", kYaml) == "verl");
  CHECK(refused("python3 -m openrlhf.cli.train_ppo_ray --micro_train_batch_size 8 --bf16",
                kScript) == "openrlhf");
  CHECK(refused("trl sft --model_name_or_path a/b --use_peft", kScript).empty());
}

TEST_CASE("optimizers are named by a list and never guessed") {
  const auto job = [](const std::string& name) {
    return tuned("base_model: a/b\noptimizer: " + name + "\n").understood.job;
  };
  CHECK(job("adamw_bnb_8bit") == "optimizer=adamw-8bit");
  CHECK(job("adamw_torch").empty());
  CHECK(job("adamw_torch_fused") == "optimizer=adamw-fused");
  CHECK(job("sgd") == "optimizer=sgd-no-momentum");  // torch.optim.SGD, whose momentum is 0
  CHECK(classed("base_model: a/b\noptimizer: paged_adamw_8bit\n").notes.front() ==
        "Not counted of file: optimizer paged_adamw_8bit (paged states may leave the accelerator, "
        "which is not counted: may hold less).");
  for (const char* name :
       {"lion_8bit", "lomo", "galore_adamw", "apollo_adamw", "paged_lion_32bit"}) {
    const std::string file = fmt::format("base_model: a/b\noptimizer: {}\n", name);
    CHECK(faults(file).starts_with(fmt::format("file:2 optimizer: {} is not counted here", name)));
    CHECK(classed(file, SettingsForm::Yaml, /*job=*/true).faults.empty());
  }
  CHECK(faults("base_model: a/b\noptimizer: adamw_torhc\n") ==
        "file:2 optimizer: unknown optimizer 'adamw_torhc'");
}

TEST_CASE("a number may have underscores between its digits, as YAML and Python write it") {
  CHECK(tuned("base_model: a/b\nmicro_batch_size: 1\nsequence_len: 500_000\n")
            .understood.layout.find("seq=500000,") != std::string::npos);
  CHECK(tuned("base_model: a/b\nmicro_batch_size: 1\nsequence_len: '8_192'\n")
            .understood.layout.find("seq=8192,") != std::string::npos);
  CHECK(tuned("base_model: a/b\nmicro_batch_size: 1\nsequence_len: 8__192\n")
            .understood.unreadable.size() == 1);
}

TEST_CASE("a dictionary's keys are classed one by one, as those of a section") {
  const std::string file = "base_model: a/b\ngradient_checkpointing_kwargs:\n  ";
  CHECK(classed(file + "use_reentrant: false\n").notes.empty());
  CHECK(classed(file + "every_n_layers: 2\n").notes.front() ==
        "Not counted of file: gradient_checkpointing_kwargs.every_n_layers (which layers or "
        "operators are computed again).");
}

TEST_CASE("layers are computed again under the name that transformers 5.23 gave it, too") {
  CHECK(tuned("model_name_or_path: a/b\nper_device_train_batch_size: 1\n"
              "activation_checkpointing: true\n")
            .understood.layout.find("recompute=full") != std::string::npos);
}

}  // namespace
}  // namespace trainwright
