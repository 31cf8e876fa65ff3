#pragma once
// Private: the names of what is in a set.
#include <string>
#include <vector>

#include "trainwright/layout/layout.h"

namespace trainwright {

std::span<const std::string_view> all_names(Part);

// Words that trainers have for ours: Megatron's core_attn is core-attention. Others stay as they
// are.
std::string_view usual_word(RecomputeModule, std::string_view word);
template <Named E>
std::string_view usual_word(E, std::string_view word) {
  return word;
}

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
