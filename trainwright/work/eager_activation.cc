#include <utility>

#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

// 0.5 x (1 + tanh(c (x + 0.044715 x^3))), as NewGELUActivation of transformers writes it.
TensorId gelu_in_steps(Builder& b, TensorId x, std::string_view result) {
  const TensorId half = b.like(x, "half");
  each(b, "halve", {x}, half);
  const TensorId cube = b.like(x, "cube");
  each(b, "cube", {x}, cube, 2).saves.push_back({x, Half::Input});
  const TensorId cube_scaled = b.like(x, "cube_scaled");
  each(b, "scale_cube", {cube}, cube_scaled);
  const TensorId sum = b.like(x, "cubic");
  each(b, "add_cube", {x, cube_scaled}, sum);
  const TensorId inner = b.like(x, "tanh_input");
  each(b, "scale", {sum}, inner);
  const TensorId tanh = b.like(x, "tanh");
  each(b, "tanh", {inner}, tanh).saves.push_back({tanh, Half::Input});
  const TensorId one_plus = b.like(x, "one_plus_tanh");
  each(b, "add_one", {tanh}, one_plus);
  const TensorId activated = b.like(x, result);
  each(b, "gelu", {half, one_plus}, activated).saves = {{half, Half::Input},
                                                        {one_plus, Half::Input}};
  return activated;
}

// relu(x)^2: relu saves its result, the square its argument, which is the same.
TensorId squared_relu(Builder& b, TensorId x, std::string_view result) {
  const TensorId positive = b.like(x, "positive");
  each(b, "relu", {x}, positive).saves.push_back({positive, Half::Input});
  const TensorId activated = b.like(x, result);
  each(b, "square", {positive}, activated).saves.push_back({positive, Half::Input});
  return activated;
}

// x sigmoid(1.702 x), in its four steps.
TensorId quick_gelu(Builder& b, TensorId x, std::string_view result) {
  const TensorId scaled = b.like(x, "scaled");
  each(b, "scale", {x}, scaled);
  const TensorId gate = b.like(x, "sigmoid");
  each(b, "sigmoid", {scaled}, gate, 4).saves.push_back({gate, Half::Input});
  const TensorId activated = b.like(x, result);
  each(b, "quick_gelu", {x, gate}, activated).saves = {{x, Half::Input}, {gate, Half::Input}};
  return activated;
}

// xIELU: where(x > 0, p x^2 + x/2, n (expm1(min(x, eps)) - x) + x/2), p and n softplus of a trained
// number each (transformers 5.23.0 activations.py, XIELUActivation without its CUDA package).
TensorId xielu(Builder& b, TensorId x, std::string_view result) {
  const auto trained = [&](std::string_view name) {
    const TensorId number = b.constant(name, b.at(x).dtype, 1, b.slice.tp * b.slice.cp);
    each(b, "softplus", {}, number).trained = b.trains();
    return number;
  };
  const TensorId positive_rate = trained("positive_rate"), negative_rate = trained("negative_rate");
  const TensorId mask = b.constant("positive_mask", Dtype::Bool, b.at(x).elements, b.at(x).copies);
  each(b, "is_positive", {x}, mask);
  const auto step = [&](std::string_view name, std::initializer_list<TensorId> inputs,
                        std::string_view made, Few<Save, 8> saves) {
    const TensorId y = b.like(x, made);
    each(b, name, inputs, y).saves = std::move(saves);
    return y;
  };
  const auto kept = [](TensorId tensor) { return Save{tensor, Half::Input}; };
  const TensorId scaled = step("scale", {x}, "scaled", {kept(x), kept(positive_rate)});
  const TensorId square = step("times_argument", {scaled, x}, "square", {kept(scaled), kept(x)});
  const TensorId linear = step("halve", {x}, "half", {});
  const TensorId right = step("add_half", {square, linear}, "positive_part", {});
  const TensorId least = step("minimum", {x}, "least", {kept(x)});
  const TensorId grown = b.like(x, "exponential");
  each(b, "exponential", {least}, grown, 4).saves.push_back(kept(grown));
  const TensorId difference = step("subtract", {grown, x}, "difference", {});
  const TensorId negative = step("scale_difference", {difference}, "difference_scaled",
                                 {kept(difference), kept(negative_rate)});
  const TensorId left = step("add_half", {negative, linear}, "negative_part", {});
  return step("choose_part", {right, left}, result, {kept(mask)});
}

