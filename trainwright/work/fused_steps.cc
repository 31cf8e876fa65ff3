// Steps that are one kernel. What they save is what the trainer's file says (FusedKeeps).
#include <cmath>
#include <utility>

#include "trainwright/work/steps.h"

namespace trainwright::detail {
namespace {

// Statistics of so many rows, as fp32 numbers.
std::int64_t statistics(double row_bytes, std::int64_t rows) {
  return std::llround(std::ceil(row_bytes * real(rows) / 4));
}

bool has_mean(Norm norm) {
  return norm == Norm::Layer || norm == Norm::LayerGain || norm == Norm::LayerFixed;
}
bool has_gain(Norm norm) { return norm != Norm::RmsFixed && norm != Norm::LayerFixed; }

bool drops(const Builder& b) { return b.recipe.code.dropout && b.model.dropout_hidden > 0; }

}  // namespace

// About eight operations per number: squares, sum, scale, gain, and the mean.
TensorId fused_norm(Builder& b, std::string_view name, Norm norm, TensorId x, std::int64_t width) {
  const FusedKeeps& keeps = *b.recipe.norm;
  const Tensor of = b.at(x);
  // A compiler casts what follows along with it.
  const TensorId y = b.like(x, "normed", b.slice.compiled ? b.recipe.compute : b.stream());
  // The file gives the bytes of an RMS norm; a layer norm keeps the mean beside the deviation.
  const double row_bytes = keeps.row_bytes * (has_mean(norm) ? 2 : 1);
  const Half half = b.recipe.code.delays_vectors && has_gain(norm) ? Half::Both : Half::Input;
  Few<TensorId, 6> outputs = {y};
  Few<Save, 8> saves;
  if (keeps.input) saves.push_back({x, half});
  if (keeps.output) saves.push_back({y, half});
  if (row_bytes > 0) {
    const std::int64_t numbers = statistics(row_bytes, of.elements / width);
    const TensorId rows = b.constant("norm_statistics", Dtype::Fp32, numbers, of.copies);
    outputs.push_back(rows);
    saves.push_back({rows, half});
  }
  Operator& op = b.add(name, OperatorKind::Norm, {x}, {});
  op.outputs = std::move(outputs);
  op.saves = std::move(saves);
  op.trained = has_gain(norm) && b.trains();
  op.has_weight = half == Half::Both;
  op.forward.other = Flops(8 * real(of.elements));
  op.input_gradient.other = Flops(12 * real(of.elements));
  return y;
}

Rotated fused_rope(Builder& b, TensorId query, TensorId key, std::int64_t) {
  const Rotated rotated{b.like(query, "query_rotated"), b.like(key, "key_rotated")};
  Operator& op =
      b.add("rotate", OperatorKind::Elementwise, {query, key}, {rotated.query, rotated.key});
  const double numbers = real(b.at(query).elements + b.at(key).elements);
  op.forward.other = op.input_gradient.other = Flops(3 * numbers);
  return rotated;
}

// Queries keep their size; keys become as wide as queries; values are copied out.
Rotated fused_latent_rope(Builder& b, const LatentHeads& x) {
  const Rotated rotated{b.like(x.query, "query_rotated"), b.like(x.query, "key")};
  const double numbers = real(b.at(x.query).elements);
  Operator& op = b.add("rotate", OperatorKind::Elementwise, {x.query, x.key_value, x.key_rope},
                       {rotated.query, rotated.key, x.value});
  op.forward.other = op.input_gradient.other = Flops(6 * numbers);
  return rotated;
}

TensorId fused_activation(Builder& b, const Preactivation& x) {
  const FusedKeeps& keeps = x.gated ? *b.recipe.gated_activation : *b.recipe.bias_activation;
  const TensorId y = b.like(x.up, "activated");
  Operator& op = b.add("activation", OperatorKind::Elementwise, {x.up}, {y});
  if (keeps.input) op.saves.push_back({x.up, Half::Input});
  if (x.gated) {
    op.inputs.push_back(x.gate);
    if (keeps.input) op.saves.push_back({x.gate, Half::Input});
  }
  if (keeps.output) op.saves.push_back({y, Half::Input});
  if (x.has_scores) {
    op.inputs.push_back(x.scores);
    op.saves.push_back({x.scores, Half::Input});
  }
  op.forward.other = Flops(8 * real(b.at(y).elements));
  op.input_gradient.other = Flops(12 * real(b.at(y).elements));
  return y;
}

TensorId fused_residual(Builder& b, TensorId x, TensorId branch) {
  const TensorId y = b.like(x, "hidden");
  const Tensor of = b.at(x);
  const bool dropout = drops(b);
  const bool keeps_mask = dropout && b.recipe.bias_dropout->output;
  const TensorId mask =
      keeps_mask ? b.constant("dropout_mask", Dtype::Bool, of.elements, of.copies) : y;
  Operator& op = b.add("residual", OperatorKind::Elementwise, {x, branch}, {y});
  if (keeps_mask) {
    op.outputs.push_back(mask);
    op.saves.push_back({mask, Half::Input});
  }
  op.gradients_passed = dropout ? 1 : 2;
  op.forward.other = Flops((dropout ? 3 : 1) * real(of.elements));
  return y;
}

}  // namespace trainwright::detail
