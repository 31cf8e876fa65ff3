#include <doctest/doctest.h>

#include <vector>

#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright {
namespace {

std::vector<double> tensors(OptimizerKind kind, const SteppedWeight& weight) {
  const auto bytes = parameter_bytes(picked_trainer("pytorch"), PrecisionKind::Fp32, kind).value();
  const auto few = state_tensors(bytes.states, weight);
  return {few.begin(), few.end()};
}

constexpr SteppedWeight kMatrix{.in = 100, .out = 400, .matrix = true, .hidden = true};
constexpr SteppedWeight kTable{.in = 1000, .out = 100, .matrix = true};
constexpr SteppedWeight kVector{.out = 400};
using List = std::vector<double>;

TEST_CASE("AdamW and SGD hold a number for every parameter, twice, once or not at all") {
  CHECK(tensors(OptimizerKind::AdamW, kMatrix) == List{160'000, 160'000});
  CHECK(tensors(OptimizerKind::AdamW, kVector) == List{1'600, 1'600});
  CHECK(tensors(OptimizerKind::Sgd, kMatrix) == List{160'000});
  CHECK(tensors(OptimizerKind::SgdNoMomentum, kMatrix) == List{});
}

TEST_CASE("Adafactor holds rows and columns of matrices, and all of a vector") {
  CHECK(tensors(OptimizerKind::Adafactor, kMatrix) == List{1'600, 400});
  CHECK(tensors(OptimizerKind::Adafactor, kTable) == List{400, 4'000});
  CHECK(tensors(OptimizerKind::Adafactor, kVector) == List{1'600});
  // Of eight experts in one tensor, those of each.
  SteppedWeight experts = kMatrix;
  experts.depth = 8;
  CHECK(tensors(OptimizerKind::Adafactor, experts) == List{8 * 1'600, 8 * 400});
}

TEST_CASE("Muon has one momentum of hidden matrices and leaves the rest to AdamW") {
  CHECK(tensors(OptimizerKind::Muon, kMatrix) == List{160'000});
  CHECK(tensors(OptimizerKind::Muon, kTable) == List{400'000, 400'000});
  CHECK(tensors(OptimizerKind::Muon, kVector) == List{1'600, 1'600});
}

TEST_CASE("8-bit states have a scale for 256 numbers, small weights have fp32 states") {
  // 40,000 numbers are 156.25 blocks.
  CHECK(tensors(OptimizerKind::AdamW8bit, kMatrix) == List{40'000, 4 * 157, 40'000, 4 * 157});
  CHECK(tensors(OptimizerKind::AdamW8bit, kVector) == List{1'600, 1'600});
  const auto bytes =
      parameter_bytes(picked_trainer("pytorch"), PrecisionKind::Bf16, OptimizerKind::AdamW8bit)
          .value();
  CHECK(bytes.states.tables == 2 * 256 * 4);
}

}  // namespace
}  // namespace trainwright
