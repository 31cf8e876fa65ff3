// Of every model of the zoo: what its products multiply with is what a rank holds.
#include <doctest/doctest.h>

#include <string>

#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

HeldParameters held(const Model& model, const LayerKind& kind, const OperatorList& list,
                    const Slice& slice, const Recipe& recipe) {
  return held_parameters(held_weights(layer_weights(model, kind), list, slice, recipe), recipe);
}

// Whether each rank of tp has whole heads.
bool splits(const LayerKind& kind, std::int64_t ways) {
  const auto even = [&](std::int64_t n) { return n % ways == 0; };
  const bool beside = !kind.beside_attention || even(kind.beside_attention->groups);
  return beside && std::visit(
                       [&](const auto& a) {
                         if constexpr (requires { a.groups; }) return even(a.groups);
                         if constexpr (requires { a.kv_heads; }) {
                           return even(a.heads) && (even(a.kv_heads) || ways % a.kv_heads == 0);
                         }
                         if constexpr (requires { a.key_heads; }) {
                           return even(a.key_heads) && even(a.value_heads);
                         }
                         if constexpr (requires { a.output_groups; }) return even(a.output_groups);
                         if constexpr (requires { a.heads; }) return even(a.heads);
                         return true;
                       },
                       kind.attention);
}

TEST_CASE("products of every layer in the zoo multiply with the weights that a rank holds") {
  const auto zoo = load_zoo(std::string(TRAINWRIGHT_SOURCE_DIR) + "/data");
  REQUIRE(zoo.has_value());
  for (const ZooEntry& entry : *zoo) {
    const Model& model = entry.model;
    for (const LayerKind& kind : model.kinds) {
      for (const std::int64_t ways : {1, 2, 4, 8}) {
        if (!splits(kind, ways)) continue;
        const Slice slice{.tp = ways, .ep = ways, .etp = ways, .mbs = 1, .seq = 256};
        for (const Recipe& recipe : {paper_recipe(), plain_recipe()}) {
          CAPTURE(model.name);
          CAPTURE(ways);
          const OperatorList list = layer_work(model, kind, slice, recipe);
          CHECK((held(model, kind, list, slice, recipe) == held(model, kind, {}, slice, recipe)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace trainwright
