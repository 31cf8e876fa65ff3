#pragma once
// Private: the steps of a layer. Each adds its operators and gives the tensor it ends in. A step
// with a fused kernel in the recipe is in fused_*.cc; without one it runs as plain PyTorch does, in
// eager_*.cc; steps.cc chooses.
#include <cstdint>
#include <span>
#include <string_view>

#include "trainwright/work/builder.h"

namespace trainwright::detail {

// x times a matrix, one product. The tensor saved for the weight gradient is x, or its
// low-precision copy (recipe.input_copy).
struct Output {
  std::string_view name;    // of the tensor
  std::int64_t width = 0;   // on this rank
  std::int64_t copies = 1;  // ranks of tp with the same columns
};
// Column-parallel: x has outer rows, which are gathered first with sp; the outputs have inner rows
// and are split over tp. One product for all outputs if the recipe joins them, else one each;
// `name` is that of a joined one.
Few<TensorId, 8> columns(Builder& b, std::string_view name, TensorId x, std::int64_t in,
                         std::span<const Output> outputs, bool bias);
// Row-parallel: x has inner rows, split over tp; the sum over tp has outer rows.
TensorId rows(Builder& b, std::string_view name, TensorId x, std::int64_t in,
              std::string_view output, bool bias);
// A matrix that every rank of tp holds whole, applied to the rows that x has.
TensorId replicated(Builder& b, std::string_view name, TensorId x, std::int64_t in,
                    const Output& output, bool bias);
// The product alone; `low_precision`: the recipe's input_copy applies.
Operator& product(Builder& b, std::string_view name, TensorId x, std::int64_t in,
                  std::span<const TensorId> outputs, bool low_precision);

// Rows of `width` numbers; Norm::None gives x back. Replicated gain.
TensorId norm(Builder& b, std::string_view name, Norm norm, TensorId x, std::int64_t width);
TensorId fused_norm(Builder& b, std::string_view name, Norm norm, TensorId x, std::int64_t width);
TensorId eager_norm(Builder& b, std::string_view name, Norm norm, TensorId x, std::int64_t width);

struct Rotated {
  TensorId query, key;
};
// `head_dim`: width of a head; the rotation turns all or part of it.
Rotated rope(Builder& b, TensorId query, TensorId key, std::int64_t head_dim);
Rotated fused_rope(Builder& b, TensorId query, TensorId key, std::int64_t head_dim);
Rotated eager_rope(Builder& b, TensorId query, TensorId key, std::int64_t head_dim);

// Queries, keys and values of one rank, after rotation and after any all-to-all of cp.
struct Core {
  const Attention& attention;
  TensorId query, key, value;
  std::int64_t heads = 0, kv_heads = 0;     // on this rank
  std::int64_t key_dim = 0, value_dim = 0;  // of a head
  std::int64_t query_tokens = 0,
               key_tokens = 0;  // of one sequence, as this rank's kernel sees them
  double share = 1;             // of the whole model's core that this rank computes
};
// The output has query rows x heads x value_dim.
TensorId attention_core(Builder& b, const Core& core);
TensorId flash_core(Builder& b, const Core& core);
TensorId softmax_core(Builder& b, const Core& core);  // FusedSoftmax
TensorId eager_core(Builder& b, const Core& core);
TensorId sdpa_core(Builder& b, const Core& core);
// FLOPs of the core's products, forward, of this rank: causal pairs or all of them.
Flops core_flops(const Builder& b, const Core& core, AttentionPairs pairs);

// What the first products of a feed-forward gave. `gate` equals `up` where there is none; `scores`,
// one per row, multiplies the result where has_scores.
struct Preactivation {
  TensorId gate, up, scores;
  bool gated = false, bias = false, has_scores = false;
  Activation activation = Activation::Silu;
};
TensorId activation(Builder& b, const Preactivation& x);
TensorId fused_activation(Builder& b, const Preactivation& x);
TensorId eager_activation(Builder& b, const Preactivation& x);

// x + dropout(branch).
TensorId residual(Builder& b, TensorId x, TensorId branch);
TensorId fused_residual(Builder& b, TensorId x, TensorId branch);
TensorId eager_residual(Builder& b, TensorId x, TensorId branch);

// Router, experts, shared experts; x has outer rows, and so has the result.
TensorId mixture(Builder& b, const MixtureOfExperts& m, TensorId x);
TensorId permuted_mixture(Builder& b, const MixtureOfExperts& m, TensorId x);
TensorId eager_mixture(Builder& b, const MixtureOfExperts& m, TensorId x);
// The dense branch, also of shared experts.
struct MlpNames {
  std::string_view joined, gate, up, down;
};
TensorId feed_forward(Builder& b, const Mlp& mlp, TensorId x, const MlpNames& names);

// Logits (rows x a share of the vocabulary) to the loss; nothing follows it.
void loss(Builder& b, TensorId logits, std::int64_t rows);
void counted_loss(Builder& b, TensorId logits,
                  std::int64_t rows);                             // by the recipe's bytes per logit
void eager_loss(Builder& b, TensorId logits, std::int64_t rows);  // if the loss is named "eager"

}  // namespace trainwright::detail
