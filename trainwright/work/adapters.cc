// Low-rank adapters: y + s B A x, in the steps that peft 0.21 runs (tuners/lora/layer.py
// Linear.forward): x in the adapter's dtype, dropout if there is one, the products with A and with
// B, the scaling, the sum, and the way back to the dtype of y. Megatron-Core's adapters are the
// same without the casts.
//
// Over tp as peft has it for Megatron's layers (tuners/lora/tp_layer.py): beside a column-parallel
// matrix A is whole and B is cut as the matrix is; beside a row-parallel one A is cut, what it
// makes is summed up, and B is whole. What travels is r numbers a token.
#include "trainwright/work/eager.h"
#include "trainwright/work/steps.h"

namespace trainwright::detail {
namespace {

bool is_target(const Builder& b, const Matrix& matrix, const Output& output) {
  const auto& adapters = b.recipe.training.adapters;
  if (!adapters || b.slice.frozen) return false;
  Flags<LayerMatrix> of = output.matrices;
  for (const std::string_view name : {matrix.name, output.name}) {
    const auto named = layer_matrix(name);
    if (of.empty() && named) of.insert(*named);
  }
  return (of.bits & adapters->targets.bits) != 0;
}

Dtype wider(Dtype a, Dtype b) { return byte_size(a) >= byte_size(b) ? a : b; }

// A's input: x as A reads it.
TensorId adapter_input(Builder& b, TensorId x) {
  const AdapterRecipe& adapters = *b.recipe.training.adapters;
  const TensorId input = cast(b, "lora_input", x, adapters.dtype);
  if (!adapters.dropout) return input;
  const TensorId dropped = b.like(input, "lora_dropped");
  const TensorId mask =
      b.constant("lora_mask", Dtype::Bool, b.at(input).elements, b.at(input).copies);
  Operator& op = each(b, "lora_dropout", {input}, dropped, 2);
  op.outputs.push_back(mask);
  op.saves.push_back({mask, Half::Input});
  return dropped;
}

Matrix half_of(const Matrix& beside, std::string_view name, std::int64_t in) {
  return {.name = name, .in = in, .copies = beside.copies, .low_precision = false, .adapter = true};
}

// A x: r numbers for every row of x.
TensorId into_rank(Builder& b, const Matrix& matrix, TensorId x, std::int64_t copies) {
  const TensorId input = adapter_input(b, x);
  const Output rank{"lora_rank", b.recipe.training.adapters->rank, copies};
  const std::int64_t rows = b.at(x).elements / matrix.in;
  return product(b, half_of(matrix, "lora_a", matrix.in), input, rows, 1, {&rank, 1}).outputs[0];
}

// B of that.
TensorId out_of_rank(Builder& b, const Matrix& matrix, TensorId low, const Output& output) {
  const std::int64_t rank = b.recipe.training.adapters->rank;
  const std::int64_t rows = b.at(low).elements / rank;
  return product(b, half_of(matrix, "lora_b", rank), low, rows, 1, {&output, 1}).outputs[0];
}

// What the matrices have made and what the adapter has, in the dtype of the former.
Few<TensorId, 6> added(Builder& b, TensorId out, const Few<TensorId, 6>& made) {
  const TensorId scaled = b.like(out, "lora_scaled");
  each(b, "lora_scale", {out}, scaled);
  const Dtype wide = wider(b.recipe.compute, b.at(scaled).dtype);
  Few<TensorId, 6> sums, results;
  for (const TensorId base : made) sums.push_back(b.like(base, b.at(base).name, wide));
  Operator& op = b.add("lora_add", OperatorKind::Elementwise, {scaled}, {});
  for (const TensorId base : made) {
    op.inputs.push_back(base);
    op.forward.other += Flops(real(b.at(base).elements));
  }
  op.outputs = sums;
  // The gradient of the sum is that of the adapter's term; the other one has it in its own dtype.
  if (made.size() == 1) op.gradients_passed = wide == b.at(made[0]).dtype ? 2 : 1;
  for (std::size_t i = 0; i < made.size(); ++i) {
    results.push_back(cast(b, b.at(made[i]).name, sums[i], b.at(made[i]).dtype));
    b.list.tensors[made[i].at()].name = "base";
  }
  return results;
}

// With sequence parallelism A has worked on this rank's rows; B needs those of all.
TensorId gathered_rank(Builder& b, TensorId low, std::int64_t rows) {
  const std::int64_t rank = b.recipe.training.adapters->rank;
  if (b.at(low).elements == checked_mul(rows, rank)) return low;
  return gathered(b, "lora_gathered", low);
}

// Beside one output, or beside several of the same product.
Few<TensorId, 6> beside(Builder& b, const Matrix& matrix, TensorId x,
                        std::span<const Output> outputs, const Few<TensorId, 6>& made, Cut cut) {
  Output whole{.name = "lora_out", .width = 0, .copies = outputs.front().copies};
  for (const Output& output : outputs) whole.width += output.width;
  const std::int64_t rows = b.at(made[0]).elements / outputs.front().width;
  const std::int64_t copies = cut == Cut::Rows ? whole.copies : b.at(x).copies;
  TensorId low = into_rank(b, matrix, x, copies);
  low = gathered_rank(b, low, rows);
  const TensorId out = out_of_rank(b, matrix, low, whole);
  // What enters a B that is cut has the sum of all ranks' gradients; a gather has summed them.
  if (cut == Cut::Columns && b.slice.tp > 1 && !b.slice.sp) {
    b.last().collectives.push_back({CollectiveKind::AllReduce, GroupKind::Tp, Pass::InputGradient,
                                    Beside::WeightGradient, b.at(low).bytes()});
  }
  return added(b, out, made);
}

}  // namespace

Few<TensorId, 6> adapted(Builder& b, const Matrix& matrix, TensorId x,
                         std::span<const Output> outputs, const Few<TensorId, 6>& made, Cut cut) {
  std::size_t targets = 0;
  for (const Output& output : outputs) targets += is_target(b, matrix, output) ? 1U : 0U;
  if (targets == 0) return made;
  if (targets == outputs.size()) return beside(b, matrix, x, outputs, made, cut);
  Few<TensorId, 6> all;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool target = is_target(b, matrix, outputs[i]);
    all.push_back(target ? beside(b, matrix, x, outputs.subspan(i, 1), {made[i]}, cut)[0]
                         : made[i]);
  }
  return all;
}

TensorId adapted_rows(Builder& b, const Matrix& matrix, TensorId x, TensorId made) {
  if (!is_target(b, matrix, {})) return made;
  TensorId low = into_rank(b, matrix, x, b.slice.tp);
  const std::int64_t rank = b.recipe.training.adapters->rank;
  if (b.slice.tp > 1) {
    const Bytes bytes = b.at(low).bytes();
    const auto call = [&](CollectiveKind kind, Pass pass) {
      b.last().collectives.push_back({kind, GroupKind::Tp, pass, Beside::Nothing, bytes});
    };
    if (b.slice.sp) {
      const TensorId part = b.tensor("lora_rank", b.at(low).dtype, checked_mul(b.rows.outer, rank));
      b.add("scatter_tokens", OperatorKind::Transfer, {low}, {part});
      call(CollectiveKind::ReduceScatter, Pass::Forward);
      call(CollectiveKind::AllGather, Pass::InputGradient);
      low = part;
    } else {
      call(CollectiveKind::AllReduce, Pass::Forward);
    }
  }
  const Output whole{"lora_out", b.model.hidden, b.rows.outer_copies};
  return added(b, out_of_rank(b, matrix, low, whole), {made})[0];
}

}  // namespace trainwright::detail
