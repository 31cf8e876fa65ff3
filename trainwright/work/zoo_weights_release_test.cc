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

TEST_CASE("products of every layer in the zoo multiply with the weights that a rank holds") {
  const auto zoo = load_zoo(std::string(TRAINWRIGHT_SOURCE_DIR) + "/data");
  REQUIRE(zoo.has_value());
  for (const ZooEntry& entry : *zoo) {
    const Model& model = entry.model;
    for (const LayerKind& kind : model.kinds) {
      for (const std::int64_t ep : {1, 2}) {
        const Slice slice{.ep = ep, .mbs = 1, .seq = 256};
        for (const Recipe& recipe : {paper_recipe(), plain_recipe()}) {
          CAPTURE(model.name);
          CAPTURE(ep);
          const OperatorList list = layer_work(model, kind, slice, recipe);
          CHECK((held(model, kind, list, slice, recipe) == held(model, kind, {}, slice, recipe)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace trainwright
