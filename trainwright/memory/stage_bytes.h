#pragma once
// What stages keep. Part of memory.h: include that one.
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/base/units.h"

namespace trainwright {

struct MemoryQuestion;

// Of one micro-batch, from its forward pass to its backward pass, and of that what the gradients of
// the weights still need when those of the input are done.
struct StageBytes {
  Bytes kept, half;
};
// By stage, in the order of the layers.
Result<std::vector<StageBytes>> stage_bytes(const MemoryQuestion& question);

}  // namespace trainwright
