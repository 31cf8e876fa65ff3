// What chooses the keys of sparse attention, and weights of a family's own.
#include <algorithm>

#include "trainwright/work/attention.h"
#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

// Its products, the scores of all keys and the sum over heads.
Flops chosen_by(const Builder& b, const Attention& attention) {
  LayerKind kind;
  kind.attention = attention;
  Flops products(0);
  for (const Weight& weight : layer_weights(b.model, kind)) {
    if (weight.name.starts_with("index_")) products += forward_flops(weight);
  }
  const AttentionPairs pairs =
      b.slice.attention == AttentionKernel::Flash ? AttentionPairs::Causal : AttentionPairs::Full;
  return (products + index_flops(attention, Tokens(b.slice.seq), pairs)) * real(b.rows.inner);
}

}  // namespace

// transformers 5.23.0 modeling_deepseek_v32.py, modeling_glm_moe_dsa.py: forward runs under
// no_grad, head by head over all keys.
void index(Builder& b, const Attention& attention, const Indexer& a, TensorId x,
           TensorId query_from) {
  const std::int64_t most = a.topk > 0 ? std::min(a.topk, b.slice.seq) : b.slice.seq;
  const TensorId chosen =
      b.constant("keys_chosen", Dtype::Int64, checked_mul(b.rows.inner, most), b.slice.tp);
  Operator& op = b.add("index", OperatorKind::AttentionCore, {x, query_from}, {chosen});
  if (a.heads == 0) return;
  op.forward.matmul = chosen_by(b, attention);
  const std::int64_t keys = b.slice.attention == AttentionKernel::Flash ? 1 : a.heads;
  op.workspace =
      Bytes(checked_mul(checked_mul(b.rows.inner, b.slice.seq), byte_size(Dtype::Fp32))) * keys;
}

// A matrix: its result scales y number by number, or is added where it is as wide. A vector scales.
TensorId extra(Builder& b, const Extra& weight, TensorId x, TensorId y) {
  switch (weight.use) {
    case Extra::Use::Table: return y;
    case Extra::Use::Vector: {
      const TensorId scaled = b.like(y, "scaled");
      Operator& op = each(b, weight.name.empty() ? "scale" : "scale_by_weight", {y}, scaled);
      op.saves = {{y, half_of_vector(b)}};
      op.trained = b.trains();
      return scaled;
    }
    case Extra::Use::Convolution: return convolved(b, y, weight.in, "convolved");
    case Extra::Use::Matrix: break;
  }
  const std::int64_t rows = b.rows.outer;
  TensorId from = x;
  if (b.at(x).elements != checked_mul(rows, weight.in)) {
    from =
        b.tensor("own_input", b.recipe.compute, checked_mul(rows, weight.in), b.rows.outer_copies);
    b.add("take_own_input", OperatorKind::Elementwise, {x}, {from});
  }
  const Output out{"own_output", weight.out};
  const TensorId made = replicated(
      b, {.name = "own_product", .in = weight.in, .bias = weight.bias, .low_precision = false},
      from, {&out, 1})[0];
  const TensorId joined = b.like(y, "own_joined");
  Operator& op = each(b, "join_own", {y, made}, joined);
  op.saves = {{y, Half::Input}, {made, Half::Input}};
  return joined;
}

}  // namespace trainwright::detail
