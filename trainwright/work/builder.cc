#include "trainwright/work/builder.h"

#include <utility>
#include <vector>

namespace trainwright::detail {
namespace {

// The bytes that an operator's tensors make it move.
void add_moved(const OperatorList& list, const std::vector<Bytes>& sizes, Operator& op) {
  if (op.moves_counted) return;
  Bytes in, out, in_gradients, out_gradients, saved_for_inputs, saved_for_weights;
  for (const TensorId id : op.inputs) {
    in += sizes[id.at()];
    if (list.at(id).has_gradient) in_gradients += sizes[id.at()];
  }
  for (const TensorId id : op.outputs) {
    out += sizes[id.at()];
    if (list.at(id).has_gradient) out_gradients += sizes[id.at()];
  }
  for (const Save& save : op.saves) {
    if (save.half != Half::Weight) saved_for_inputs += sizes[save.tensor.at()];
    if (save.half != Half::Input) saved_for_weights += sizes[save.tensor.at()];
  }
  op.forward.read += in;
  op.forward.written += out;
  const bool only_weights = in_gradients == Bytes(0) && op.has_weight;
  if (op.gradients_passed < op.inputs.size() && !only_weights) {
    op.input_gradient.read += out_gradients + saved_for_inputs;
    op.input_gradient.written += in_gradients;
  }
  if (op.has_weight) op.weight_gradient.read += out_gradients + saved_for_weights;
}

OperatorList summed_up(Builder&& builder, TensorId output) {
  OperatorList list = std::move(builder.list);
  list.input = TensorId(0);
  list.output = output;
  std::vector<Bytes> sizes;
  sizes.reserve(list.tensors.size());
  for (const Tensor& tensor : list.tensors) sizes.push_back(tensor.bytes());
  for (Operator& op : list.operators) add_moved(list, sizes, op);
  return list;
}

}  // namespace

LocalRows local_rows(const Slice& slice) {
  LocalRows rows;
  rows.sequence = share(slice.seq, slice.cp);
  rows.inner = checked_mul(slice.mbs, rows.sequence);
  rows.outer = slice.sp ? share(rows.inner, slice.tp) : rows.inner;
  rows.outer_copies = slice.sp ? 1 : slice.tp;
  return rows;
}

Builder::Builder(const Model& of_model, const Slice& of_slice, const Recipe& of_recipe)
    : model(of_model),
      slice(of_slice),
      recipe(settled(of_recipe, of_model, of_slice)),
      rows(local_rows(of_slice)) {
  list.tensors.reserve(64);
  list.operators.reserve(40);
  module_of.reserve(40);
}

TensorId Builder::tensor(std::string_view name, Dtype dtype, std::int64_t elements,
                         std::int64_t copies) {
  list.tensors.push_back({.name = name, .dtype = dtype, .elements = elements, .copies = copies});
  return TensorId(static_cast<std::int32_t>(list.tensors.size() - 1));
}

TensorId Builder::constant(std::string_view name, Dtype dtype, std::int64_t elements,
                           std::int64_t copies) {
  const TensorId id = tensor(name, dtype, elements, copies);
  list.tensors.back().has_gradient = false;
  return id;
}

TensorId Builder::like(TensorId other, std::string_view name, Dtype dtype) {
  const Tensor model_of = at(other);
  return tensor(name, dtype, model_of.elements, model_of.copies);
}

Operator& Builder::add(std::string_view name, OperatorKind kind,
                       std::initializer_list<TensorId> inputs,
                       std::initializer_list<TensorId> outputs) {
  Operator& op = list.operators.emplace_back();
  op.name = name;
  op.kind = kind;
  op.part = part;
  op.inputs = inputs;
  op.outputs = outputs;
  module_of.push_back(modules);
  return op;
}

OperatorList finished_layer(Builder&& builder, TensorId output) {
  settle_gradients(builder);
  mark_recompute(builder);
  return summed_up(std::move(builder), output);
}

OperatorList finished_end(Builder&& builder, TensorId output) {
  settle_gradients(builder);
  return summed_up(std::move(builder), output);
}

}  // namespace trainwright::detail
