#pragma once
// The trainers of data/trainers, read once, for tests.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "trainwright/trainer/trainer.h"

namespace trainwright {

inline const std::string kShippedData = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data";

inline const std::vector<Trainer>& shipped_trainers() {
  static const auto trainers = [] {
    auto loaded = load_trainers(kShippedData);
    REQUIRE_MESSAGE(loaded.has_value(), to_text(loaded.error()));
    return *std::move(loaded);
  }();
  return trainers;
}

inline Trainer picked_trainer(std::string_view text) {
  auto trainer = pick_trainer(text, shipped_trainers());
  REQUIRE_MESSAGE(trainer.has_value(), to_text(trainer.error()));
  return *std::move(trainer);
}

}  // namespace trainwright
