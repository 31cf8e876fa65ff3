#pragma once
// What a trainer stores and multiplies in a precision. Part of trainer.h: include that one.
#include <optional>
#include <string>
#include <vector>

#include "trainwright/trainer/kinds.h"

namespace trainwright {

// Casts of what a product reads to 8 or 4 bits: bytes moved for each number, reading 16 bits once
// for every pass over it and writing what the products take, in one order of the matrix or in both.
struct Rounding {
  double input = 0;            // of the product's input, forward
  double after_norm = 0;       // the same of an input that a norm has just written, beside the norm
  double input_again = 0;      // where the weight's gradient is made
  double gradient = 0;         // of the output's gradient
  double gradient_again = 0;   // likewise
  double weight = 0;           // of the weight, in the forward pass and in the backward pass each
  bool before_gather = false;  // what sequence parallelism gathers is cast before: 8 bits travel
  bool operator==(const Rounding&) const = default;
};

struct PrecisionFacts {
  PrecisionKind kind = PrecisionKind::Bf16;
  std::string weight;                  // dtype as stored
  std::string frozen;                  // the same beside adapters; empty: the same
  std::string weight_under_fsdp;       // of what is trained under FSDP; empty: the same
  std::string compute;                 // dtype as kernels read it, as gathered by FSDP
  std::string master;                  // dtype of the second, exact copy; "none" if there is none
  std::vector<std::string> gradients;  // dtypes of the buffer that lives all step, default first
  std::optional<GradientLife> gradient_life;  // where it replaces the sharding's
  bool gradient_copied_at_step = false;       // narrower gradients become fp32 for the step
  std::string gradient_unsharded;  // dtype of the buffer where nothing is sharded; empty: the same
  double weight_copies = 0;  // bytes per parameter of cast or transposed weights kept beside it
  // The same on accelerators whose low-precision products take either order of their operands.
  std::optional<double> weight_copies_either_order;
  // Bytes per parameter of a weight that is itself stored in 8 bits (fp8-parameter-gather) and cut,
  // as by ZeRO-3; where it is not cut, the copies above are all there is of it. None: weights are
  // stored as `weight` and cast before they travel.
  std::optional<double> weight_stored_low;
  double input_copy = 0;  // bytes per element kept of a matrix' input instead of it; 0: itself
  Rounding rounds;
  std::string setting, source;  // what to set, empty if the default; where it is written
};

}  // namespace trainwright
