// What `accelerate launch` is told on its command line (accelerate 1.15.0 commands/launch.py), as
// its own file has it, and the files of DeepSpeed that programs over it bring along.
#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"
#include "trainwright/export/read.h"

namespace trainwright {
namespace {

// "accelerate launch" among the words.
bool starts_so(const std::vector<detail::ShellWord>& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& text = words[i].text;
    const bool named = text.substr(text.rfind('/') + 1) == "accelerate";
    if (named && words[i + 1].text == "launch") return true;
  }
  return false;
}

// The key of its file for an option; empty for one that says nothing of a layout.
std::string file_key(std::string_view option) {
  constexpr std::string_view kOfDeepspeed[] = {"zero_stage", "offload_optimizer_device",
                                               "offload_param_device", "deepspeed_config_file"};
  constexpr std::string_view kAsThere[] = {"mixed_precision", "num_processes", "num_machines"};
  const auto in = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), option) != std::end(names);
  };
  std::string key(option);
  if (in(kOfDeepspeed)) return "deepspeed_config." + key;
  if (in(kAsThere)) return key;
  if (key.starts_with("fsdp_")) return "fsdp_config." + key;
  if (key.starts_with("parallelism_config_")) return "parallelism_config." + key;
  return "";
}

}  // namespace

std::optional<AccelerateLaunch> accelerate_launch(std::string_view text, std::string_view origin,
                                                  SettingsForm form) {
  if (form != SettingsForm::Options && form != SettingsForm::Overrides) return std::nullopt;
  const auto script = detail::read_script(text, origin);
  if (!script || !starts_so(script->launcher)) return std::nullopt;
  AccelerateLaunch launch;
  for (Setting& setting : detail::settings_among(script->launcher, origin)) {
    if (!setting.key.starts_with("--")) continue;
    std::string name = setting.key.substr(2);
    std::replace(name.begin(), name.end(), '-', '_');
    // What follows the value of an option is the program's.
    if (setting.values.size() > 1) setting.values.resize(1);
    if (name == "config_file" && !setting.values.empty()) {
      launch.config_file = setting.values.front();
      launch.config_where = setting.where;
      continue;
    }
    setting.key = file_key(name);
    const bool fsdp = name == "use_fsdp", deepspeed = name == "use_deepspeed";
    if (fsdp || deepspeed) {
      setting.key = "distributed_type";
      setting.values = {fsdp ? "FSDP" : "DEEPSPEED"};
    }
    if (!setting.key.empty()) launch.settings.push_back(std::move(setting));
  }
  return launch;
}

std::string shipped_deepspeed_entries(std::string_view path) {
  struct Shipped {
    std::string_view name, entries;
  };
  // axolotl 0.18 deepspeed_configs, LLaMA-Factory ff6d4d1 examples/deepspeed.
  constexpr Shipped kShipped[] = {
      {"deepspeed_configs/zero1.json", "zero=1"},
      {"deepspeed_configs/zero1_torch_compile.json", "zero=1"},
      {"deepspeed_configs/zero2.json", "zero=2,offload=optimizer"},
      {"deepspeed_configs/zero2_torch_compile.json", "zero=2,offload=optimizer"},
      {"deepspeed_configs/zero3.json", "zero=3"},
      {"deepspeed_configs/zero3_bf16.json", "zero=3"},
      {"deepspeed_configs/zero3_bf16_cpuoffload_all.json", "zero=3,offload=optimizer+parameters"},
      {"deepspeed_configs/zero3_bf16_cpuoffload_params.json", "zero=3,offload=parameters"},
      {"examples/deepspeed/ds_z0_config.json", "zero=0"},
      {"examples/deepspeed/ds_z2_config.json", "zero=2"},
      {"examples/deepspeed/ds_z2_offload_config.json", "zero=2,offload=optimizer"},
      {"examples/deepspeed/ds_z3_config.json", "zero=3"},
      {"examples/deepspeed/ds_z3_fp8_config.json", "zero=3,offload=optimizer"},
      {"examples/deepspeed/ds_z3_offload_config.json", "zero=3,offload=optimizer+parameters"}};
  const auto at = std::find_if(std::begin(kShipped), std::end(kShipped),
                               [&](const Shipped& one) { return path.ends_with(one.name); });
  return at == std::end(kShipped) ? "" : std::string(at->entries);
}

}  // namespace trainwright
