// Softmax and latent attention.
#include "trainwright/work/attention.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

// out * sigmoid(gate): both are needed backward.
TensorId gated(Builder& b, TensorId x, TensorId gate) {
  const TensorId y = b.like(x, "attended_gated");
  Operator& op = b.add("output_gate", OperatorKind::Elementwise, {x, gate}, {y});
  op.saves = {{x, Half::Input}, {gate, Half::Input}};
  op.forward.other = op.input_gradient.other = Flops(5 * real(b.at(x).elements));
  return y;
}

// Where query, key and value are views of what one product made, whoever saves the value keeps all
// of it.
void keep_together(Builder& b, TensorId value, std::initializer_list<TensorId> others) {
  if (!b.recipe.code.slices_are_views || !b.recipe.code.joined_projections) return;
  for (Operator& op : b.list.operators) {
    const bool saves = std::any_of(op.saves.begin(), op.saves.end(),
                                   [&](const Save& save) { return save.tensor == value; });
    if (!saves) continue;
    for (const TensorId other : others) op.saves.push_back({other, Half::Input});
    return;
  }
}

// [sequences, tokens, heads] to [sequences x heads, tokens] and back, each a copy; of one sequence
// both are views.
TensorId reordered(Builder& b, TensorId x) {
  if (!b.recipe.code.reorders_heads || b.slice.attention != AttentionKernel::Flash ||
      b.slice.mbs == 1) {
    return x;
  }
  const TensorId y = b.like(x, "attended_reordered");
  Operator& op = b.add("reorder_heads", OperatorKind::Elementwise, {x}, {y});
  op.workspace = op.backward_workspace = b.at(x).bytes();
  return y;
}

struct Heads {
  TensorId query, key, value;
};

// Out of their product head by head, keys and values then side by side; turned in place. `first`:
// the first copies of keys and values.
struct CopiedHeads {
  Heads heads;
  TensorId first_key, first_value;
};
CopiedHeads copied_heads(Builder& b, const Heads& x, bool rotary) {
  const TensorId query = b.like(x.query, "query_heads");
  const TensorId key = b.like(x.key, "key_heads");
  const TensorId value = b.like(x.value, "value_heads");
  b.add("copy_heads", OperatorKind::Elementwise, {x.query, x.key, x.value}, {query, key, value});
  const Heads made{query, b.like(key, "key_joined"), b.like(value, "value_joined")};
  Operator& join =
      b.add("join_keys_values", OperatorKind::Elementwise, {key, value}, {made.key, made.value});
  join.workspace = b.at(key).bytes() + b.at(value).bytes();
  if (rotary) {
    Operator& turn =
        b.add("rotate", OperatorKind::Elementwise, {made.query, made.key}, {made.query, made.key});
    turn.gradients_passed = 2;
    turn.forward.other = turn.input_gradient.other =
        Flops(3 * real(b.at(made.query).elements + b.at(made.key).elements));
  }
  return {made, key, value};
}

// Views of the tensor that the core's queries are in stay with them.
void keep_beside_queries(Builder& b, const CopiedHeads& copied) {
  for (Operator& op : b.list.operators) {
    const bool core = std::any_of(op.saves.begin(), op.saves.end(), [&](const Save& save) {
      return save.tensor == copied.heads.query;
    });
    if (!core) continue;
    op.saves.push_back({copied.first_key, Half::Input});
    op.saves.push_back({copied.first_value, Half::Input});
  }
}

// Once for every query head. A compiler keeps the tensor that it repeats.
TensorId repeated(Builder& b, TensorId x, std::int64_t times) {
  if (!b.recipe.code.repeats_heads || b.slice.compiled || times == 1) return x;
  const Tensor of = b.at(x);
  const TensorId y =
      b.tensor("heads_repeated", of.dtype, checked_mul(of.elements, times), of.copies);
  b.add("repeat_heads", OperatorKind::Elementwise, {x}, {y});
  return y;
}

// One number for each head scales what it attended to.
TensorId gated_by_head(Builder& b, TensorId attended, TensorId x, std::int64_t heads) {
  const Output out{"head_gate", heads};
  const TensorId gate = columns(b, {.name = "head_gate", .in = b.model.hidden}, x, {&out, 1})[0];
  return gated(b, attended, gate);
}

