#pragma once
// Files of axolotl and LLaMA-Factory, and arguments of Hugging Face's Trainer. Part of the public
// face; include trainwright/export/export.h.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/export/export.h"

namespace trainwright {

// Whose keys they are.
enum class FineTuner { Axolotl, LlamaFactory, Trl, Trainer };
std::optional<FineTuner> fine_tuner_named(std::string_view name);  // as in programs.json

// What they say in our words, for a trainer of ours.
struct FineTuning {
  Understood understood;
  std::string trainer;    // "accelerate", "accelerate-deepspeed"
  std::string deepspeed;  // the path of its ds_config.json; mostly empty
};
// Of settings that are counted (imports.h), on so many ranks of so many nodes; `beside` are entries
// of a layout that go before what the settings say.
FineTuning understand_fine_tuning(FineTuner program, const std::vector<Setting>& settings,
                                  std::optional<std::int64_t> world, std::string_view beside = {},
                                  std::int64_t nodes = 1);

// "zero=3,offload=optimizer" of a ds_config.json, or of a section of another file.
std::string deepspeed_entries(const std::vector<Setting>& settings, std::string_view section = {});
// The same of one that axolotl or LLaMA-Factory brings along, by its name; empty for all others.
std::string shipped_deepspeed_entries(std::string_view path);

// What `accelerate launch` in a script is told: settings of its own file, as that file has them.
struct AccelerateLaunch {
  std::vector<Setting> settings;
  std::string config_file, config_where;  // the path of that file and where it is named, "run.sh:3"
};
// Nothing where a script does not start its training so.
std::optional<AccelerateLaunch> accelerate_launch(std::string_view text, std::string_view origin,
                                                  SettingsForm form);

}  // namespace trainwright
