// Attention of DeepSeek-V4 operator by operator, as transformers 5.23.0 runs it without a fused
// kernel (modeling_deepseek_v4.py).
#include <algorithm>
#include <optional>

#include "trainwright/work/attention.h"
#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

constexpr std::int64_t kRotated = 8;  // one in so many channels of a head, 64 of 512

TensorId copied(Builder& b, std::string_view name, TensorId x) {
  const TensorId y = b.like(x, name);
  each(b, "copy", {x}, y, 0);
  return y;
}

// The last channels of each head are turned. Cosine and sine of so many positions are copied for
// every pair and stay.
TensorId turned(Builder& b, TensorId x, std::int64_t width, std::int64_t positions) {
  const std::int64_t table = checked_mul(positions, std::max<std::int64_t>(1, width / kRotated));
  const TensorId cosine = b.constant("cosine", b.recipe.compute, table, b.slice.tp);
  const TensorId sine = b.constant("sine", b.recipe.compute, table, b.slice.tp);
  each(b, "copy", {}, cosine, 0);
  each(b, "copy", {}, sine, 0);
  const TensorId y = b.like(x, "rotated");
  each(b, "rotate", {x}, y, 3).saves = {{cosine, Half::Input}, {sine, Half::Input}};
  return y;
}

// x over the root of its mean square, the mean in fp32 and the root rounded.
TensorId head_norm(Builder& b, TensorId x, std::int64_t width) {
  const TensorId wide = cast(b, "norm_input", x, Dtype::Fp32);
  const TensorId squares = b.like(wide, "squares");
  each(b, "square", {wide}, squares).saves = {{wide, Half::Input}};
  const TensorId root =
      b.tensor("inverse_rms", Dtype::Fp32, b.at(x).elements / width, b.at(x).copies);
  each(b, "inverse_root", {squares}, root, real(width)).saves = {{root, Half::Input}};
  const TensorId narrow = cast(b, "inverse_cast", root, b.at(x).dtype);
  const TensorId y = b.like(x, "normed");
  each(b, "normalize", {x, narrow}, y).saves = {{x, Half::Input}, {narrow, Half::Input}};
  return y;
}

// Whole groups of tokens, each a key and value; nothing where a sequence has none. Of two that
// overlap both are laid side by side first.
std::optional<TensorId> pressed(Builder& b, const CompressedAttention& a, TensorId x) {
  const std::int64_t groups = checked_mul(b.slice.mbs, b.rows.sequence / a.ratio);
  const std::int64_t wide = checked_mul(a.overlap, a.head_dim);
  const Output values_of{"pressed_kv", wide}, gates_of{"pressed_weight", wide};
  const std::int64_t hidden = b.model.hidden;
  TensorId values = replicated(b, {.name = "pressed_kv", .in = hidden}, x, {&values_of, 1})[0];
  const TensorId gates =
      replicated(b, {.name = "pressed_weight", .in = hidden}, x, {&gates_of, 1})[0];
  if (groups == 0) return std::nullopt;
  const std::int64_t elements = checked_mul(checked_mul(groups, a.ratio), wide);
  const auto made = [&](std::string_view name, Dtype dtype) {
    return b.tensor(name, dtype, elements, b.at(values).copies);
  };
  const Dtype dtype = b.at(values).dtype;
  const TensorId placed = made("gates_placed", dtype);
  each(b, "add_place", {gates}, placed).trained = b.trains();
  if (a.overlap > 1) {
    const TensorId side_by_side = made("values_overlapping", dtype);
    each(b, "copy", {values}, side_by_side, 0);
    values = side_by_side;
  }
  const TensorId shares = made("pressed_shares", Dtype::Fp32);
  each(b, "softmax", {placed}, shares, 4).saves = {{shares, Half::Input}};
  const TensorId narrow = cast(b, "pressed_shares_cast", shares, dtype);
  const TensorId weighed = made("values_weighed", dtype);
  each(b, "weigh", {values, narrow}, weighed).saves = {{values, Half::Input},
                                                       {narrow, Half::Input}};
  const TensorId sum =
      b.tensor("pressed", dtype, checked_mul(groups, a.head_dim), b.at(values).copies);
  each(b, "sum", {weighed}, sum, real(a.ratio));
  return turned(b, norm(b, "pressed_norm", Norm::Rms, sum, a.head_dim), a.head_dim, groups);
}

struct PlainCore {
  TensorId query, key_value;
  std::int64_t heads = 0, keys = 0;
};

