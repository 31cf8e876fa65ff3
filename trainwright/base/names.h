#pragma once
// Names of enumerators, both ways. An enumeration takes part by declaring beside itself
//
//   std::span<const std::string_view> all_names(Fruit);   // by enumerator; the argument says of
//   what
//
// and then has name_of(Fruit::Apple) == "apple" and named<Fruit>("apple") == Fruit::Apple.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainwright {

template <class E>
concept Named = requires(E kind) {
  { all_names(kind) } -> std::same_as<std::span<const std::string_view>>;
};

template <Named E>
std::string_view name_of(E kind) {
  return all_names(kind)[static_cast<std::size_t>(kind)];
}

// Letter by letter, where '-' and '_' are the same.
constexpr bool same_name(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if ((a[i] == '_' ? '-' : a[i]) != (b[i] == '_' ? '-' : b[i])) return false;
  }
  return true;
}

template <Named E>
std::optional<E> named(std::string_view name) {
  const auto names = all_names(E{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (same_name(name, names[i])) return static_cast<E>(i);
  }
  return std::nullopt;
}

template <Named E>
std::vector<E> all_of() {
  std::vector<E> all;
  for (std::size_t i = 0; i < all_names(E{}).size(); ++i) all.push_back(static_cast<E>(i));
  return all;
}

inline std::vector<std::string> to_strings(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

}  // namespace trainwright
