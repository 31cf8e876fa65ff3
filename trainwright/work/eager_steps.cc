// Steps without a fused kernel, as plain PyTorch runs them.
#include "trainwright/work/steps.h"

namespace trainwright::detail {

Rotated eager_rope(Builder& b, TensorId query, TensorId key, std::int64_t head_dim) {
  return fused_rope(b, query, key, head_dim);
}

Rotated eager_latent_rope(Builder& b, const LatentHeads& x) { return fused_latent_rope(b, x); }

TensorId eager_core(Builder& b, const Core& core) { return softmax_core(b, core); }

TensorId sdpa_core(Builder& b, const Core& core) { return flash_core(b, core); }

// The activation keeps its input; the product with the gate keeps both factors.
TensorId eager_activation(Builder& b, const Preactivation& x) {
  const TensorId turned = b.like(x.gate, "gate_activated");
  b.add("activation", OperatorKind::Elementwise, {x.gate}, {turned}).saves = {
      {x.gate, Half::Input}};
  if (!x.gated) return turned;
  const TensorId y = b.like(x.up, "activated");
  b.add("gate_product", OperatorKind::Elementwise, {turned, x.up}, {y}).saves = {
      {turned, Half::Input}, {x.up, Half::Input}};
  return y;
}

TensorId eager_residual(Builder& b, TensorId x, TensorId branch) {
  if (b.recipe.dropout && b.model.dropout_hidden > 0) {
    const Tensor of = b.at(branch);
    const TensorId dropped = b.like(branch, "dropped");
    const TensorId mask = b.constant("dropout_mask", Dtype::Bool, of.elements, of.copies);
    b.add("dropout", OperatorKind::Elementwise, {branch}, {dropped, mask}).saves = {
        {mask, Half::Input}};
    branch = dropped;
  }
  const TensorId y = b.like(x, "hidden");
  Operator& op = b.add("residual", OperatorKind::Elementwise, {x, branch}, {y});
  op.gradients_passed = 2;
  op.forward.other = Flops(real(b.at(x).elements));
  return y;
}

TensorId eager_mixture(Builder& b, const MixtureOfExperts& m, TensorId x) {
  return permuted_mixture(b, m, x);
}

void eager_loss(Builder& b, TensorId logits, std::int64_t rows) { counted_loss(b, logits, rows); }

}  // namespace trainwright::detail
