// Attention as transformers runs it without a fused kernel, and as PyTorch's own
// scaled_dot_product_attention runs on CPU.
#include <algorithm>
#include <optional>

#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

struct Sizes {
  std::int64_t query = 0, key = 0, value = 0, scores = 0, output = 0;  // numbers, all heads
};
Sizes sizes_of(const Builder& b, const Core& core) {
  const std::int64_t heads = checked_mul(b.slice.mbs, core.heads);
  const std::int64_t queries = checked_mul(heads, core.query_tokens);
  const std::int64_t keys = checked_mul(heads, core.key_tokens);
  return {checked_mul(queries, core.key_dim), checked_mul(keys, core.key_dim),
          checked_mul(keys, core.value_dim), checked_mul(queries, core.key_tokens),
          checked_mul(queries, core.value_dim)};
}

bool is_latent(const Core& core) { return std::holds_alternative<LatentAttention>(core.attention); }

// Whether queries and keys lie in memory head by head, so that all heads of all sequences are one
// batch of matrices. Else, after a product and a transposition, they lie token by token.
bool lie_by_head(const Builder& b, const Core& core) {
  return is_latent(core) || b.model.style.rotates_part;
}
// torch.matmul wants one batch; of several sequences that lie token by token it needs a copy.
bool copied_for_product(const Builder& b, const Core& core, std::int64_t tokens, bool by_head) {
  return !by_head && b.slice.mbs > 1 && core.heads > 1 && tokens > 1;
}

// Of what has been repeated for every query head each rank has its own, as of the queries.
TensorId copy(Builder& b, const Core& core, std::string_view name, TensorId x, Dtype dtype,
              std::int64_t elements) {
  const TensorId result = b.tensor(name, dtype, elements, b.at(core.query).copies);
  each(b, "copy", {x}, result, 0).kind = OperatorKind::AttentionCore;
  return result;
}

struct Matrices {
  TensorId query, key, value;
};
// Keys and values of grouped heads are repeated, which copies unless the one head of one sequence
// is repeated: then the result is a view.
Matrices matrices(Builder& b, const Core& core, const Sizes& sizes) {
  const bool by_head = lie_by_head(b, core);
  const bool repeats = core.kv_heads != core.heads && (core.kv_heads > 1 || b.slice.mbs > 1);
  const Dtype dtype = b.at(core.query).dtype;
  Matrices m = {core.query, core.key, core.value};
  // Rotated keys are cast after they were repeated, which makes a view a copy; so are values that
  // few-bit matrices gave in fp32.
  const bool cast_wide = b.recipe.wide && core.kv_heads != core.heads;
  const bool cast_value = cast_wide && !b.recipe.autocast;
  if (repeats || cast_wide || copied_for_product(b, core, core.key_tokens, by_head)) {
    m.key = copy(b, core, "key_matrices", core.key, dtype, sizes.key);
  }
  if (repeats || cast_value || copied_for_product(b, core, core.key_tokens, false)) {
    m.value = copy(b, core, "value_matrices", core.value, dtype, sizes.value);
  }
  if (copied_for_product(b, core, core.query_tokens, by_head)) {
    m.query = copy(b, core, "query_matrices", core.query, dtype, sizes.query);
  }
  return m;
}

Operator& in_core(Operator& op) {
  op.kind = OperatorKind::AttentionCore;
  return op;
}

// One of the two products of the core, `share` of its FLOPs.
Operator& core_product(Builder& b, const Core& core, std::string_view name, TensorId left,
                       TensorId right, TensorId result, double share) {
  Operator& op = b.add(name, OperatorKind::AttentionCore, {left, right}, {result});
  op.forward.matmul = core_flops(b, core, AttentionPairs::Full) * share;
  op.input_gradient.matmul = op.forward.matmul * 2.0;
  op.saves = {{left, Half::Input, of_input(1)}, {right, Half::Input, of_input(0)}};
  op.gradients_apart = true;
  if (b.recipe.splits_products) {
    // When the left factor or the result's gradient is copied, the right factor is gone and has no
    // gradient yet.
    const Bytes later = b.at(right).bytes() + b.at(right).bytes();
    op.backward_workspace =
        std::max({Bytes(0), b.at(left).bytes() - later, b.at(result).bytes() - later});
  }
  return op;
}
double key_share(const Core& core) {
  return real(core.key_dim) / real(core.key_dim + core.value_dim);
}

bool is_soft_capped(const Core& core) {
  const auto* softmax = std::get_if<SoftmaxAttention>(&core.attention);
  return softmax != nullptr && softmax->softcap;
}
bool drops_out(const Builder& b) { return b.recipe.code.dropout && b.model.dropout_attention > 0; }

