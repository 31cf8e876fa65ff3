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
// Comment lines, each begun by "# ".
std::string comments(const std::vector<std::string>& lines);
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
