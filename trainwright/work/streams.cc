// Hyper-connections (arXiv:2409.19606; manifold-constrained, arXiv:2512.24880): the residual is n
// streams. Before a branch they are collapsed into its input, behind it its result is laid on all
// of them and they mix. The weights of all three are made of the streams' own norm, in fp32
// (transformers 5.23.0 modeling_deepseek_v4.py). And per-layer embeddings (modeling_gemma3n.py).
#include "trainwright/work/streams.h"

#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

// Sums over the streams, weighted by numbers of each token.
TensorId weighted_sum(Builder& b, std::string_view name, TensorId streams, TensorId weights) {
  const std::int64_t n = b.model.streams;
  const TensorId y =
      b.tensor("hidden", b.stream(), b.at(streams).elements / n, b.at(streams).copies);
  Operator& op = b.add(name, OperatorKind::Elementwise, {streams, weights}, {y});
  op.saves = {{streams, Half::Input}, {weights, Half::Input}};
  op.forward.other = Flops(2 * real(b.at(streams).elements));
  op.input_gradient.other = op.forward.other * 2;
  return y;
}

TensorId stream_weights(Builder& b, std::string_view name, TensorId streams, std::int64_t width) {
  const std::int64_t in = checked_mul(b.model.streams, b.model.hidden);
  const TensorId wide = cast(b, "streams_cast", streams, Dtype::Fp32);
  const TensorId normed = norm(b, "stream_norm", Norm::RmsFixed, wide, in);
  const Output out{"stream_weights", width};
  const TensorId made =
      replicated(b, {.name = name, .in = in, .low_precision = false}, normed, {&out, 1})[0];
  const TensorId scaled = b.like(made, "stream_weights_scaled", Dtype::Fp32);
  Operator& op = each(b, "scale_weights", {made}, scaled, 3);
  op.saves = {{made, half_of_vector(b)}, {scaled, Half::Input}};
  op.trained = b.trains();
  return scaled;
}

}  // namespace

Collapsed collapse(Builder& b, std::string_view name, TensorId streams) {
  const std::int64_t n = b.model.streams;
  b.part = Part::Norm;
  const TensorId weights = stream_weights(b, name, streams, (2 + n) * n);
  return {weighted_sum(b, "collapse", streams, weights), weights};
}

TensorId expand(Builder& b, TensorId streams, TensorId branch, TensorId weights) {
  b.part = Part::Norm;
  const TensorId y = b.like(streams, "hidden");
  Operator& op = b.add("expand", OperatorKind::Matmul, {streams, branch, weights}, {y});
  op.saves = {{streams, Half::Input}, {branch, Half::Input}, {weights, Half::Input}};
  const double n = real(b.model.streams);
  op.forward.matmul = Flops(2 * n * real(b.at(streams).elements));
  op.input_gradient.matmul = op.forward.matmul * 2;
  op.forward.other = Flops(2 * real(b.at(streams).elements));
  op.input_gradient.other = op.forward.other * 2;
  return y;
}

TensorId spread_streams(Builder& b, TensorId x) {
  if (b.model.streams == 1) return x;
  const TensorId y = b.tensor("hidden", b.stream(), checked_mul(b.at(x).elements, b.model.streams),
                              b.at(x).copies);
  b.add("copy_streams", OperatorKind::Elementwise, {x}, {y});
  return y;
}

TensorId joined_streams(Builder& b, TensorId streams) {
  if (b.model.streams == 1) return streams;
  b.part = Part::Norm;
  const TensorId weights = stream_weights(b, "head_mix", streams, b.model.streams);
  return weighted_sum(b, "collapse", streams, weights);
}

TensorId with_layer_input(Builder& b, const LayerKind& kind, TensorId x) {
  const std::int64_t width = b.model.per_layer_width;
  if (width == 0) return x;
  b.part = Part::Norm;
  const Output narrow{"layer_input_gate", width};
  const Output wide{"layer_input_up", b.model.hidden};
  const TensorId gate =
      replicated(b, {.name = "layer_input_gate", .in = b.model.hidden}, x, {&narrow, 1})[0];
  // A layer's part of what was made for all of them at once.
  const TensorId chosen =
      b.constant("layer_input", b.recipe.compute, b.at(gate).elements, b.at(gate).copies);
  const TensorId activated = b.like(gate, "layer_input_activated");
  Operator& op = b.add("gate_layer_input", OperatorKind::Elementwise, {gate, chosen}, {activated});
  op.saves = {{gate, Half::Input}, {chosen, Half::Input}};
  op.forward.other = op.input_gradient.other = Flops(8 * real(b.at(gate).elements));
  TensorId up = replicated(b, {.name = "layer_input_up", .in = width}, activated, {&wide, 1})[0];
  up = norm(b, "layer_input_norm", kind.before_attention, up, b.model.hidden);
  return residual(b, x, up);
}

void make_layer_inputs(Builder& b, TensorId tokens, TensorId x) {
  const std::int64_t width = b.model.per_layer_width;
  if (width == 0) return;
  const std::int64_t all = checked_mul(std::ssize(b.model.layers), width);
  b.part = Part::Embedding;
  const TensorId found = b.tensor("layer_embedded", b.recipe.compute,
                                  checked_mul(b.rows.outer, all), b.rows.outer_copies);
  Operator& look = b.add("layer_embedding", OperatorKind::Lookup, {tokens}, {found});
  look.trained = b.trains();
  look.has_weight = b.recipe.code.delays_vectors;
  b.part = Part::Norm;
  const Output wide{"layer_projected", all};
  const TensorId made =
      replicated(b, {.name = "layer_projection", .in = b.model.hidden}, x, {&wide, 1})[0];
  const TensorId normed = norm(b, "layer_projection_norm", Norm::Rms, made, width);
  const TensorId sum = b.like(found, "layer_inputs");
  b.add("add_layer_inputs", OperatorKind::Elementwise, {found, normed}, {sum}).gradients_passed = 2;
}

}  // namespace trainwright::detail
