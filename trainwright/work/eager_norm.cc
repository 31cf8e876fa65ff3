// Norms without a fused kernel, as transformers writes them out.
#include "trainwright/work/steps.h"

namespace trainwright::detail {

// x in fp32, its square's mean, the scaled x in fp32 and again in the compute dtype.
TensorId eager_norm(Builder& b, std::string_view name, Norm, TensorId x, std::int64_t width) {
  const TensorId wide = b.like(x, "wide", Dtype::Fp32);
  b.add("widen", OperatorKind::Norm, {x}, {wide});
  const TensorId deviation =
      b.tensor("deviation", Dtype::Fp32, b.at(x).elements / width, b.at(x).copies);
  b.add("mean_square", OperatorKind::Norm, {wide}, {deviation}).saves = {{wide, Half::Input},
                                                                         {deviation, Half::Input}};
  const TensorId scaled = b.like(x, "scaled", Dtype::Fp32);
  b.add("scale", OperatorKind::Norm, {wide, deviation}, {scaled}).saves = {
      {wide, Half::Input}, {deviation, Half::Input}};
  const TensorId narrow = b.like(x, "narrow");
  b.add("narrow", OperatorKind::Norm, {scaled}, {narrow});
  const TensorId y = b.like(x, "normed");
  b.add(name, OperatorKind::Norm, {narrow}, {y}).saves = {
      {narrow, b.recipe.delays_vectors ? Half::Weight : Half::Input}};
  b.last().has_weight = b.recipe.delays_vectors;
  return y;
}

}  // namespace trainwright::detail
