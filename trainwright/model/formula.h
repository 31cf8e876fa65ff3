#pragma once
// Private: formulas of files of families, in whole numbers.
//
//   sum     = product { ("+" | "-") product }
//   product = atom { ("*" | "/" | "^/") atom }     "/" rounds down, "^/" up
//   atom    = number | name [ ":" number ] | "(" sum ")"
//
// A name is a field of the config ("mamba_expand", nested with dots), a number after a colon what
// is taken where it is absent, or a member that was read before ("hidden", "heads", "head_dim").
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainwright::detail {

using NumberOf = std::function<std::optional<std::int64_t>(std::string_view name)>;

// nullopt: not a formula, a name without a number, a division by zero, or beyond 2^62.
std::optional<std::int64_t> evaluate(std::string_view formula, const NumberOf& number_of);
// The names in it, without what stands after colons.
std::vector<std::string> names_in(std::string_view formula);

}  // namespace trainwright::detail
