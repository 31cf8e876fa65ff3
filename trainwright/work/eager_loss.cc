// Cross entropy in plain PyTorch, operator by operator: torch.nn.functional.cross_entropy of an
// fp32 copy of the logits, as transformers' ForCausalLMLoss and torchtitan's cross_entropy_loss
// call it, and what torch.distributed.tensor.parallel.loss_parallel makes of it where the
// vocabulary is cut.
#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

// cap x tanh(logits / cap).
TensorId capped(Builder& b, TensorId logits) {
  if (!b.model.logit_softcap) return logits;
  const TensorId divided = b.like(logits, "logits_divided");
  each(b, "divide", {logits}, divided);
  const TensorId tanh = b.like(logits, "logits_tanh");
  each(b, "tanh", {divided}, tanh).saves.push_back({tanh, Half::Input});
  const TensorId y = b.like(tanh, "logits_capped");
  each(b, "multiply", {tanh}, y);
  return y;
}

TensorId log_softmax(Builder& b, TensorId wide) {
  const TensorId logs = b.like(wide, "log_probabilities");
  Operator& op = each(b, "log_softmax", {wide}, logs, 4);
  op.kind = OperatorKind::Loss;
  op.saves.push_back({logs, Half::Input});
  // torch 2.13 aten/src/ATen/native/cuda/SoftMax.cu: rows longer than the shared memory are read
  // for their maximum, their sum and the result; backward the gradient for its sum and the result.
  op.forward.read = b.at(wide).bytes() * 2;
  op.input_gradient.read = b.at(wide).bytes();
  return logs;
}

void sum_over_tp(Operator& op, std::int64_t rows) {
  op.collectives.push_back({CollectiveKind::AllReduce, GroupKind::Tp, Pass::Forward,
                            Beside::Nothing, Bytes(rows * byte_size(Dtype::Fp32))});
}

// torch 2.13 distributed/tensor/parallel/loss.py _log_softmax and, backward,
// _nll_loss_and_log_softmax_backward: zeros with the labels' places, to which exp of the saved
// result is added; the sum is scaled into one more tensor.
TensorId split_log_softmax(Builder& b, TensorId wide, std::int64_t rows) {
  const TensorId shifted = b.like(wide, "logits_shifted");
  Operator& shift = each(b, "shift", {wide}, shifted);
  shift.gradients_passed = 1;
  sum_over_tp(shift, rows);
  const TensorId powers =
      b.constant("exponentials", Dtype::Fp32, b.at(wide).elements, b.at(wide).copies);
  sum_over_tp(each(b, "exponentiate", {shifted}, powers), rows);
  const TensorId logs = b.like(wide, "log_probabilities");
  Operator& op = each(b, "log_softmax", {shifted}, logs, 2);
  op.kind = OperatorKind::Loss;
  op.saves.push_back({logs, Half::Input});
  op.backward_workspace = b.at(wide).bytes();
  return logs;
}

}  // namespace

// Of log-softmax its result is saved. The shifted labels and the sum of their weights, one number,
// stay too.
void eager_loss(Builder& b, TensorId logits, std::int64_t rows) {
  logits = capped(b, logits);
  const std::int64_t copies = b.at(logits).copies;
  const bool split = b.recipe.loss.split_by_tp && b.recipe.code.vocabulary_split && b.slice.tp > 1;
  const TensorId wide = cast(b, "logits_fp32", logits, Dtype::Fp32);
  const TensorId logs = split ? split_log_softmax(b, wide, rows) : log_softmax(b, wide);
  // One more label is added at the end of each sequence; of a single one it stays in the storage.
  const std::int64_t padding = b.slice.mbs == 1 && !b.recipe.code.vocabulary_split ? 1 : 0;
  const TensorId labels = b.constant("labels", Dtype::Int64, rows + padding, copies);
  const TensorId loss = b.tensor("loss", Dtype::Fp32, 1, copies);
  const TensorId weight = b.constant("loss_weight", Dtype::Fp32, 1, copies);
  Operator& likelihood = b.add("likelihood", OperatorKind::Loss, {logs}, {loss, labels, weight});
  likelihood.saves = {{logs, Half::Input}, {labels, Half::Input}, {weight, Half::Input}};
  likelihood.forward.other = Flops(real(rows));
  // It reads the labels' places alone; its gradient is zeros with these filled in.
  likelihood.moves_counted = true;
  likelihood.input_gradient.written = b.at(logs).bytes();
  // The callers' variables.
  likelihood.held.push_back(logits);
  if (wide != logits) likelihood.held.push_back(wide);
  if (split) sum_over_tp(likelihood, rows);
}

}  // namespace trainwright::detail
