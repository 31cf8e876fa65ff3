#pragma once
// Private to `trainwright validate`.
#include <string>
#include <vector>

#include "trainwright/calibrate/calibrate.h"
#include "trainwright/cli/command.h"

namespace trainwright::cli {

// Gives every row the command of `trainwright estimate` that answers with its as-shipped figure.
// It reads these files of that directory: the constants of each source, orders of actions.
std::vector<File> add_commands(std::vector<SourceScore>& scores, const Cases& cases,
                               const MemoryConstants& constants, const std::string& directory);

Command validate_time_command();

}  // namespace trainwright::cli
