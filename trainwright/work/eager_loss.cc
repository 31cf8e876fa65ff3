// The loss of transformers: ForCausalLMLoss.
#include "trainwright/work/eager.h"

namespace trainwright::detail {

// Logits become fp32; of those, log-softmax saves its result. The shifted labels and the sum of
// their weights, one number, stay too.
void eager_loss(Builder& b, TensorId logits, std::int64_t rows) {
  const std::int64_t copies = b.at(logits).copies;
  if (b.model.logit_softcap) {
    const TensorId divided = b.like(logits, "logits_divided");
    each(b, "divide", {logits}, divided);
    const TensorId tanh = b.like(logits, "logits_tanh");
    each(b, "tanh", {divided}, tanh).saves.push_back({tanh, Half::Input});
    logits = b.like(tanh, "logits_capped");
    each(b, "multiply", {tanh}, logits);
  }
  const TensorId wide = cast(b, "logits_fp32", logits, Dtype::Fp32);
  const TensorId logs = b.like(wide, "log_probabilities");
  Operator& softmax = each(b, "log_softmax", {wide}, logs, 4);
  softmax.kind = OperatorKind::Loss;
  softmax.saves.push_back({logs, Half::Input});
  // One more label is added at the end of each sequence; of a single one it stays in the storage.
  const std::int64_t padding = b.slice.mbs == 1 ? 1 : 0;
  const TensorId labels = b.constant("labels", Dtype::Int64, rows + padding, copies);
  const TensorId loss = b.tensor("loss", Dtype::Fp32, 1, copies);
  const TensorId weight = b.constant("loss_weight", Dtype::Fp32, 1, copies);
  Operator& likelihood = b.add("likelihood", OperatorKind::Loss, {logs}, {loss, labels, weight});
  likelihood.saves = {{logs, Half::Input}, {labels, Half::Input}, {weight, Half::Input}};
  likelihood.forward.other = Flops(real(rows));
}

}  // namespace trainwright::detail
