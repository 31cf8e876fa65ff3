#pragma once
// Private: the steps of a layer. Each adds its operators and gives the tensor it ends in. A step
// with a fused kernel in the recipe is in fused_*.cc; without one it runs as plain PyTorch does, in
// eager_*.cc; steps.cc chooses.
#include <cstdint>
#include <span>
#include <string_view>

#include "trainwright/work/builder.h"

namespace trainwright::detail {

// What the output of a product is called and how wide it is on this rank.
struct Output {
  std::string_view name;
  std::int64_t width = 0;
  std::int64_t copies = 1;  // ranks of tp with the same columns
  // Of the layer's matrices, those that make it, where neither its name nor the operator's says so.
  Flags<LayerMatrix> matrices = {};
};
// The tensor saved for the weight gradient is x, or its low-precision copy (recipe.input_copy).
struct Matrix {
  std::string_view name;    // of the operator
  std::int64_t in = 0;      // width of x on this rank
  std::int64_t copies = 1;  // matrices: experts on this rank
  bool bias = false;
  bool low_precision = true;  // of those a low-precision recipe takes
  bool adapter = false;       // A or B of one
  // Ranks whose tokens of the input, or of the output's gradient, are gathered after their cast.
  std::int64_t input_from = 1, gradient_from = 1;
};
// Column-parallel: x has outer rows, which are gathered first with sp; the outputs have inner rows
// and are split over tp. One product for all outputs if the recipe joins them, else one each, named
// by its output.
Few<TensorId, 6> columns(Builder& b, const Matrix& matrix, TensorId x,
                         std::span<const Output> outputs);
// Row-parallel: x has inner rows, split over tp; the sum over tp has outer rows.
TensorId rows(Builder& b, const Matrix& matrix, TensorId x, std::string_view output);
// A matrix that every rank of tp holds whole, applied to the rows that x has.
Few<TensorId, 6> replicated(Builder& b, const Matrix& matrix, TensorId x,
                            std::span<const Output> outputs);
// The product alone; `row_count` rows of x are multiplied.
struct Product {
  Few<TensorId, 6> outputs;
  TensorId saved;
};
Product product(Builder& b, const Matrix& matrix, TensorId x, std::int64_t row_count,
                std::int64_t row_copies, std::span<const Output> outputs);
// Of frozen matrices that are stored in few bits: what they are read as, and what working with them
// takes. `op` multiplies x with them.
void quantise(const Builder& b, const Matrix& matrix, TensorId x, Operator& op);
// Sets what `op` multiplies with.
void set_matrix(Operator& op, const Matrix& matrix, std::span<const Output> outputs);
// What a product has made of x, with adapters beside the matrices that the job names (adapters.cc).
// Where one product makes several outputs and all are named, they share one adapter.
// How the matrix is cut: Columns over tp; Rows over etp, by ranks that sum up later.
enum class Cut { Whole, Columns, Rows };
Few<TensorId, 6> adapted(Builder& b, const Matrix& matrix, TensorId x,
                         std::span<const Output> outputs, const Few<TensorId, 6>& made,
                         Cut cut = Cut::Whole);
// The same beside a row-parallel product, whose input is cut over tp.
TensorId adapted_rows(Builder& b, const Matrix& matrix, TensorId x, TensorId made);
// x with outer rows to one with inner rows, by an all-gather over tp where they differ, in 8 bits
// where it is `rounded` before.
TensorId gathered(Builder& b, std::string_view name, TensorId x, bool rounded = false);
// The same of other rows than tokens: `elements` of the whole.
TensorId gathered_whole(Builder& b, std::string_view name, TensorId x, std::int64_t elements,
                        bool rounded = false);

// Rows of `width` numbers; Norm::None gives x back. Replicated gain.
TensorId norm(Builder& b, std::string_view name, Norm norm, TensorId x, std::int64_t width);
// The same where tp has cut the rows: their statistics are summed over it.
TensorId norm_of_split_rows(Builder& b, std::string_view name, Norm norm, TensorId x,
                            std::int64_t width);
TensorId fused_norm(Builder& b, std::string_view name, Norm norm, TensorId x, std::int64_t width);
TensorId eager_norm(Builder& b, std::string_view name, Norm norm, TensorId x, std::int64_t width);

struct Rotated {
  TensorId query, key;
};
// `head_dim`: width of a head; the rotation turns all or part of it.
Rotated rope(Builder& b, TensorId query, TensorId key, std::int64_t head_dim);
Rotated fused_rope(Builder& b, TensorId query, TensorId key, std::int64_t head_dim);
Rotated eager_rope(Builder& b, TensorId query, TensorId key, std::int64_t head_dim);

// Of latent attention: the parts without positions and the values come in one tensor, and one
// rotated key head serves all. Writes `value`, which is there already.
struct LatentHeads {
  TensorId query, key_value, key_rope, value;
  std::int64_t heads = 0, nope_dim = 0, rope_dim = 0;
};
Rotated latent_rope(Builder& b, const LatentHeads& x);
Rotated fused_latent_rope(Builder& b, const LatentHeads& x);
Rotated eager_latent_rope(Builder& b, const LatentHeads& x);

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
// To the channels that experts work on, and back.
TensorId into_latent(Builder& b, const MixtureOfExperts& m, TensorId x);
TensorId out_of_latent(Builder& b, const MixtureOfExperts& m, TensorId y);
// The dense branch, also of shared experts.
struct MlpNames {
  std::string_view joined, gate, up, down;
};
TensorId feed_forward(Builder& b, const Mlp& mlp, TensorId x, const MlpNames& names);

// Logits (rows x a share of the vocabulary) to the loss; nothing follows it.
void loss(Builder& b, TensorId logits, std::int64_t rows);
void counted_loss(Builder& b, TensorId logits,
                  std::int64_t rows);                             // by the recipe's bytes per logit
void eager_loss(Builder& b, TensorId logits, std::int64_t rows);  // operator by operator

}  // namespace trainwright::detail
