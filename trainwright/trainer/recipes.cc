// "recipes.flash-attention": "experts == 0 ; whose recipes, how many of how many".
#include <fmt/format.h>

#include "trainwright/base/check.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright {

std::optional<Expression> shared_by_recipes(const Trainer& trainer, std::string_view what) {
  const std::string key = fmt::format("recipes.{}", what);
  for (const auto& [ours, text] : trainer.settings) {
    if (ours != key) continue;
    auto when = parse_expression(std::string_view(text).substr(0, text.find(';')), key);
    TW_CHECK(when.has_value(), "what recipes share is checked when it is read");
    return *std::move(when);
  }
  return std::nullopt;
}

}  // namespace trainwright
