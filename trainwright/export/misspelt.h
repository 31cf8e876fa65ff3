#pragma once
// Private: keys that are slips of others. Most trainers take a misspelt one without a word.
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trainwright::detail {

// The key that is meant by one that nobody knows: it differs by a letter or two, or goes on where
// this one ends. Keys too short to tell mean none. Digits are no slips: fp4 is not fp8.
std::optional<std::string> meant_by(std::string_view key, std::span<const std::string> known);

}  // namespace trainwright::detail
