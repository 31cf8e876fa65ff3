#pragma once
// Private: settings as text of a form, with comments where it has them.
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/export/export.h"

namespace trainwright::detail {

// Said in a module of Python beside the trainer's own options (trainwright_config.py).
bool is_of_module(const Setting& setting);
// Not the target's own but arguments of something in the user's script or in that module.
bool is_of_script(const Setting& setting);
// Why a setting is set, as the comment that ends its line; empty if it does not say.
std::string comment_behind(const Setting& setting);
// Text in double quotes, as JSON, TOML, YAML and Python read it alike.
std::string quoted(std::string_view text);
// One setting as words of a command line; true stands alone, lists of lists are "a,b c".
std::vector<std::string> words_of(const Setting& setting, SettingsForm form);
// NAME=( ... ), a line for each setting.
std::string shell_array(std::string_view name, const std::vector<Setting>& settings,
                        SettingsForm form);
std::string to_toml(const std::vector<Setting>& settings);
std::string to_yaml(const std::vector<Setting>& settings);
Json to_json_tree(const std::vector<Setting>& settings);
// Of one value: 8 is a number, true a truth, [a,b] a list, "8" and all else text.
Json value_of(const std::string& value);

}  // namespace trainwright::detail
