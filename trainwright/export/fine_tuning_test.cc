#include <doctest/doctest.h>

#include "trainwright/export/export.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

FineTuning tuned(const std::string& text) {
  const auto settings = read_settings(text, "file", SettingsForm::Yaml);
  REQUIRE_MESSAGE(settings.has_value(), to_text(settings.error()));
  return understand_fine_tuning(*settings, 8).value();
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
  CHECK(tuned(file).understood.notes == std::vector<std::string>{"Read as a file of TRL."});
  const FineTuning told = tuned(
      file + "dtype: bfloat16\nlora_target_modules: all-linear\nactivation_checkpointing: false\n");
  CHECK(told.understood.job == "lora=16,loaded=bf16");
  CHECK(told.understood.layout == "mbs=1,seq=1024,gbs=8,recompute=none,precision=bf16");
  const Trainer trl = picked_trainer("trl");
  CHECK(trl.defaults.recompute == RecomputeKind::Full);
  CHECK(trl.precisions.front().frozen == "fp32");
  CHECK(trl.stack == "accelerate");
}

TEST_CASE("modules that are trained whole beside adapters are heard by either program's key") {
  const auto job = [](const std::string& key) {
    return tuned("base_model: a/b\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n" + key)
        .understood.job;
  };
  CHECK(job("lora_modules_to_save: [embed_tokens, lm_head]\n") == "lora=8,trained=embedding+head");
  CHECK(job("additional_target: lm_head\n") == "lora=8,trained=head");
  CHECK(job("load_in_4bit: true\nquantize_moe_experts: true\n") ==
        "lora=8,base=nf4,quantised_experts");
}

}  // namespace
}  // namespace trainwright
