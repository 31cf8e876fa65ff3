#pragma once
// Private: what published recipes of a trainer share and no search decides: the dtype of gradients.
// In data/trainers under "settings": "recipes.bf16-gradients": "precision == 'bf16' ; whose
// recipes, how many of how many", with the questions that it holds for.
#include <optional>

#include "trainwright/search/search.h"

namespace trainwright::detail {

// Nullopt where it is not taken, is fixed beforehand or is a choice of the search.
std::optional<GradientDtype> gradients_of_recipes(const SearchQuestion& question);

}  // namespace trainwright::detail
