#pragma once
// A user's own file of settings as the words of a question.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/cli/command.h"
#include "trainwright/question/question.h"

namespace trainwright::cli {

Argument config_argument();  // --config
struct ConfigWords {
  Words words;
  std::vector<std::string> notes;        // what was assumed, and how the file was read
  std::vector<std::string> not_counted;  // what the answer leaves out: to be read before it
};
// Those of --config, under those that were given: what is given goes before what the file says.
// Diagnoses what neither says; `where` is where it can be added.
Result<ConfigWords> with_config(const Invocation& invocation, Words given,
                                const std::string& where = "to --layout");

}  // namespace trainwright::cli
