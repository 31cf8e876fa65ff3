#pragma once
// Private: the few numbers of a model and of a layout that legality turns on.
#include <cstdint>
#include <span>

#include "trainwright/layout/layout.h"

namespace trainwright::detail {

// Of the first kind of layer that has such a thing; 0 where none has.
struct Shapes {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;  // of attention with a softmax, if any
  std::int64_t ffn = 0;                                // width of a dense feed-forward
  std::int64_t moe_ffn = 0, experts = 0, top_k = 0, shared_experts = 0;
  bool own_head_dim = false;  // heads x head_dim is not the width
  bool mla = false;
  bool windows = false;           // some layer sees only the last tokens, or those of its chunk
  bool expert_bias = false;       // experts add a bias after their products
  std::int64_t linear_heads = 0;  // greatest common divisor of a gated delta net's two counts
  std::int64_t mamba_heads = 0, mamba_groups = 0;
  bool mamba_beside = false;  // attention, in the same layer
};
Shapes shapes_of(const Model& model);

// Ranks that hold different heads of the same tokens inside attention.
std::int64_t ulysses_degree(const Layout& layout);
// How each stage recomputes, or the one way of all.
std::span<const Recompute> recomputes_of(const Layout& layout);
// The modules that some layer of the model has.
Flags<RecomputeModule> modules_in(const Shapes& shapes);

}  // namespace trainwright::detail
