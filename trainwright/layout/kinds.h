#pragma once
// Private: the names of enumerators, both ways.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/layout/layout.h"

namespace trainwright::detail {

// The names of all enumerators in order; the argument only says of which kind.
std::span<const std::string_view> all_names(ShardingKind);
std::span<const std::string_view> all_names(ScheduleKind);
std::span<const std::string_view> all_names(StagePlacement);
std::span<const std::string_view> all_names(PrecisionKind);
std::span<const std::string_view> all_names(CpKind);
std::span<const std::string_view> all_names(DispatcherKind);
std::span<const std::string_view> all_names(OptimizerKind);
std::span<const std::string_view> all_names(RecomputeKind);
std::span<const std::string_view> all_names(RecomputeModule);
std::span<const std::string_view> all_names(Offload);
std::span<const std::string_view> all_names(Switch);
std::span<const std::string_view> all_names(Axis);
std::span<const std::string_view> all_names(GroupKind);
std::span<const std::string_view> all_names(Part);
std::span<const std::string_view> all_names(LayerMatrix);

// Every word that means one of these matrices, ours first.
std::vector<std::string> words_for(Flags<LayerMatrix> matrices);

template <class E>
std::span<const std::string_view> kind_names() {
  return all_names(E{});
}

template <class E>
std::string_view kind_name(E kind) {
  return kind_names<E>()[static_cast<std::size_t>(kind)];
}

// Letter by letter, where '-' and '_' are the same.
inline bool same_name(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) { return (x == '_' ? '-' : x) == (y == '_' ? '-' : y); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

template <class E>
std::optional<E> kind_named(std::string_view name) {
  const auto names = kind_names<E>();
  const auto found = std::find_if(names.begin(), names.end(), [name](std::string_view other) {
    return same_name(name, other);
  });
  if (found == names.end()) return std::nullopt;
  return static_cast<E>(found - names.begin());
}

inline std::vector<std::string> to_strings(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

template <class E>
std::vector<std::string> names_in(Flags<E> set) {
  std::vector<std::string> names;
  const auto all = kind_names<E>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (set.has(static_cast<E>(i))) names.emplace_back(all[i]);
  }
  return names;
}

}  // namespace trainwright::detail
