#pragma once
// A user's own file of settings as the words of a question.
#include <string>
#include <vector>

#include "trainwright/cli/command.h"
#include "trainwright/question/question.h"

namespace trainwright::cli {

Argument config_argument();  // --config
struct ConfigWords {
  Words words;
  std::vector<std::string> notes;  // what was not heeded
};
// Those of --config, under those that were given: what is given goes before what the file says.
// Diagnoses what neither says.
Result<ConfigWords> with_config(const Invocation& invocation, Words given);

}  // namespace trainwright::cli
