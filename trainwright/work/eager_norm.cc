#include "trainwright/base/check.h"
#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

void gain(Builder& b, std::string_view name, TensorId normalized, TensorId result) {
  Operator& op = each(b, name, {normalized}, result);
  op.kind = OperatorKind::Norm;
  op.saves.push_back({normalized, half_of_vector(b), kOfWeights});
  op.trained = b.trains();
  op.has_weight = b.recipe.code.delays_vectors;
}

// A copy of the gain in fp32, or 1 + gain: no parameter, so it stays for the gradient of the input.
void keep_of_gain(Builder& b, std::string_view name, std::int64_t width) {
  const TensorId made = b.tensor(name, Dtype::Fp32, width, b.slice.tp * b.slice.cp);
  b.last().outputs.push_back(made);
  b.last().saves.push_back({made, Half::Input, of_input(0)});
}

// y = x / sqrt(mean(x^2) + e), in fp32, of rows of `width` numbers. What is scaled may be a
// narrower copy of what is squared.
TensorId root_mean_square(Builder& b, const View& part, TensorId scaled, std::int64_t width) {
  const TensorId x = part.storage;
  const TensorId squared = b.tensor("squared", Dtype::Fp32, part.elements, b.at(x).copies);
  Operator& square = each(b, "square", {x}, squared);
  square.kind = OperatorKind::Norm;
  square.saves.push_back({x, Half::Input});
  const std::int64_t rows = part.elements / width;
  const TensorId mean = b.tensor("mean_square", Dtype::Fp32, rows, b.at(x).copies);
  Operator& average = each(b, "mean", {squared}, mean, real(width));
  average.kind = OperatorKind::Norm;
  const TensorId inverse = b.tensor("inverse_rms", Dtype::Fp32, rows, b.at(x).copies);
  Operator& root = each(b, "inverse_root", {mean}, inverse, 2);
  root.kind = OperatorKind::Norm;
  root.saves.push_back({b.model.style.rms_by_power ? mean : inverse, Half::Input});
  const TensorId normalized = b.like(squared, "normalized");
  Operator& scale = each(b, "normalize", {scaled, inverse}, normalized);
  scale.kind = OperatorKind::Norm;
  scale.saves.push_back({scaled, Half::Input});
  scale.saves.push_back({inverse, Half::Input});
  return normalized;
}

// The gain of what is normed in fp32, and the way back to the dtype of the input.
TensorId gained(Builder& b, std::string_view name, TensorId normalized, std::int64_t width,
                Dtype dtype) {
  const CodeStyle::Gain place = b.model.style.gain;
  if (place == CodeStyle::Gain::AfterCast) {
    const TensorId narrow = cast(b, "normalized", normalized, dtype);
    const TensorId normed = b.like(narrow, "normed", b.recipe.wide ? Dtype::Fp32 : dtype);
    gain(b, name, narrow, normed);
    return normed;
  }
  const TensorId scaled = b.like(normalized, "normed");
  gain(b, name, normalized, scaled);
  const bool copied = place == CodeStyle::Gain::CopiedBeforeCast && b.recipe.weight != Dtype::Fp32;
  if (copied) keep_of_gain(b, "gain_copy", width);
  if (place == CodeStyle::Gain::OnePlusBeforeCast) keep_of_gain(b, "one_plus_gain", width);
  return cast(b, "normed", scaled, dtype);
}

TensorId rms_norm(Builder& b, std::string_view name, bool has_gain, TensorId x,
                  std::int64_t width) {
  const Dtype dtype = b.at(x).dtype;
  const TensorId x32 = cast(b, "norm_input", x, Dtype::Fp32);
  const TensorId scaled = b.recipe.code.norm_scales_input ? x : x32;
  const TensorId normalized = root_mean_square(b, {x32, b.at(x32).elements}, scaled, width);
  return has_gain ? gained(b, name, normalized, width, dtype)
                  : cast(b, "normed", normalized, dtype);
}

