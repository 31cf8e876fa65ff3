// Hyper-connections (arXiv:2409.19606; manifold-constrained, arXiv:2512.24880): the residual is n
// streams. Before a branch they are collapsed into its input, behind it its result is laid on all
// of them and they mix. The weights of all three are made of the streams' own norm, in fp32
// (transformers 5.23.0 modeling_deepseek_v4.py). And per-layer embeddings (modeling_gemma3n.py).
#include "trainwright/work/streams.h"

#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

// Steps of Sinkhorn and Knopp that make the mixing matrix doubly stochastic
// (configuration_deepseek_v4.py, hc_sinkhorn_iters).
constexpr std::int64_t kSteps = 20;

// As transformers writes it, operator by operator.
bool is_plain(const Builder& b) { return !b.recipe.code.permutes_tokens; }

std::int64_t tokens_of(const Builder& b, TensorId streams) {
  return b.at(streams).elements / checked_mul(b.model.streams, b.model.hidden);
}

// Sums over the streams, weighted by numbers of each token.
TensorId weighted_sum(Builder& b, std::string_view name, TensorId streams, TensorId weights) {
  const std::int64_t elements = b.at(streams).elements / b.model.streams;
  TensorId of = streams;
  if (is_plain(b)) of = b.like(streams, "streams_weighted", Dtype::Fp32);
  const TensorId y = b.tensor("hidden", b.stream(), elements, b.at(streams).copies);
  Operator& op =
      b.add(name, OperatorKind::Elementwise, {streams, weights}, {of == streams ? y : of});
  op.saves = {{streams, Half::Input}, {weights, Half::Input}};
  op.forward.other = Flops(2 * real(b.at(streams).elements));
  op.input_gradient.other = op.forward.other * 2;
  if (of == streams) return y;
  const TensorId sum = b.tensor("streams_sum", Dtype::Fp32, elements, b.at(streams).copies);
  each(b, "sum_streams", {of}, sum, real(b.model.streams));
  b.add("cast", OperatorKind::Elementwise, {sum}, {y});
  return y;
}

// What all streams of a token, normed, make together: `width` numbers, and a trained scale for each
// sort of them. Plain code multiplies in fp32, with a copy of the matrix.
TensorId stream_weights(Builder& b, std::string_view name, TensorId streams, std::int64_t width) {
  const std::int64_t in = checked_mul(b.model.streams, b.model.hidden);
  const TensorId wide = cast(b, "streams_cast", streams, Dtype::Fp32);
  const TensorId normed = norm(b, "stream_norm", Norm::RmsFixed, wide, in);
  const Output out{"stream_weights", width};
  const TensorId made = product(b, {.name = name, .in = in, .low_precision = false}, normed,
                                tokens_of(b, streams), b.at(streams).copies, {&out, 1})
                            .outputs[0];
  if (!is_plain(b)) {
    const TensorId scaled = b.like(made, "stream_weights_scaled", Dtype::Fp32);
    Operator& op = each(b, "scale_weights", {made}, scaled, 3);
    op.saves = {{made, half_of_vector(b)}, {scaled, Half::Input}};
    op.trained = b.trains();
    return scaled;
  }
  b.list.tensors[made.at()].dtype = Dtype::Fp32;
  if (b.recipe.weight != Dtype::Fp32) {
    const TensorId copy =
        b.constant("mix_copy", Dtype::Fp32, checked_mul(in, width), b.slice.tp * b.slice.cp);
    b.last().outputs.push_back(copy);
    b.last().saves.push_back({copy, Half::Input, of_input(0)});
  }
  return made;
}

// So many numbers of each token, scaled and shifted by trained ones.
TensorId affine(Builder& b, TensorId made, std::int64_t tokens, std::int64_t width) {
  const TensorId scaled =
      b.tensor("weights_scaled", Dtype::Fp32, checked_mul(tokens, width), b.at(made).copies);
  Operator& op = each(b, "scale_weights", {made}, scaled, 2);
  op.saves = {{made, half_of_vector(b)}};
  op.trained = b.trains();
  return scaled;
}