// Keys and values that an earlier layer has made: nothing is made of x but the queries.
TensorId borrowed(Builder& b, TensorId x, std::string_view name, std::int64_t width,
                  std::int64_t copies) {
  const TensorId taken = b.tensor(name, b.recipe.compute, checked_mul(b.rows.inner, width), copies);
  b.add("take_shared", OperatorKind::Elementwise, {x}, {taken});
  return taken;
}

struct Projected {
  TensorId query, key, value, gate;
};
Projected projected(Builder& b, const SoftmaxAttention& a, TensorId x) {
  const std::int64_t heads = share(a.heads, b.slice.tp);
  const std::int64_t kv_heads = share(a.kv_heads, b.slice.tp);
  const std::int64_t copies = copies_of(a.kv_heads, b.slice.tp);
  std::vector<Output> outputs = {{"query", heads * a.head_dim}};
  if (!a.shared_kv) {
    outputs.push_back({"key", kv_heads * a.head_dim, copies});
    if (!a.value_is_key) outputs.push_back({"value", kv_heads * a.value_width(), copies});
  }
  if (a.output_gate) outputs.push_back({"attention_gate", heads * a.head_dim});
  const auto made =
      columns(b, {.name = "query_key_value", .in = b.model.hidden, .bias = a.qkv_bias}, x, outputs);
  Projected of{made[0], made[0], made[0], made[made.size() - 1]};
  if (a.shared_kv) {
    of.key = borrowed(b, x, "key_shared", kv_heads * a.head_dim, copies);
    of.value = borrowed(b, x, "value_shared", kv_heads * a.value_width(), copies);
  } else {
    of.key = made[1];
    of.value = a.value_is_key ? made[1] : made[2];
  }
  return of;
}

TensorId softmax_attention(Builder& b, const Attention& whole, const SoftmaxAttention& a,
                           TensorId x) {
  const std::int64_t heads = share(a.heads, b.slice.tp);
  const std::int64_t kv_heads = share(a.kv_heads, b.slice.tp);
  const Projected made = projected(b, a, x);
  Rotated turned{made.query, made.key};
  if (a.qk_norm != Norm::None) {
    const auto normed = [&](std::string_view name, TensorId of, std::int64_t all) {
      return a.qk_norm_per_head ? norm(b, name, a.qk_norm, of, a.head_dim)
                                : norm_of_split_rows(b, name, a.qk_norm, of, all);
    };
    turned.query = normed("query_norm", turned.query, heads * a.head_dim);
    if (!a.shared_kv) turned.key = normed("key_norm", turned.key, kv_heads * a.head_dim);
  }
  if (a.indexer) index(b, whole, *a.indexer, x, x);
  TensorId values = made.value;
  if (a.value_norm != Norm::None && !a.shared_kv) {
    values = norm(b, "value_norm", a.value_norm, values, a.value_width());
  }
  std::optional<CopiedHeads> copied;
  if (b.recipe.code.copies_heads) {
    copied = copied_heads(b, {turned.query, turned.key, values}, a.rotary);
    turned = {copied->heads.query, copied->heads.key};
    values = copied->heads.value;
  } else if (a.rotary) {
    turned = rope(b, turned.query, turned.key, a.head_dim);
  }
  const std::int64_t times = std::max<std::int64_t>(1, heads / kv_heads);
  turned.key = repeated(b, turned.key, times);
  values = repeated(b, values, times);
  const bool repeats = b.recipe.code.repeats_heads && !b.slice.compiled;
  TensorId y = spread_core(b, whole,
                           {.query = turned.query,
                            .key = turned.key,
                            .value = values,
                            .heads = heads,
                            .kv_heads = repeats ? kv_heads * times : kv_heads,
                            .all_heads = a.heads,
                            .key_dim = a.head_dim,
                            .value_dim = a.value_width()});
  // Several sequences are copied for the products of unfused attention, and the views go.
  if (b.slice.mbs == 1 || b.slice.attention == AttentionKernel::Flash) {
    keep_together(b, made.value, {made.query, made.key});
  }
  y = reordered(b, y);
  if (copied && a.heads == a.kv_heads) keep_beside_queries(b, *copied);
  if (a.output_gate) y = gated(b, y, made.gate);
  if (a.head_gate) y = gated_by_head(b, y, x, heads);
  return rows(b, {.name = "attention_output", .in = heads * a.value_width(), .bias = a.output_bias},
              y, "attention_out");
}

