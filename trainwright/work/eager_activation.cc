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

// The activation of `elements` numbers of x, which may be a part of a storage.
TensorId activated(Builder& b, Activation activation, TensorId x, std::int64_t elements,
                   std::string_view name) {
  switch (activation) {
    case Activation::SquaredRelu: return squared_relu(b, x, name);
    case Activation::QuickGelu: return quick_gelu(b, x, name);
    case Activation::GeluTanh:
      if (b.model.style.tanh_gelu_in_steps) return gelu_in_steps(b, x, name);
      break;
    case Activation::Silu:
    case Activation::Gelu:
    case Activation::Relu:
    case Activation::Xielu: break;
  }
  const TensorId result = b.tensor(name, b.at(x).dtype, elements, b.at(x).copies);
  // relu alone is undone by its result, the others by their argument.
  const TensorId saved = activation == Activation::Relu ? result : x;
  each(b, "activation", {x}, result, 5).saves.push_back({saved, Half::Input});
  return result;
}

}  // namespace

// gate and up may be halves of one storage, as experts of transformers have them.
TensorId eager_activation(Builder& b, const Preactivation& x) {
  if (!x.gated) return activated(b, x.activation, x.gate, b.at(x.gate).elements, "activated");
  const bool joined = x.gate == x.up;
  const std::int64_t elements = joined ? b.at(x.gate).elements / 2 : b.at(x.gate).elements;
  const TensorId gate = activated(b, x.activation, x.gate, elements, "gate_activated");
  const TensorId product = b.like(gate, "activated");
  each(b, "gate_product", {gate, x.up}, product).saves = {{gate, Half::Input, of_input(1)},
                                                          {x.up, Half::Input, of_input(0)}};
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
