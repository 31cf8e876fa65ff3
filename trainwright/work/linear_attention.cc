// Attention with a state instead of scores: Gated DeltaNet and lightning attention, as the chunked
// Triton kernels of flash-linear-attention run them. With cp, heads are exchanged for tokens, as
// Megatron-Core does for its state-space layers.
#include <array>
#include <vector>

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

}  // namespace

// With silu where there is one, in one kernel that keeps its input.
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

namespace {

struct DeltaInputs {
  TensorId query, key, value;
  TensorId beta;   // numbers per token and value head: two, the decay among them, or
  TensorId decay;  // one, and a rate for each channel of a key
};

TensorId delta_core(Builder& b, const Attention& attention, const GatedDeltaNet& a,
                    const DeltaInputs& x, std::int64_t heads) {
  const InModule module(b, RecomputeModule::CoreAttention);
  const std::int64_t rows = b.at(x.beta).elements / (a.channel_decay ? 1 : 2);
  const std::int64_t rates = a.channel_decay ? b.at(x.decay).elements : rows;
  const TensorId log_decay = b.constant("decay_sum", Dtype::Fp32, rates);
  const TensorId inverse = b.constant("chunk_inverse", b.recipe.compute, rows * kChunk);
  const TensorId y = b.like(x.value, "attended");
  Few<TensorId, 8> inputs = {x.query, x.key, x.value, x.beta};
  if (a.channel_decay) inputs.push_back(x.decay);
  Operator& op = b.add("delta_rule", OperatorKind::AttentionCore, {}, {y, log_decay, inverse});
  op.inputs = inputs;
  for (const TensorId saved : inputs) op.saves.push_back({saved, Half::Input});
  for (const TensorId saved : {log_decay, inverse}) op.saves.push_back({saved, Half::Input});
  op.forward.matmul = state_flops(b, attention, heads, a.value_heads);
  op.input_gradient.matmul = op.forward.matmul * 2;
  return y;
}

}  // namespace

namespace {

// By way of a latent, or straight.
TensorId by_way_of(Builder& b, std::string_view down, const Output& out, std::int64_t rank,
                   TensorId x, bool bias) {
  if (rank == 0) return columns(b, {.name = out.name, .in = b.model.hidden}, x, {&out, 1})[0];
  const Output narrow{"latent", rank};
  const TensorId latent = replicated(b, {.name = down, .in = b.model.hidden}, x, {&narrow, 1})[0];
  return columns(b, {.name = out.name, .in = rank, .bias = bias}, latent, {&out, 1})[0];
}

}  // namespace

TensorId gated_delta_net(Builder& b, const Attention& attention, TensorId x) {
  const auto& a = std::get<GatedDeltaNet>(attention);
  const std::int64_t value_heads = share(a.value_heads, b.slice.tp);
  const std::int64_t keys = share(a.key_heads, b.slice.tp) * a.key_dim;
  const std::int64_t values = value_heads * a.value_dim;
  const Output gate{"attention_gate", values};
  const Output rates{"decay", value_heads * a.key_dim};
  const Output joint{.name = "beta_decay",
                     .width = 2 * value_heads,
                     .matrices = {LayerMatrix::Beta, LayerMatrix::Decay}};
  std::vector<Output> outputs = {{"query", keys}, {"key", keys}, {"value", values}};
  if (a.gated && a.gate_rank == 0) outputs.push_back(gate);
  outputs.push_back(a.channel_decay ? Output{"beta", value_heads} : joint);
  const auto made = columns(b, {.name = "query_key_value", .in = b.model.hidden}, x, outputs);
  const auto spread = [&](TensorId of, std::string_view name) {
    return exchanged(b, of, name, b.at(of).elements, ways(b));
  };
  DeltaInputs inputs{
      .query = convolved(b, spread(made[0], "query_exchanged"), a.convolution, "query_convolved"),
      .key = convolved(b, spread(made[1], "key_exchanged"), a.convolution, "key_convolved"),
      .value = convolved(b, spread(made[2], "value_exchanged"), a.convolution, "value_convolved"),
      .beta = spread(made[made.size() - 1], "beta_decay_exchanged"),
      .decay = {}};
  if (a.channel_decay) {
    inputs.decay =
        spread(by_way_of(b, "decay_down", rates, a.decay_rank, x, false), "decay_spread");
  }
  const TensorId attended = delta_core(b, attention, a, inputs, value_heads);
  const TensorId back = spread(attended, "attended_exchanged");
  TensorId y = norm(b, "output_norm", Norm::Rms, back, a.value_dim);
  if (a.gated) {
    const TensorId gating =
        a.gate_rank == 0 ? made[3] : by_way_of(b, "gate_down", gate, a.gate_rank, x, a.gate_bias);
    y = gated(b, y, gating);
  }
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