// Down projections are whole on every rank of tp and work on the outer rows; the up projections are
// split by heads (Megatron-Core's MLASelfAttention).
TensorId latent_attention(Builder& b, const Attention& whole, const LatentAttention& a,
                          TensorId x) {
  const std::int64_t heads = share(a.heads, b.slice.tp);
  const std::int64_t hidden = b.model.hidden;
  const std::array<Output, 2> latents = {Output{"kv_latent", a.kv_rank},
                                         Output{"key_rope", a.rope_dim}};
  TensorId query = x;
  std::int64_t query_in = hidden;
  if (a.query_rank > 0) {
    const Output latent{"query_latent", a.query_rank};
    query = replicated(b, {.name = "query_down", .in = hidden, .bias = a.down_bias}, x,
                       {&latent, 1})[0];
    query_in = a.query_rank;
  }
  const auto down =
      replicated(b, {.name = "kv_down", .in = hidden, .bias = a.down_bias}, x, latents);
  const TensorId key_rope = gathered(b, "key_rope_gathered", down[1]);
  const InModule module(b, RecomputeModule::MlaUpProjection);
  if (a.query_rank > 0) query = norm(b, "query_down_norm", a.latent_norm, query, a.query_rank);
  const TensorId query_latent = query;
  const Output query_heads{"query", heads * (a.nope_dim + a.rope_dim)};
  query = columns(b, {.name = a.query_rank > 0 ? "query_up" : "query", .in = query_in}, query,
                  {&query_heads, 1})[0];
  if (a.indexer) index(b, whole, *a.indexer, x, query_latent);
  const TensorId latent = norm(b, "kv_down_norm", a.latent_norm, down[0], a.kv_rank);
  // One matrix whatever the recipe joins: keys and values come from one latent.
  const Output kv{"key_value", heads * (a.nope_dim + a.value_dim)};
  const TensorId key_value = columns(b, {.name = "kv_up", .in = a.kv_rank}, latent, {&kv, 1})[0];
  const TensorId value = b.tensor("value", b.recipe.compute, b.rows.inner * heads * a.value_dim);
  const Rotated turned = latent_rope(b, {.query = query,
                                         .key_value = key_value,
                                         .key_rope = key_rope,
                                         .value = value,
                                         .heads = heads,
                                         .nope_dim = a.nope_dim,
                                         .rope_dim = a.rope_dim});
  b.modules = {};
  return latent_output(b, whole, a, x, turned, value);
}

// What passing keys and values around costs, on the operators of the core.
void add_cp_calls(Builder& b, Operator& op, std::int64_t ways, Bytes key, Bytes value) {
  if (ways <= 1) return;
  const auto call = [&](CollectiveKind kind, Pass pass, Bytes bytes) {
    const bool ring = kind == CollectiveKind::Ring;
    op.collectives.push_back(
        {kind, GroupKind::Cp, pass, ring ? Beside::RingSteps : Beside::Nothing, bytes});
  };
  if (b.slice.cp_kind != CpKind::AllGather) {
    // Every step sends its keys and values on while it computes with the last ones; backward their
    // gradients travel too.
    call(CollectiveKind::Ring, Pass::Forward, (key + value) * (ways - 1));
    call(CollectiveKind::Ring, Pass::InputGradient, (key + value) * (2 * (ways - 1)));
    op.workspace += (key + value) * 2;
    op.backward_workspace += (key + value) * 4;
    return;
  }
  for (const Bytes part : {key, value}) {
    call(CollectiveKind::AllGather, Pass::Forward, part * ways);
    call(CollectiveKind::AllGather, Pass::InputGradient, part * ways);
    call(CollectiveKind::ReduceScatter, Pass::InputGradient, part * ways);
  }
  op.workspace += (key + value) * ways;
  op.backward_workspace += (key + value) * (2 * ways);
}

}  // namespace

CpSplit cp_split(const Slice& slice) {
  switch (slice.cp_kind) {
    case CpKind::Ring:
    case CpKind::AllGather: return {1, slice.cp};
    case CpKind::Ulysses: return {slice.cp, 1};
    case CpKind::UlyssesRing: {
      const std::int64_t inside = std::clamp(slice.cp_ulysses, std::int64_t{1}, slice.cp);
      return {inside, share(slice.cp, inside)};
    }
  }
  return {};
}

