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

// What they say in our words, for a trainer of ours.
struct FineTuning {
  Understood understood;
  std::string trainer;    // "accelerate", "accelerate-deepspeed"
  std::string deepspeed;  // the path of its ds_config.json; mostly empty
};
// On so many ranks; `beside` are entries of a layout that go before what the settings say. Nothing
// where the settings are none of these.
std::optional<FineTuning> understand_fine_tuning(const std::vector<Setting>& settings,
                                                 std::optional<std::int64_t> world,
                                                 std::string_view beside = {});

}  // namespace trainwright