// One head of keys that are values, repeated for each head of queries; a softmax of all scores and
// a learned one, less the largest.
TensorId plain_core(Builder& b, const Attention& attention, const CompressedAttention& a,
                    const PlainCore& x) {
  const InModule module(b, RecomputeModule::CoreAttention);
  const Dtype dtype = b.at(x.query).dtype;
  const std::int64_t sequences = checked_mul(b.slice.mbs, x.heads);
  const std::int64_t rows = checked_mul(sequences, b.rows.sequence);
  const auto tensor = [&](std::string_view name, std::int64_t elements) {
    return b.tensor(name, dtype, elements);
  };
  const std::int64_t matrix = checked_mul(checked_mul(sequences, x.keys), a.head_dim);
  TensorId key = x.key_value, value = x.key_value;
  if (b.slice.mbs > 1) {  // of one sequence it is a view
    key = tensor("key_matrices", matrix);
    value = tensor("value_matrices", matrix);
    each(b, "copy", {x.key_value}, key, 0);
    each(b, "copy", {x.key_value}, value, 0);
  }
  const Tokens sequence(b.slice.seq);
  const Flops token = attention_core_flops(attention, sequence, AttentionPairs::Full) -
                      index_flops(attention, sequence, AttentionPairs::Full);
  const Flops half = token * (real(b.rows.inner) * real(x.heads) / real(a.heads) / 2);
  const auto multiplied = [&](std::string_view name, TensorId left, TensorId right,
                              TensorId result) {
    Operator& op = b.add(name, OperatorKind::AttentionCore, {left, right}, {result});
    op.forward.matmul = half;
    op.input_gradient.matmul = half * 2;
    op.saves = {{left, Half::Input, of_input(1)}, {right, Half::Input, of_input(0)}};
    op.gradients_apart = true;
  };
  const TensorId scores = tensor("scores", checked_mul(rows, x.keys));
  multiplied("scores", x.query, key, scores);
  const TensorId joined = tensor("scores_and_sinks", checked_mul(rows, x.keys + 1));
  each(b, "join_sinks", {scores}, joined, 2).trained = b.trains();
  const TensorId places = b.constant("largest_places", Dtype::Int64, rows);
  const TensorId less = b.like(joined, "scores_less_largest");
  Operator& subtract = each(b, "subtract_largest", {joined}, less, 2);
  subtract.outputs.push_back(places);
  subtract.saves.push_back({places, Half::Input});
  const TensorId shares = b.like(less, "probabilities");
  each(b, "softmax", {less}, shares, 4).saves = {{shares, Half::Input}};
  const TensorId attended = tensor("attended_heads", checked_mul(rows, a.head_dim));
  multiplied("weighted_values", shares, value, attended);
  return copied(b, "attended", attended);
}

}  // namespace

TensorId eager_compressed_attention(Builder& b, const Attention& attention, TensorId x) {
  const auto& a = std::get<CompressedAttention>(attention);
  const std::int64_t heads = share(a.heads, b.slice.tp);
  const std::int64_t groups = share(a.output_groups, b.slice.tp);
  const std::int64_t hidden = b.model.hidden;
  const std::int64_t tokens = checked_mul(b.slice.mbs, b.rows.sequence);
  const Output latent{"query_latent", a.query_rank}, shared{"key_value", a.head_dim};
  TensorId query = replicated(b, {.name = "query_down", .in = hidden}, x, {&latent, 1})[0];
  const TensorId query_latent = norm(b, "query_down_norm", Norm::Rms, query, a.query_rank);
  const Output query_heads{"query", heads * a.head_dim};
  query = columns(b, {.name = "query_up", .in = a.query_rank}, query_latent, {&query_heads, 1})[0];
  query = turned(b, head_norm(b, query, a.head_dim), a.head_dim, b.rows.sequence);
  TensorId kv = replicated(b, {.name = "key_value", .in = hidden}, x, {&shared, 1})[0];
  kv = turned(b, norm(b, "kv_norm", Norm::Rms, kv, a.head_dim), a.head_dim, b.rows.sequence);
  std::int64_t keys = b.rows.sequence;
  if (a.ratio > 0) {
    const std::optional<TensorId> more = pressed(b, a, x);
    if (a.indexer) index(b, attention, *a.indexer, x, query_latent);
    if (more) {
      keys += b.rows.sequence / a.ratio;
      const std::int64_t elements = checked_mul(checked_mul(b.slice.mbs, keys), a.head_dim);
      const TensorId joined = b.tensor("key_value_joined", b.at(kv).dtype, elements, b.slice.tp);
      each(b, "join", {kv, *more}, joined, 0);
      kv = joined;
    }
  }
  TensorId y =
      plain_core(b, attention, a, {.query = query, .key_value = kv, .heads = heads, .keys = keys});
  y = copied(b, "attended_turned", turned(b, y, a.head_dim, b.rows.sequence));
  const Output latents{"output_latent", groups * a.output_rank};
  const TensorId down =
      product(b, {.name = "output_down", .in = a.heads * a.head_dim / a.output_groups}, y, tokens,
              1, {&latents, 1})
          .outputs[0];
  return rows(b, {.name = "attention_output", .in = groups * a.output_rank},
              copied(b, "output_latent", down), "attention_out");
}

}  // namespace trainwright::detail
