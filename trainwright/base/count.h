#pragma once
// Whole numbers as people type them.
#include <cstdint>
#include <optional>
#include <string_view>

namespace trainwright {

// A whole decimal number, where "4k" is 4,096 and "1m" 1,048,576, as sequence lengths are spoken
// of; nullopt for anything else or beyond 64 bits.
std::optional<std::int64_t> parse_count(std::string_view text);
// Why a text is none: "is too large", "is not a whole number".
std::string_view count_fault(std::string_view text);

}  // namespace trainwright
