// Attention over the last tokens and over groups of tokens pressed into one (DeepSeek-V4,
// transformers 5.23.0 modeling_deepseek_v4.py).
#include <algorithm>

#include "trainwright/work/attention.h"
#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

// Keys that are values, of `ratio` tokens each: a softmax over the tokens of a group weighs every
// channel. Both products are kept, one of them as the softmax's result.
TensorId pressed(Builder& b, const CompressedAttention& a, std::int64_t width, TensorId x) {
  const Output kv{"pressed_kv", a.overlap * width};
  const Output weight{"pressed_weight", a.overlap * width};
  const std::int64_t hidden = b.model.hidden;
  const TensorId values = replicated(b, {.name = "pressed_kv", .in = hidden}, x, {&kv, 1})[0];
  const TensorId scores =
      replicated(b, {.name = "pressed_weight", .in = hidden}, x, {&weight, 1})[0];
  const TensorId weights = b.like(scores, "pressed_shares", Dtype::Fp32);
  each(b, "softmax", {scores}, weights, 4).saves = {{weights, Half::Input}};
  const std::int64_t groups = std::max<std::int64_t>(1, share(b.rows.outer, a.ratio));
  const TensorId sum =
      b.tensor("pressed", b.recipe.compute, checked_mul(groups, width), b.rows.outer_copies);
  Operator& op = b.add("press", OperatorKind::Elementwise, {values, weights}, {sum});
  op.saves = {{values, Half::Input}, {weights, Half::Input}};
  op.forward.other = Flops(2 * real(b.at(values).elements));
  op.input_gradient.other = op.forward.other * 2;
  return norm(b, "pressed_norm", Norm::Rms, sum, width);
}

struct CompressedInputs {
  TensorId query, key_value, pressed;
};

TensorId compressed_core(Builder& b, const Attention& attention, const CompressedAttention& a,
                         const CompressedInputs& x, std::int64_t heads) {
  const InModule module(b, RecomputeModule::CoreAttention);
  const std::int64_t rows = checked_mul(b.rows.inner, heads);
  const TensorId y = b.tensor("attended", b.recipe.compute, checked_mul(rows, a.head_dim));
  const TensorId statistics = b.constant("log_sum_exp", Dtype::Fp32, rows);
  const bool flash = b.slice.attention == AttentionKernel::Flash;
  Operator& op = b.add("attention_core", OperatorKind::AttentionCore,
                       {x.query, x.key_value, x.pressed}, {y, statistics});
  op.saves = {{x.query, Half::Input},
              {x.key_value, Half::Input},
              {x.pressed, Half::Input},
              {y, Half::Input},
              {statistics, Half::Input}};
  if (!flash) {
    const std::int64_t keys = b.slice.seq + (a.ratio > 0 ? b.slice.seq / a.ratio : 0);
    const TensorId shares = b.constant("probabilities", Dtype::Fp32, checked_mul(rows, keys));
    op.outputs.push_back(shares);
    op.saves.push_back({shares, Half::Input});
  }
  const AttentionPairs pairs = flash ? AttentionPairs::Causal : AttentionPairs::Full;
  const Tokens sequence(b.slice.seq);
  const Flops token =
      attention_core_flops(attention, sequence, pairs) - index_flops(attention, sequence, pairs);
  op.forward.matmul = token * (real(b.rows.inner) * real(heads) / real(a.heads));
  op.input_gradient.matmul = op.forward.matmul * 2;
  op.head_width = a.head_dim;
  op.keys = std::min(b.slice.seq, a.window * 2);
  return y;
}

}  // namespace

TensorId compressed_attention(Builder& b, const Attention& attention, TensorId x) {
  const auto& a = std::get<CompressedAttention>(attention);
  const std::int64_t heads = share(a.heads, b.slice.tp);
  const std::int64_t groups = share(a.output_groups, b.slice.tp);
  const std::int64_t hidden = b.model.hidden;
  const Output latent{"query_latent", a.query_rank};
  const Output key_value{"key_value", a.head_dim};
  TensorId query = replicated(b, {.name = "query_down", .in = hidden}, x, {&latent, 1})[0];
  query = norm(b, "query_down_norm", Norm::Rms, query, a.query_rank);
  const TensorId query_latent = query;
  const Output query_heads{"query", heads * a.head_dim};
  query = columns(b, {.name = "query_up", .in = a.query_rank}, query, {&query_heads, 1})[0];
  query = norm(b, "query_norm", Norm::RmsFixed, query, a.head_dim);
  TensorId kv = replicated(b, {.name = "key_value", .in = hidden}, x, {&key_value, 1})[0];
  kv = norm(b, "kv_norm", Norm::Rms, kv, a.head_dim);
  kv = gathered(b, "key_value_gathered", kv);
  const Rotated turned = rope(b, query, kv, a.head_dim);
  TensorId keys = turned.key;
  if (a.ratio > 0) {
    const std::int64_t pressed_rows = std::max<std::int64_t>(1, share(b.rows.inner, a.ratio));
    keys = gathered_whole(b, "pressed_gathered", pressed(b, a, a.head_dim, x),
                          checked_mul(pressed_rows, a.head_dim));
  }
  if (a.indexer) index(b, attention, *a.indexer, x, query_latent);
  const TensorId y = compressed_core(
      b, attention, a, {.query = turned.query, .key_value = turned.key, .pressed = keys}, heads);
  const Output latents{"output_latent", groups * a.output_rank};
  const TensorId down =
      product(b, {.name = "output_down", .in = a.heads * a.head_dim / a.output_groups}, y,
              b.rows.inner, 1, {&latents, 1})
          .outputs[0];
  return rows(b, {.name = "attention_output", .in = groups * a.output_rank}, down, "attention_out");
}

}  // namespace trainwright::detail
