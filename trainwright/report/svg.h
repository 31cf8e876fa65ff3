#pragma once
// Private: what drawings share.
#include <string>

namespace trainwright::detail {

// Text between tags or quotes; XML has no control characters.
std::string escaped(const std::string& text);

}  // namespace trainwright::detail