// The activation of `elements` numbers of x, which may be a part of a storage.
TensorId activated(Builder& b, Activation activation, TensorId x, std::int64_t elements,
                   std::string_view name) {
  switch (activation) {
    case Activation::SquaredRelu: return squared_relu(b, x, name);
    case Activation::QuickGelu: return quick_gelu(b, x, name);
    case Activation::Xielu: return xielu(b, x, name);
    case Activation::GeluTanh:
      if (b.model.style.tanh_gelu_in_steps) return gelu_in_steps(b, x, name);
      break;
    case Activation::Silu:
    case Activation::Gelu:
    case Activation::Relu: break;
  }
  const TensorId result = b.tensor(name, b.at(x).dtype, elements, b.at(x).copies);
  // relu alone is undone by its result, the others by their argument.
  const TensorId saved = activation == Activation::Relu ? result : x;
  each(b, "activation", {x}, result, 5).saves.push_back({saved, Half::Input});
  return result;
}

// A half between bounds: what is bounded stays.
TensorId clamped(Builder& b, TensorId x, std::int64_t elements, std::string_view name) {
  const TensorId y = b.tensor(name, b.at(x).dtype, elements, b.at(x).copies);
  each(b, "clamp", {x}, y).saves.push_back({x, Half::Input});
  return y;
}

}  // namespace

// gate and up may be halves of one storage, as experts of transformers have them.
TensorId eager_activation(Builder& b, const Preactivation& x) {
  if (!x.gated) return activated(b, x.activation, x.gate, b.at(x.gate).elements, "activated");
  const bool joined = x.gate == x.up;
  const std::int64_t elements = joined ? b.at(x.gate).elements / 2 : b.at(x.gate).elements;
  const CodeStyle::Gate style = b.model.style.gate;
  TensorId gate = x.gate, up = x.up;
  if (style != CodeStyle::Gate::Plain) {
    gate = clamped(b, x.gate, elements, "gate_clamped");
    up = clamped(b, x.up, elements, "up_clamped");
  }
  if (style == CodeStyle::Gate::ClampedSigmoid) {
    const TensorId plus = b.like(up, "up_plus_one");
    each(b, "add_one", {up}, plus);
    up = plus;
    gate = quick_gelu(b, gate, "gate_activated");
  } else {
    gate = activated(b, x.activation, gate, elements, "gate_activated");
  }
  const TensorId product = b.like(gate, "activated");
  each(b, "gate_product", {gate, up}, product).saves = {{gate, Half::Input, of_input(1)},
                                                        {up, Half::Input, of_input(0)}};
  return product;
}

// A dropout keeps a bool for each number (native_dropout, which accelerators run).
TensorId eager_residual(Builder& b, TensorId x, TensorId branch) {
  TensorId added = branch;
  if (b.recipe.code.dropout && b.model.dropout_hidden > 0) {
    added = b.like(branch, "dropped");
    const TensorId mask =
        b.constant("dropout_mask", Dtype::Bool, b.at(branch).elements, b.at(branch).copies);
    Operator& dropout = each(b, "dropout", {branch}, added);
    dropout.outputs.push_back(mask);
    dropout.saves.push_back({mask, Half::Input});
  }
  const TensorId sum = b.like(x, "hidden");
  each(b, "residual", {x, added}, sum).gradients_passed = b.recipe.code.sums_copy ? 1 : 2;
  return sum;
}

}  // namespace trainwright::detail
