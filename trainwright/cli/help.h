#pragma once
// What `trainwright help TOPIC` prints, and what follows the options of commands that read such
// words: every key, its values, what holds without it, an example.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/cli/command.h"

namespace trainwright::cli {

std::vector<std::string> help_topics();  // "layout", "job", ...
// Empty for an unknown topic.
std::string help_text(std::string_view topic, int width);

Command help_command();

}  // namespace trainwright::cli
