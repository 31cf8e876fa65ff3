#pragma once
// Private to `trainwright validate`.
#include <string>
#include <vector>

#include "trainwright/calibrate/calibrate.h"

namespace trainwright::cli {

// Gives every row the command of `trainwright estimate` that answers with its as-shipped figure.
// The constants of each source and orders of actions are written into that directory.
Result<std::string> add_commands(std::vector<SourceScore>& scores, const Cases& cases,
                                 const MemoryConstants& constants, const std::string& directory);

}  // namespace trainwright::cli
