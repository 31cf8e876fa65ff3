// Attention branches whose storages are not those of one tensor per projection: query, key and
// value as views of one product's result, and latent attention as transformers writes it.
#include <array>

#include "trainwright/work/attention.h"
#include "trainwright/work/eager.h"

namespace trainwright::detail {

TensorId eager_joined_attention(Builder& b, const Attention& whole, const SoftmaxAttention& a,
                                TensorId x) {
  const std::int64_t heads = share(a.heads, b.slice.tp);
  const std::int64_t kv_heads = share(a.kv_heads, b.slice.tp);
  const Output joined{.name = "query_key_value",
                      .width = (heads + 2 * kv_heads) * a.head_dim,
                      .matrices = matrices_named("query_key_value")};
  const TensorId made = columns(
      b, {.name = "query_key_value", .in = b.model.hidden, .bias = a.qkv_bias}, x, {&joined, 1})[0];
  Rotated turned{made, made};
  if (a.rotary) {
    const View query{made, checked_mul(b.rows.inner, heads * a.head_dim)};
    const View key{made, checked_mul(b.rows.inner, kv_heads * a.head_dim)};
    turned = b.recipe.rope ? fused_rotation(b, query, key) : eager_rotation(b, query, key);
  }
  const TensorId y = spread_core(b, whole,
                                 {.query = turned.query,
                                  .key = turned.key,
                                  .value = made,
                                  .heads = heads,
                                  .kv_heads = kv_heads,
                                  .all_heads = a.heads,
                                  .key_dim = a.head_dim,
                                  .value_dim = a.head_dim});
  return rows(b, {.name = "attention_output", .in = heads * a.head_dim, .bias = a.output_bias}, y,
              "attention_out");
}

namespace {

// The norm of the key-value latent reads a part of the storage that also holds the rotary key.
TensorId eager_kv_latent(Builder& b, const LatentAttention& a, TensorId down) {
  if (a.latent_norm == Norm::None) return down;
  const std::int64_t rows = b.at(down).elements / (a.kv_rank + a.rope_dim);
  if (a.latent_norm != Norm::Rms) {  // native_layer_norm copies the part it reads
    const TensorId part = b.tensor("kv_latent_part", b.at(down).dtype, checked_mul(rows, a.kv_rank),
                                   b.at(down).copies);
    each(b, "copy", {down}, part, 0);
    return norm(b, "kv_down_norm", a.latent_norm, part, a.kv_rank);
  }
  TensorId x = down;
  if (b.at(down).dtype != Dtype::Fp32) {
    x = b.tensor("norm_input", Dtype::Fp32, checked_mul(rows, a.kv_rank), b.at(down).copies);
    each(b, "cast", {down}, x, 0);
  }
  return eager_rms_norm_of(b, "kv_down_norm", {x, checked_mul(rows, a.kv_rank)}, a.kv_rank,
                           b.at(down).dtype);
}

}  // namespace

TensorId eager_latent_attention(Builder& b, const Attention& whole, const LatentAttention& a,
                                TensorId x) {
  const std::int64_t heads = share(a.heads, b.slice.tp);
  const std::int64_t hidden = b.model.hidden;
  TensorId query = x;
  if (a.query_rank > 0) {
    const Output latent{"query_latent", a.query_rank};
    query = replicated(b, {.name = "query_down", .in = hidden, .bias = a.down_bias}, x,
                       {&latent, 1})[0];
    query = norm(b, "query_down_norm", a.latent_norm, query, a.query_rank);
  }
  if (a.indexer) index(b, whole, *a.indexer, x, query);
  const Output query_heads{"query", heads * (a.nope_dim + a.rope_dim)};
  query = columns(b,
                  {.name = a.query_rank > 0 ? "query_up" : "query",
                   .in = a.query_rank > 0 ? a.query_rank : hidden},
                  query, {&query_heads, 1})[0];
  const Output kv{"kv_latent", a.kv_rank + a.rope_dim};
  const TensorId down =
      replicated(b, {.name = "kv_down", .in = hidden, .bias = a.down_bias}, x, {&kv, 1})[0];
  const Output key_value{"key_value", heads * (a.nope_dim + a.value_dim)};
  const TensorId up = columns(b, {.name = "kv_up", .in = a.kv_rank}, eager_kv_latent(b, a, down),
                              {&key_value, 1})[0];
  const Rotated turned = eager_latent_rope(b, {.query = query,
                                               .key_value = up,
                                               .key_rope = down,
                                               .value = up,
                                               .heads = heads,
                                               .nope_dim = a.nope_dim,
                                               .rope_dim = a.rope_dim});
  return latent_output(b, whole, a, x, turned, up);
}

}  // namespace trainwright::detail
