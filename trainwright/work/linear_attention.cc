// Attention with a state instead of scores: Gated DeltaNet and lightning attention, as the chunked
// Triton kernels of flash-linear-attention run them. With cp, heads are exchanged for tokens, as
// Megatron-Core does for its state-space layers.
#include <array>

#include "trainwright/work/attention.h"

namespace trainwright::detail {
namespace {

// Tokens of a chunk of the delta rule, whose inverse triangular matrix is kept for backward
// (flash-linear-attention, ops/gated_delta_rule/chunk.py).
constexpr std::int64_t kChunk = 64;

// The whole cp is one exchange.
std::int64_t ways(const Builder& b) { return b.slice.cp; }

Flops state_flops(const Builder& b, const Attention& attention, std::int64_t heads,
                  std::int64_t all_heads) {
  const Flops token = attention_core_flops(attention, Tokens(b.slice.seq), AttentionPairs::Causal);
  return token * (real(b.rows.inner) * real(heads) / real(all_heads));
}

// silu(x), out of place: the input is kept.
TensorId silu(Builder& b, TensorId x, std::string_view name) {
  const TensorId y = b.like(x, name);
  Operator& op = b.add("silu", OperatorKind::Elementwise, {x}, {y});
  op.saves = {{x, Half::Input}};
  op.forward.other = op.input_gradient.other = Flops(4 * real(b.at(x).elements));
  return y;
}

// x * act(gate): both enter the product.
TensorId gated(Builder& b, TensorId normed, TensorId gate) {
  const TensorId y = b.like(normed, "attended_gated");
  Operator& op = b.add("output_gate", OperatorKind::Elementwise, {normed, gate}, {y});
  op.saves = {{normed, Half::Input}, {gate, Half::Input}};
  op.forward.other = op.input_gradient.other = Flops(5 * real(b.at(y).elements));
  return y;
}

// A short convolution over the tokens of each channel, with silu, in one kernel that keeps its
// input.
TensorId convolved(Builder& b, TensorId x, std::int64_t taps, std::string_view name) {
  const TensorId y = b.like(x, name);
  Operator& op = b.add("convolution", OperatorKind::Matmul, {x}, {y});
  op.saves = {{x, b.recipe.code.delays_vectors ? Half::Both : Half::Input}};
  op.trained = b.trains();
  op.has_weight = b.recipe.code.delays_vectors;
  op.forward.matmul = Flops(2 * real(taps) * real(b.at(x).elements));
  op.input_gradient.matmul = op.weight_gradient.matmul = op.forward.matmul;
  return y;
}

struct DeltaInputs {
  TensorId query, key, value;
  TensorId beta_decay;  // two numbers per token and value head
};

TensorId delta_core(Builder& b, const Attention& attention, const GatedDeltaNet& a,
                    const DeltaInputs& x, std::int64_t heads) {
  const InModule module(b, RecomputeModule::CoreAttention);
  const std::int64_t rows = b.at(x.beta_decay).elements / 2;
  const TensorId log_decay = b.constant("decay_sum", Dtype::Fp32, rows);
  const TensorId inverse = b.constant("chunk_inverse", b.recipe.compute, rows * kChunk);
  const TensorId y = b.like(x.value, "attended");
  Operator& op = b.add("delta_rule", OperatorKind::AttentionCore,
                       {x.query, x.key, x.value, x.beta_decay}, {y, log_decay, inverse});
  for (const TensorId saved : {x.query, x.key, x.value, x.beta_decay, log_decay, inverse}) {
    op.saves.push_back({saved, Half::Input});
  }
  op.forward.matmul = state_flops(b, attention, heads, a.value_heads);
  op.input_gradient.matmul = op.forward.matmul * 2;
  return y;
}

}  // namespace

TensorId gated_delta_net(Builder& b, const Attention& attention, TensorId x) {
  const auto& a = std::get<GatedDeltaNet>(attention);
  const std::int64_t value_heads = share(a.value_heads, b.slice.tp);
  const std::int64_t keys = share(a.key_heads, b.slice.tp) * a.key_dim;
  const std::int64_t values = value_heads * a.value_dim;
  const std::array<Output, 5> outputs = {
      Output{"query", keys}, Output{"key", keys}, Output{"value", values},
      Output{"attention_gate", values},
      Output{.name = "beta_decay",
             .width = 2 * value_heads,
             .matrices = {LayerMatrix::Beta, LayerMatrix::Decay}}};
  const auto made = columns(b, {.name = "query_key_value", .in = b.model.hidden}, x, outputs);
  const auto spread = [&](TensorId of, std::string_view name) {
    return exchanged(b, of, name, b.at(of).elements, ways(b));
  };
  const DeltaInputs inputs{
      .query = convolved(b, spread(made[0], "query_exchanged"), a.convolution, "query_convolved"),
      .key = convolved(b, spread(made[1], "key_exchanged"), a.convolution, "key_convolved"),
      .value = convolved(b, spread(made[2], "value_exchanged"), a.convolution, "value_convolved"),
      .beta_decay = spread(made[4], "beta_decay_exchanged")};
  const TensorId attended = delta_core(b, attention, a, inputs, value_heads);
  const TensorId back = spread(attended, "attended_exchanged");
  const TensorId y = gated(b, norm(b, "output_norm", Norm::Rms, back, a.value_dim), made[3]);
  return rows(b, {.name = "attention_output", .in = values}, y, "attention_out");
}

TensorId lightning_attention(Builder& b, const Attention& attention, TensorId x) {
  const auto& a = std::get<LightningAttention>(attention);
  const std::int64_t heads = share(a.heads, b.slice.tp);
  const std::int64_t width = heads * a.head_dim;
  const std::array<Output, 4> outputs = {Output{"query", width}, Output{"key", width},
                                         Output{"value", width}, Output{"attention_gate", width}};
  const auto made = columns(b, {.name = "query_key_value", .in = b.model.hidden}, x, outputs);
  const auto ready = [&](TensorId of, std::string_view activated, std::string_view name) {
    const TensorId y = silu(b, of, activated);
    return exchanged(b, y, name, b.at(y).elements, ways(b));
  };
  const TensorId query = ready(made[0], "query_activated", "query_exchanged");
  const TensorId key = ready(made[1], "key_activated", "key_exchanged");
  const TensorId value = ready(made[2], "value_activated", "value_exchanged");
  const TensorId attended = b.like(query, "attended");
  {
    const InModule module(b, RecomputeModule::CoreAttention);
    Operator& op =
        b.add("lightning_core", OperatorKind::AttentionCore, {query, key, value}, {attended});
    op.saves = {{query, Half::Input}, {key, Half::Input}, {value, Half::Input}};
    op.forward.matmul = state_flops(b, attention, heads, a.heads);
    op.input_gradient.matmul = op.forward.matmul * 2;
  }
  const TensorId back =
      exchanged(b, attended, "attended_exchanged", b.at(attended).elements, ways(b));
  const TensorId y =
      gated(b, norm_of_split_rows(b, "output_norm", Norm::Rms, back, width), made[3]);
  return rows(b, {.name = "attention_output", .in = width}, y, "attention_out");
}

}  // namespace trainwright::detail
