#pragma once
// An answer with colours for a terminal: verdicts, the recommended layout, bars of shares. Nothing
// else of it changes, so that widths stay.
#include <string>

namespace trainwright::cli {

std::string coloured(const std::string& answer);

}  // namespace trainwright::cli
