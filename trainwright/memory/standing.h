#pragma once
// Private: what a rank makes before its first step and keeps.
#include "trainwright/memory/heap.h"
#include "trainwright/memory/reserve.h"

namespace trainwright::detail {

// Weights, their gradients where these have a buffer, main weights; then buffers and workspaces.
void make_standing(Heap& heap, const ReserveQuestion& question);

}  // namespace trainwright::detail