// x less its mean, twice, over the root of the mean of squares, in fp32 (transformers 5.23.0
// modeling_cohere.py, CohereLayerNorm).
TensorId layer_norm_in_steps(Builder& b, std::string_view name, TensorId x, std::int64_t width) {
  const TensorId wide = cast(b, "norm_input", x, Dtype::Fp32);
  const auto centred = [&](std::string_view made) {
    const TensorId y = b.like(wide, made);
    each(b, "centre", {wide}, y).kind = OperatorKind::Norm;
    return y;
  };
  const TensorId first = centred("norm_centred"), second = centred("norm_centred_again");
  const std::int64_t rows = b.at(x).elements / width;
  const TensorId inverse = b.tensor("inverse_rms", Dtype::Fp32, rows, b.at(x).copies);
  Operator& root = each(b, "inverse_root", {first}, inverse, real(width) * 2);
  root.kind = OperatorKind::Norm;
  root.saves = {{first, Half::Input}, {inverse, Half::Input}};
  const TensorId normalized = b.like(wide, "normalized");
  Operator& scale = each(b, "normalize", {second, inverse}, normalized);
  scale.kind = OperatorKind::Norm;
  scale.saves = {{second, Half::Input}, {inverse, Half::Input}};
  const TensorId normed = b.like(normalized, "normed");
  gain(b, name, normalized, normed);
  if (b.recipe.weight != Dtype::Fp32) keep_of_gain(b, "gain_copy", width);
  return cast(b, "normed", normed, b.at(x).dtype);
}

// One kernel, torch.nn.LayerNorm; its two statistics per row are fp32 on accelerators.
TensorId layer_norm(Builder& b, std::string_view name, bool has_gain, TensorId x,
                    std::int64_t width) {
  if (has_gain && b.model.style.layer_norm_in_steps) return layer_norm_in_steps(b, name, x, width);
  const std::int64_t rows = b.at(x).elements / width;
  const TensorId normed = b.like(x, "normed", b.recipe.wide ? Dtype::Fp32 : b.at(x).dtype);
  const TensorId mean = b.constant("norm_mean", Dtype::Fp32, rows, b.at(x).copies);
  const TensorId inverse = b.constant("norm_inverse", Dtype::Fp32, rows, b.at(x).copies);
  Operator& op = b.add(name, OperatorKind::Norm, {x}, {normed, mean, inverse});
  op.forward.other = Flops(real(b.at(x).elements) * 8);
  op.input_gradient.other = op.forward.other;
  const bool delayed = has_gain && b.recipe.code.delays_vectors;
  const Half half = delayed ? Half::Both : Half::Input;
  op.saves = {{x, half}, {mean, half}, {inverse, half}};
  op.trained = has_gain && b.trains();
  op.has_weight = delayed;
  if (b.model.style.one_plus_norm_gain) {
    const TensorId sum = b.tensor("one_plus_gain", b.recipe.weight, width, b.slice.tp * b.slice.cp);
    b.last().outputs.push_back(sum);
    b.last().saves.push_back({sum, Half::Input, of_input(0)});
  }
  return normed;
}

}  // namespace

TensorId eager_rms_norm_of(Builder& b, std::string_view name, const View& x, std::int64_t width,
                           Dtype dtype) {
  return gained(b, name, root_mean_square(b, x, x.storage, width), width, dtype);
}

TensorId eager_norm(Builder& b, std::string_view name, Norm norm, TensorId x, std::int64_t width) {
  switch (norm) {
    case Norm::None: return x;
    case Norm::Rms: return rms_norm(b, name, true, x, width);
    case Norm::RmsFixed: return rms_norm(b, name, false, x, width);
    case Norm::Layer:
    case Norm::LayerGain: return layer_norm(b, name, true, x, width);
    case Norm::LayerFixed: return layer_norm(b, name, false, x, width);
  }
  TW_CHECK(false, "a norm has a kind");
}

}  // namespace trainwright::detail
