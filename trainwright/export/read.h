#pragma once
// Private: files of settings as a tree, one heavy reader in one file each.
#include <string_view>

#include "trainwright/base/json.h"

namespace trainwright::detail {

Result<Json> parse_toml(std::string_view text, std::string_view origin);
Result<Json> parse_yaml(std::string_view text, std::string_view origin);
// The words of a shell script or command line, comments left out, its own variables filled in;
// assignments are words NAME=value. A word that hangs on anything else keeps its '$'.
std::vector<std::string> shell_words(std::string_view text);

}  // namespace trainwright::detail
