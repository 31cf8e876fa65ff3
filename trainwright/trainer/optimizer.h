#pragma once
// What an optimizer holds for a weight. Part of trainer.h: include that one.
//
//   AdamW      two numbers for every parameter
//   SGD        one with momentum, none without
//   Muon       one of a hidden matrix; of embedding, head and vectors AdamW's two
//   (arXiv:2502.16982) Adafactor  of a matrix one for every row and column (arXiv:1804.04235), of a
//   vector all 8 bits     two bytes for every parameter, and an fp32 scale for every block
//   (arXiv:2110.02861)
//
// A step may make lists of temporaries besides, for all weights at once (PyTorch's foreach).
// Which tensors these are, and in what dtype, is a fact of a trainer. Sums of bytes and replays of
// allocations both read `state_tensors`.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/few.h"
#include "trainwright/base/names.h"
#include "trainwright/trainer/kinds.h"

namespace trainwright {

// Which weights have it: Matrices are those of two and more dimensions, the embedding's among them;
// HiddenMatrices are neither in the embedding nor in the head, Others are all but these.
enum class StateOf : std::uint8_t { All, Matrices, Vectors, HiddenMatrices, Others };
// A number for every parameter, for every row (output), or for every column (input) of a matrix.
enum class StateSize : std::uint8_t { Whole, Rows, Columns };
std::span<const std::string_view> all_names(StateOf);
std::span<const std::string_view> all_names(StateSize);

// Written "fp32", "as-weight rows of matrices", "fp32 of others".
struct StateFacts {
  std::string dtype;  // or "as-weight"
  StateSize size = StateSize::Whole;
  StateOf of = StateOf::All;
  friend bool operator==(const StateFacts&, const StateFacts&) = default;
};
std::string to_text(const StateFacts& state);

struct OptimizerFacts {
  OptimizerKind kind = OptimizerKind::AdamW;
  std::vector<StateFacts> states;
  std::vector<StateFacts> temporaries;  // of a step, all at once
  std::int64_t block = 0;               // an fp32 scale for so many numbers of a state; 0: none
  std::int64_t least = 0;               // smaller weights have fp32 states without scales
  std::int64_t tables = 0;              // bytes that all weights share
  std::string master;                   // dtype, where it replaces the precision's; else empty
  // Precisions under which it reads gradients in fewer bits as they are; under others they are
  // copied first, as the precision says.
  std::vector<PrecisionKind> reads_gradients;
  std::string setting, source;
};

// The same with dtypes settled.
struct StateRule {
  double bytes = 4;  // of one number
  StateSize size = StateSize::Whole;
  StateOf of = StateOf::All;
};
struct OptimizerStates {
  Few<StateRule, 4> tensors, temporaries;
  std::int64_t block = 0, least = 0;
  double tables = 0;
};

// A weight as an optimizer sees it: `depth` matrices of in x out numbers in one tensor, or a vector
// of `out` numbers.
struct SteppedWeight {
  std::int64_t in = 1, out = 1, depth = 1;
  bool matrix = false;
  bool hidden = false;  // a matrix neither of the embedding nor of the head
  friend bool operator==(const SteppedWeight&, const SteppedWeight&) = default;
};
double numbers_of(const SteppedWeight& weight);
// Bytes of the tensors that the optimizer makes for the weight, in order, scales after what they
// scale; and their sum. Tables are not among them.
Few<double, 8> state_tensors(const OptimizerStates& states, const SteppedWeight& weight);
double state_bytes(const OptimizerStates& states, const SteppedWeight& weight);
double temporary_bytes(const OptimizerStates& states, const SteppedWeight& weight);

}  // namespace trainwright