// c tanh(scores / c).
TensorId soft_capped(Builder& b, TensorId scores) {
  const TensorId divided = b.like(scores, "scores_divided");
  in_core(each(b, "divide", {scores}, divided));
  const TensorId tanh = b.like(scores, "scores_tanh");
  in_core(each(b, "tanh", {divided}, tanh)).saves.push_back({tanh, Half::Input});
  const TensorId capped = b.like(scores, "scores_capped");
  in_core(each(b, "multiply", {tanh}, capped));
  return capped;
}

TensorId softmax(Builder& b, TensorId scores, Dtype dtype) {
  const TensorId probabilities = b.like(scores, "probabilities", dtype);
  in_core(each(b, "softmax", {scores}, probabilities, 4))
      .saves.push_back({probabilities, Half::Input});
  return probabilities;
}

// A learned logit for each head beside the scores of its keys.
TensorId with_sinks(Builder& b, const Core& core, TensorId scores) {
  const auto* attention = std::get_if<SoftmaxAttention>(&core.attention);
  if (attention == nullptr || !attention->sinks) return scores;
  const Tensor of = b.at(scores);
  const TensorId joined = b.tensor("scores_and_sinks", of.dtype,
                                   of.elements + of.elements / core.key_tokens, of.copies);
  in_core(each(b, "join_sinks", {scores}, joined, 0)).trained = b.trains();
  return joined;
}

// The place of the largest stays for its gradient.
TensorId less_largest(Builder& b, const Core& core, TensorId scores) {
  if (!b.model.style.subtracts_largest) return scores;
  const std::int64_t rows = checked_mul(checked_mul(b.slice.mbs, core.heads), core.query_tokens);
  const TensorId places = b.constant("largest_places", Dtype::Int64, rows, b.at(scores).copies);
  const TensorId less = b.like(scores, "scores_less_largest");
  Operator& op = in_core(each(b, "subtract_largest", {scores}, less, 2));
  op.outputs.push_back(places);
  op.saves.push_back({places, Half::Input});
  return less;
}

TensorId dropped(Builder& b, TensorId probabilities) {
  const TensorId result = b.like(probabilities, "probabilities_dropped");
  const TensorId mask = b.constant("attention_mask", Dtype::Bool, b.at(probabilities).elements,
                                   b.at(probabilities).copies);
  Operator& op = in_core(each(b, "dropout", {probabilities}, result));
  op.outputs.push_back(mask);
  op.saves.push_back({mask, Half::Input});
  return result;
}

// Heads outermost to tokens outermost, as the next product wants them: a copy, unless there is only
// one of either.
TensorId tokens_outermost(Builder& b, const Core& core, TensorId x) {
  if (core.heads == 1 || core.query_tokens == 1) return x;
  return copy(b, core, "attended", x, b.at(x).dtype, b.at(x).elements);
}

// PyTorch's fused kernels: no dropout, and keys as wide as values. A causal mask that is told as
// such is never made, and what it hides is not computed on accelerators.
bool has_fused_kernel(const Builder& b, const Core& core) {
  return !drops_out(b) && core.key_dim == core.value_dim;
}

// A window that is shorter than the sequence needs a mask: the bool one of the model becomes
// numbers inside the layer, and heads are repeated.
std::optional<std::int64_t> mask_elements(const Builder& b, const Core& core) {
  const auto* softmax = std::get_if<SoftmaxAttention>(&core.attention);
  const auto* latent = std::get_if<LatentAttention>(&core.attention);
  const bool chosen =
      (softmax != nullptr && softmax->indexer) || (latent != nullptr && latent->indexer);
  if (!chosen && (softmax == nullptr || softmax->reach == Reach::Full)) return std::nullopt;
  if (!chosen && core.key_tokens < softmax->window) return std::nullopt;
  return checked_mul(b.slice.mbs, checked_mul(core.query_tokens, core.key_tokens));
}

