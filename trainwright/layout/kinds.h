#pragma once
// Private: the names of what is in a set.
#include <string>
#include <vector>

#include "trainwright/layout/layout.h"

namespace trainwright {

std::span<const std::string_view> all_names(Part);

namespace detail {

// Every word that means one of these matrices, ours first.
std::vector<std::string> words_for(Flags<LayerMatrix> matrices);

template <class E>
std::vector<std::string> names_in(Flags<E> set) {
  std::vector<std::string> names;
  const auto all = all_names(E{});
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (set.has(static_cast<E>(i))) names.emplace_back(all[i]);
  }
  return names;
}

}  // namespace detail
}  // namespace trainwright
