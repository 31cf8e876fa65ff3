#pragma once
// Private: figures as publications print them.
#include <optional>
#include <string_view>

#include "trainwright/model/model.h"

namespace trainwright::detail {

struct Figure {
  double value = 0;
  double slack = 0;  // half a unit of the last printed digit; 0 for a whole count
};

// "70.6B" -> 70.6e9 +- 0.05e9. Units K, M, B, T; nullopt for anything else.
std::optional<Figure> parse_figure(std::string_view text);

}  // namespace trainwright::detail
