#pragma once
// Public: which arguments of Megatron-LM describe a model.
#include <string>
#include <vector>

namespace trainwright {

// Those that `parse_model` knows, as options: "--num-layers".
std::vector<std::string> megatron_model_options();

}  // namespace trainwright