// A function whose result stays for its gradient.
TensorId kept_result(Builder& b, std::string_view name, TensorId x) {
  const TensorId y = b.like(x, name);
  each(b, name, {x}, y, 4).saves = {{y, Half::Input}};
  return y;
}

TensorId plus_small(Builder& b, TensorId x) {
  const TensorId y = b.like(x, "plus_small");
  each(b, "add_small", {x}, y);
  return y;
}

// Rows and columns of each token's matrix divided by their sums, in turn.
TensorId doubly_stochastic(Builder& b, TensorId mix) {
  for (std::int64_t i = 0; i < 2 * kSteps - 1; ++i) {
    const TensorId sums =
        b.tensor("mix_sums", Dtype::Fp32, b.at(mix).elements / b.model.streams, b.at(mix).copies);
    each(b, "sum", {mix}, sums, real(b.model.streams));
    const TensorId by = plus_small(b, sums);
    const TensorId next = b.like(mix, "mix");
    each(b, "divide", {mix, by}, next).saves = {{mix, Half::Input}, {by, Half::Input}};
    mix = next;
  }
  return mix;
}

}  // namespace

Collapsed collapse(Builder& b, std::string_view name, TensorId streams) {
  const std::int64_t n = b.model.streams;
  b.part = Part::Norm;
  const TensorId made = stream_weights(b, name, streams, (2 + n) * n);
  if (!is_plain(b)) return {weighted_sum(b, "collapse", streams, made), made, made};
  const std::int64_t tokens = tokens_of(b, streams);
  const TensorId before = plus_small(b, kept_result(b, "sigmoid", affine(b, made, tokens, n)));
  const TensorId after = kept_result(b, "sigmoid", affine(b, made, tokens, n));
  const TensorId twice = b.like(after, "weights_after");
  each(b, "double", {after}, twice);
  const TensorId mix =
      plus_small(b, kept_result(b, "softmax", affine(b, made, tokens, checked_mul(n, n))));
  const TensorId mixing = doubly_stochastic(b, mix);
  return {weighted_sum(b, "collapse", streams, before), cast(b, "weights_cast", twice, b.stream()),
          cast(b, "mix_cast", mixing, b.stream())};
}

TensorId expand(Builder& b, TensorId streams, TensorId branch, const Collapsed& by) {
  b.part = Part::Norm;
  const TensorId y = b.like(streams, "hidden");
  const TensorId mixed = is_plain(b) ? b.like(streams, "streams_mixed") : y;
  Operator& mix = b.add("expand", OperatorKind::Matmul, {streams, by.mix}, {mixed});
  mix.saves = {{streams, Half::Input}, {by.mix, Half::Input}};
  mix.forward.matmul = Flops(2 * real(b.model.streams) * real(b.at(streams).elements));
  mix.input_gradient.matmul = mix.forward.matmul * 2;
  if (!is_plain(b)) {
    mix.inputs.push_back(branch);
    mix.saves.push_back({branch, Half::Input});
    mix.forward.other = Flops(2 * real(b.at(streams).elements));
    mix.input_gradient.other = mix.forward.other * 2;
    return y;
  }
  const TensorId laid = b.like(streams, "branch_laid");
  each(b, "lay_branch", {branch, by.after}, laid).saves = {{branch, Half::Input},
                                                           {by.after, Half::Input}};
  each(b, "add_streams", {laid, mixed}, y).gradients_passed = 2;
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
  const std::int64_t n = b.model.streams;
  const TensorId made = stream_weights(b, "head_mix", streams, n);
  if (!is_plain(b)) return weighted_sum(b, "collapse", streams, made);
  const TensorId scaled = affine(b, made, tokens_of(b, streams), n);
  return weighted_sum(b, "collapse", streams, plus_small(b, kept_result(b, "sigmoid", scaled)));
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
