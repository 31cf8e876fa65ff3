#include "trainwright/work/eager.h"

namespace trainwright::detail {

TensorId cast(Builder& b, std::string_view name, TensorId x, Dtype dtype) {
  if (b.at(x).dtype == dtype && !b.recipe.code.casts_copy) return x;
  const TensorId result = b.like(x, name, dtype);
  each(b, "cast", {x}, result, 0);
  return result;
}

Operator& each(Builder& b, std::string_view name, std::initializer_list<TensorId> inputs,
               TensorId output, double flops) {
  const Flops work = Flops(real(b.at(output).elements) * flops);
  Operator& op = b.add(name, OperatorKind::Elementwise, inputs, {output});
  op.forward.other = work;
  op.input_gradient.other = work;
  return op;
}

Half half_of_vector(const Builder& b) {
  return b.recipe.code.delays_vectors ? Half::Weight : Half::Input;
}

}  // namespace trainwright::detail
