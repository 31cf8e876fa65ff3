#pragma once
// Private: which layers have something, as Megatron-LM's arguments write it.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace trainwright::detail {

// The value of a Python expression of lists of digits, "([0]*3+[1]*11)" or "[1,1,0]*4": lists are
// added, and repeated by a number on either side. nullopt for anything else, and for a list longer
// than `most` (arguments.py of Megatron-LM core_v0.16.1, _eval_pattern).
std::optional<std::vector<std::int64_t>> parse_layer_pattern(std::string_view text,
                                                             std::size_t most);

}  // namespace trainwright::detail