TensorId exchanged(Builder& b, TensorId x, std::string_view name, std::int64_t elements,
                   std::int64_t ways) {
  if (ways <= 1) return x;
  const Bytes before = b.at(x).bytes();
  const TensorId y = b.tensor(name, b.at(x).dtype, elements, b.at(x).copies);
  const Bytes most = std::max(before, b.at(y).bytes());
  Operator& op = b.add("exchange_heads", OperatorKind::Transfer, {x}, {y});
  for (const Pass pass : {Pass::Forward, Pass::InputGradient}) {
    op.collectives.push_back(
        {CollectiveKind::AllToAll, GroupKind::Cp, pass, Beside::Nothing, most});
  }
  return y;
}

TensorId spread_core(Builder& b, const Attention& attention, const CoreHeads& x) {
  const CpSplit cp = cp_split(b.slice);
  const std::int64_t heads = share(x.heads, cp.ulysses);
  const std::int64_t kv_heads = share(x.kv_heads, cp.ulysses);
  const std::int64_t tokens = b.rows.sequence * cp.ulysses;
  const std::int64_t rows = b.slice.mbs * tokens;
  Core core{
      .attention = attention,
      .query = exchanged(b, x.query, "query_exchanged", rows * heads * x.key_dim, cp.ulysses),
      .key = exchanged(b, x.key, "key_exchanged", rows * kv_heads * x.key_dim, cp.ulysses),
      .value = exchanged(b, x.value, "value_exchanged", rows * kv_heads * x.value_dim, cp.ulysses),
      .heads = heads,
      .kv_heads = kv_heads,
      .key_dim = x.key_dim,
      .value_dim = x.value_dim,
      .query_tokens = tokens,
      .key_tokens = b.slice.seq,
      .share = real(heads) / real(x.all_heads) * real(tokens) / real(b.slice.seq)};
  const std::size_t first = b.list.operators.size();
  const TensorId y = attention_core(b, core);
  add_cp_calls(b, b.list.operators[first], cp.others, b.at(core.key).bytes(),
               b.at(core.value).bytes());
  return exchanged(b, y, "attended_exchanged", b.rows.inner * x.heads * x.value_dim, cp.ulysses);
}

TensorId latent_output(Builder& b, const Attention& whole, const LatentAttention& a, TensorId x,
                       Rotated turned, TensorId value) {
  const std::int64_t heads = share(a.heads, b.slice.tp);
  TensorId y = spread_core(b, whole,
                           {.query = turned.query,
                            .key = turned.key,
                            .value = value,
                            .heads = heads,
                            .kv_heads = heads,
                            .all_heads = a.heads,
                            .key_dim = a.nope_dim + a.rope_dim,
                            .value_dim = a.value_dim});
  if (a.head_gate) y = gated_by_head(b, y, x, heads);
  return rows(b, {.name = "attention_output", .in = heads * a.value_dim, .bias = a.output_bias}, y,
              "attention_out");
}

TensorId attention(Builder& b, const Attention& attention, TensorId x) {
  b.part = Part::SelfAttention;
  // As the modules of transformers are written.
  const bool plain = !b.recipe.code.permutes_tokens;
  if (const auto* a = std::get_if<SoftmaxAttention>(&attention)) {
    const bool joined = plain && b.model.style.joined_attention;
    return joined ? eager_joined_attention(b, attention, *a, x)
                  : softmax_attention(b, attention, *a, x);
  }
  if (const auto* a = std::get_if<LatentAttention>(&attention)) {
    return plain ? eager_latent_attention(b, attention, *a, x)
                 : latent_attention(b, attention, *a, x);
  }
  if (std::holds_alternative<CompressedAttention>(attention)) {
    return plain && b.slice.attention == AttentionKernel::Eager
               ? eager_compressed_attention(b, attention, x)
               : compressed_attention(b, attention, x);
  }
  if (std::holds_alternative<GatedDeltaNet>(attention)) return gated_delta_net(b, attention, x);
  if (const auto* a = std::get_if<Mamba1>(&attention)) return mamba1(b, *a, x);
  if (const auto* a = std::get_if<ShortConvolution>(&attention)) return short_convolution(b, *a, x);
  if (const auto* a = std::get_if<Mamba2>(&attention)) return mamba2(b, *a, x);
  return lightning_attention(b, attention, x);
}

}  // namespace trainwright::detail
