// Attention cores: flash kernels, and Megatron's fused scale-mask-softmax.
#include <cmath>

#include "trainwright/work/steps.h"

namespace trainwright::detail {
namespace {

// Keys or values repeated for every query head that shares them.
TensorId expanded(Builder& b, const Core& core, TensorId x, std::string_view name) {
  if (core.heads == core.kv_heads) return x;
  const std::int64_t elements = b.at(x).elements / core.kv_heads * core.heads;
  const TensorId wide = b.tensor(name, b.at(x).dtype, elements);
  b.add("expand_heads", OperatorKind::AttentionCore, {x}, {wide});
  return wide;
}

TensorId softmax_dropout(Builder& b, TensorId probabilities) {
  if (!b.recipe.code.dropout || b.model.dropout_attention <= 0) return probabilities;
  const std::int64_t elements = b.at(probabilities).elements;
  const TensorId dropped = b.like(probabilities, "probabilities_dropped");
  const TensorId mask = b.constant("attention_mask", Dtype::Bool, elements);
  Operator& op =
      b.add("attention_dropout", OperatorKind::AttentionCore, {probabilities}, {dropped, mask});
  op.saves.push_back({mask, Half::Input});
  op.forward.other = op.input_gradient.other = Flops(2 * real(elements));
  return dropped;
}

// Of a sequence a query sees half in the mean, of a window all.
std::int64_t keys_seen(const Core& core) {
  const auto* softmax = std::get_if<SoftmaxAttention>(&core.attention);
  if (softmax == nullptr || softmax->reach == Reach::Full) return core.query_tokens;
  return std::min(core.query_tokens, softmax->window * 2);
}

}  // namespace

Flops core_flops(const Builder& b, const Core& core, AttentionPairs pairs) {
  const Tokens sequence(b.slice.seq);
  const Flops token = attention_core_flops(core.attention, sequence, pairs) -
                      index_flops(core.attention, sequence, pairs);
  return token * (real(b.slice.mbs) * real(b.slice.seq) * core.share);
}

TensorId flash_core(Builder& b, const Core& core) {
  const FusedKeeps keeps =
      b.recipe.flash.value_or(FusedKeeps{.input = true, .output = true, .row_bytes = 4});
  const std::int64_t rows = b.slice.mbs * core.query_tokens * core.heads;
  const TensorId y = b.tensor("attended", b.recipe.compute, checked_mul(rows, core.value_dim));
  const TensorId statistics = b.constant("log_sum_exp", Dtype::Fp32,
                                         std::llround(std::ceil(keeps.row_bytes * real(rows) / 4)));
  Operator& op = b.add("attention_core", OperatorKind::AttentionCore,
                       {core.query, core.key, core.value}, {y, statistics});
  if (keeps.input) {
    for (const TensorId x : {core.query, core.key, core.value}) {
      op.saves.push_back({x, Half::Input});
    }
  }
  if (keeps.output) op.saves.push_back({y, Half::Input});
  op.saves.push_back({statistics, Half::Input});
  op.forward.matmul = core_flops(b, core, AttentionPairs::Causal);
  op.input_gradient.matmul = op.forward.matmul * 2;
  op.head_width = (core.key_dim + core.value_dim) / 2;
  op.keys = keys_seen(core);
  return y;
}

TensorId softmax_core(Builder& b, const Core& core) {
  const TensorId key = expanded(b, core, core.key, "key_expanded");
  const TensorId value = expanded(b, core, core.value, "value_expanded");
  const Flops flops = core_flops(b, core, AttentionPairs::Full);
  const double key_part = real(core.key_dim) / real(core.key_dim + core.value_dim);
  const std::int64_t rows = b.slice.mbs * core.query_tokens * core.heads;
  const TensorId scores = b.tensor("scores", b.recipe.compute, checked_mul(rows, core.key_tokens));
  Operator& first = b.add("scores", OperatorKind::AttentionCore, {core.query, key}, {scores});
  first.saves = {{core.query, Half::Input, of_input(1)}, {key, Half::Input, of_input(0)}};
  first.gradients_apart = true;
  first.forward.matmul = flops * key_part;
  first.input_gradient.matmul = first.forward.matmul * 2;
  const TensorId probabilities = b.like(scores, "probabilities");
  Operator& softmax = b.add("softmax", OperatorKind::AttentionCore, {scores}, {probabilities});
  softmax.saves = {{probabilities, Half::Input}};
  if (b.recipe.softmax && b.recipe.softmax->input) softmax.saves.push_back({scores, Half::Input});
  softmax.forward.other = softmax.input_gradient.other = Flops(5 * real(b.at(scores).elements));
  const TensorId weights = softmax_dropout(b, probabilities);
  const TensorId y = b.tensor("attended", b.recipe.compute, checked_mul(rows, core.value_dim));
  Operator& last = b.add("context", OperatorKind::AttentionCore, {weights, value}, {y});
  last.saves = {{weights, Half::Input, of_input(1)}, {value, Half::Input, of_input(0)}};
  last.gradients_apart = true;
  last.forward.matmul = flops * (1 - key_part);
  last.input_gradient.matmul = last.forward.matmul * 2;
  return y;
}

}  // namespace trainwright::detail