TensorId fused_sdpa(Builder& b, const Core& core, const Sizes& sizes) {
  const Dtype dtype = b.at(core.query).dtype;
  TensorId key = core.key;
  TensorId value = core.value;
  const std::optional<std::int64_t> masked = mask_elements(b, core);
  if (masked && core.kv_heads != core.heads) {
    key = copy(b, core, "key_matrices", key, dtype, sizes.key);
    value = copy(b, core, "value_matrices", value, dtype, sizes.value);
  }
  const TensorId mask = masked ? b.constant("window_mask", dtype, *masked) : key;
  if (masked) b.add("mask", OperatorKind::AttentionCore, {}, {mask});
  const TensorId attended = b.tensor("attended", dtype, sizes.output, b.at(core.query).copies);
  const TensorId statistic =
      b.constant("log_sum_exp", Dtype::Fp32, sizes.query / core.key_dim, b.at(core.query).copies);
  Operator& op = b.add("attention_core", OperatorKind::AttentionCore, {core.query, key, value},
                       {attended, statistic});
  const AttentionPairs pairs = masked ? AttentionPairs::Full : AttentionPairs::Causal;
  op.forward.matmul = core_flops(b, core, pairs);
  op.input_gradient.matmul = op.forward.matmul * 2.0;
  op.head_width = (core.key_dim + core.value_dim) / 2;
  op.keys = core.query_tokens;
  op.saves = {{core.query, Half::Input},
              {key, Half::Input},
              {value, Half::Input},
              {attended, Half::Input},
              {statistic, Half::Input}};
  if (masked) {
    op.inputs.push_back(mask);
    op.saves.push_back({mask, Half::Input});
  }
  // The output lies as the queries do.
  return lie_by_head(b, core) ? tokens_outermost(b, core, attended) : attended;
}

// PyTorch's fallback: everything in fp32, queries and keys each scaled by the root of the scale.
TensorId unfused_sdpa(Builder& b, const Core& core, const Sizes& sizes) {
  const Dtype dtype = b.at(core.query).dtype;
  const TensorId query = copy(b, core, "query_scaled", core.query, Dtype::Fp32, sizes.query);
  const TensorId key = copy(b, core, "key_scaled", core.key, Dtype::Fp32, sizes.key);
  TensorId value = core.value;
  const bool repeats = core.kv_heads != core.heads;
  if (dtype != Dtype::Fp32 || repeats || copied_for_product(b, core, core.key_tokens, false)) {
    value = copy(b, core, "value_matrices", core.value, Dtype::Fp32, sizes.value);
  }
  const TensorId scores = b.tensor("scores", Dtype::Fp32, sizes.scores, b.at(core.query).copies);
  core_product(b, core, "scores", query, key, scores, key_share(core));
  const TensorId masked = b.like(scores, "scores_masked");
  in_core(each(b, "mask", {scores}, masked));
  TensorId weights = softmax(b, masked, Dtype::Fp32);
  if (drops_out(b)) {
    // Its noise is not a mask of bools but a factor for each number.
    const TensorId noise = b.constant("probabilities_noise", Dtype::Fp32, sizes.scores);
    const TensorId result = b.like(weights, "probabilities_dropped");
    Operator& op = in_core(each(b, "dropout", {weights}, result));
    op.outputs.push_back(noise);
    op.saves.push_back({noise, Half::Input});
    weights = result;
  }
  const TensorId heads =
      b.tensor("attended_heads", Dtype::Fp32, sizes.output, b.at(core.query).copies);
  core_product(b, core, "weighted_values", weights, value, heads, 1 - key_share(core));
  if (dtype == Dtype::Fp32) return tokens_outermost(b, core, heads);
  return tokens_outermost(b, core, copy(b, core, "attended_cast", heads, dtype, sizes.output));
}

}  // namespace

TensorId eager_core(Builder& b, const Core& core) {
  const Sizes sizes = sizes_of(b, core);
  const Dtype dtype = b.at(core.query).dtype;
  const Matrices m = matrices(b, core, sizes);
  const TensorId scores = b.tensor("scores", dtype, sizes.scores, b.at(core.query).copies);
  core_product(b, core, "scores", m.query, m.key, scores, key_share(core));
  TensorId logits = b.like(scores, "scores_scaled");
  in_core(each(b, "scale", {scores}, logits));
  if (is_soft_capped(core)) logits = soft_capped(b, logits);
  const TensorId masked = b.like(scores, "scores_masked");
  in_core(each(b, "mask", {logits}, masked));
  const bool wide = b.recipe.wide || b.model.style.softmax_in_fp32;
  const TensorId among = less_largest(b, core, with_sinks(b, core, masked));
  TensorId weights = softmax(b, among, wide ? Dtype::Fp32 : dtype);
  if (b.at(weights).dtype != dtype || (wide && b.recipe.code.casts_copy)) {
    weights = copy(b, core, "probabilities_cast", weights, dtype, sizes.scores);
  }
  if (drops_out(b)) weights = dropped(b, weights);
  const TensorId heads = b.tensor("attended_heads", dtype, sizes.output, b.at(core.query).copies);
  core_product(b, core, "weighted_values", weights, m.value, heads, 1 - key_share(core));
  return tokens_outermost(b, core, heads);
}

TensorId sdpa_core(Builder& b, const Core& core) {
  const Sizes sizes = sizes_of(b, core);
  return has_fused_kernel(b, core) ? fused_sdpa(b, core, sizes) : unfused_sdpa(b, core, sizes);
}

}  // namespace trainwright::detail
