// Which gradients are made: autograd's rule, applied once a list stands. With everything trained
// and a gradient for the list's input, nothing changes.
#include <algorithm>
#include <utility>

#include "trainwright/work/builder.h"

namespace trainwright::detail {
namespace {

bool has_gradient(const OperatorList& list, TensorId id) { return list.at(id).has_gradient; }

// Results have a gradient if an input has one or a weight of the operator is trained.
void spread(Builder& b) {
  b.list.tensors.front().has_gradient &= b.slice.input_gradient;
  for (const Operator& op : b.list.operators) {
    const bool flows =
        op.trained || std::any_of(op.inputs.begin(), op.inputs.end(),
                                  [&](TensorId id) { return has_gradient(b.list, id); });
    if (flows) continue;
    for (const TensorId id : op.outputs) b.list.tensors[id.at()].has_gradient = false;
  }
}

// The gradients that an operator makes.
GradientSet made_by(const OperatorList& list, const Operator& op) {
  GradientSet made = op.trained ? kOfWeights : 0;
  for (std::size_t k = 0; k < op.inputs.size(); ++k) {
    if (has_gradient(list, op.inputs[k])) made |= of_input(k);
  }
  return made;
}

Few<Save, 8> needed(const Few<Save, 8>& saves, GradientSet made) {
  const bool weights = (made & kOfWeights) != 0;
  const bool inputs = (made & ~kOfWeights) != 0;
  Few<Save, 8> kept;
  for (Save save : saves) {
    const GradientSet serves = save.half == Half::Weight ? kOfWeights : save.serves;
    if ((serves & made) == 0) continue;
    if (save.half == Half::Both && !weights) save.half = Half::Input;
    if (save.half == Half::Both && !inputs) save.half = Half::Weight;
    kept.push_back(save);
  }
  return kept;
}

void drop_calls(Operator& op, Pass pass) {
  const bool any = std::any_of(op.collectives.begin(), op.collectives.end(),
                               [&](const Collective& call) { return call.pass == pass; });
  if (!any) return;
  Few<Collective, 6> left;
  for (const Collective& call : op.collectives) {
    if (call.pass != pass) left.push_back(call);
  }
  op.collectives = std::move(left);
}

void drop_weights(Operator& op) {
  op.has_weight = false;
  op.weight_gradient = {};
  op.weight_workspace = op.waiting = Bytes(0);
  op.stand_in = {};
  drop_calls(op, Pass::WeightGradient);
}

void drop_inputs(Operator& op) {
  op.input_gradient = {};
  op.backward_workspace = Bytes(0);
  drop_calls(op, Pass::InputGradient);
}

// The share of an operator's input gradients that is made, where each is work by itself.
double share_made(const OperatorList& list, const Operator& op,
                  const std::vector<char>& could_have) {
  double made = 0, all = 0;
  for (const TensorId id : op.inputs) {
    all += could_have[id.at()];
    made += has_gradient(list, id) ? 1 : 0;
  }
  return all > 0 ? made / all : 1;
}

// The loss has written the gradient over the logits: there is no other one, and it stays until the
// operator that made the logits has used it.
void overwrite(Builder& b, TensorId logits) {
  if (!has_gradient(b.list, logits)) return;
  b.list.tensors[logits.at()].has_gradient = false;
  for (Operator& op : b.list.operators) {
    const bool made = std::find(op.outputs.begin(), op.outputs.end(), logits) != op.outputs.end();
    if (made) op.saves.push_back({logits, Half::Both});
  }
}

}  // namespace

void settle_gradients(Builder& b) {
  std::vector<char> could_have;
  for (const Tensor& tensor : b.list.tensors) could_have.push_back(tensor.has_gradient ? 1 : 0);
  spread(b);
  for (Operator& op : b.list.operators) {
    GradientSet made = made_by(b.list, op);
    // Nobody asks for the gradient of what nothing follows from but indices and masks.
    const bool asked =
        op.trained || std::any_of(op.outputs.begin(), op.outputs.end(),
                                  [&](TensorId id) { return has_gradient(b.list, id); });
    if (!asked) made = 0;
    if (!op.saves.empty()) op.saves = needed(op.saves, made);
    if ((made & kOfWeights) == 0) drop_weights(op);
    if ((made & ~kOfWeights) == 0) {
      drop_inputs(op);
    } else if (op.gradients_apart) {
      op.input_gradient.matmul = op.input_gradient.matmul * share_made(b.list, op, could_have);
    }
  }
  if (b.overwritten) overwrite(b, *b.overwritten);
}

}  // namespace trainwright::detail
