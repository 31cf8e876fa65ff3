// Low-rank adapters: y + s B A x, in the steps that peft 0.21 runs (tuners/lora/layer.py
// Linear.forward): x in the adapter's dtype, dropout if there is one, the products with A and with
// B, the scaling, the sum, and the way back to the dtype of y. Megatron-Core's adapters are the
// same without the casts.
//
// Under autocast (transformers' Trainer) the products are in the dtype of the matrices beside them:
// x as A would have it is cast back, and of A and B copies are made that the graph holds.
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

// bitsandbytes' layers: peft adds in the dtype of what the matrix made (tuners/lora/bnb.py), of
// 4-bit ones to a copy of it.
bool adds_narrow(FrozenBase base) { return base == FrozenBase::Nf4 || base == FrozenBase::Int8; }

Dtype wider(Dtype a, Dtype b) { return byte_size(a) >= byte_size(b) ? a : b; }

TensorId dropped_out(Builder& b, TensorId input) {
  const TensorId dropped = b.like(input, "lora_dropped");
  const TensorId mask =
      b.constant("lora_mask", Dtype::Bool, b.at(input).elements, b.at(input).copies);
  Operator& op = each(b, "lora_dropout", {input}, dropped, 2);
  op.outputs.push_back(mask);
  op.saves.push_back({mask, Half::Input});
  return dropped;
}

// A's input: x as A reads it. Under autocast bitsandbytes' layers do not widen it first.
TensorId adapter_input(Builder& b, TensorId x) {
  const AdapterRecipe& adapters = *b.recipe.training.adapters;
  const bool autocast = adapters.autocast || b.recipe.wide;
  const bool widens = !autocast || !adds_narrow(adapters.base);
  TensorId input = widens ? cast(b, "lora_input", x, adapters.dtype) : x;
  if (adapters.dropout) input = dropped_out(b, input);
  return autocast ? cast(b, "lora_input", input, b.recipe.compute) : input;
}

// A product with A or B.
TensorId low_rank(Builder& b, const Matrix& half, TensorId x, std::int64_t rows,
                  const Output& output) {
  const AdapterRecipe& adapters = *b.recipe.training.adapters;
  if (!adapters.autocast) return product(b, half, x, rows, 1, {&output, 1}).outputs[0];
  const std::int64_t numbers = checked_mul(checked_mul(half.in, output.width), half.copies);
  const TensorId copy = b.constant("lora_weight", b.recipe.compute, numbers);
  Operator& cast = b.add("cast_weight", OperatorKind::Elementwise, {}, {copy});
  cast.forward.read = Bytes(checked_mul(numbers, byte_size(adapters.dtype)));
  const TensorId made = product(b, half, x, rows, 1, {&output, 1}).outputs[0];
  b.last().saves.push_back({copy, Half::Input, of_input(0)});
  return made;
}

Matrix half_of(const Matrix& beside, std::string_view name, std::int64_t in) {
  return {.name = name, .in = in, .copies = beside.copies, .low_precision = false, .adapter = true};
}

// A x: r numbers for every row of x.
TensorId into_rank(Builder& b, const Matrix& matrix, TensorId x, std::int64_t copies) {
  const TensorId input = adapter_input(b, x);
  const Output rank{"lora_rank", b.recipe.training.adapters->rank, copies};
  const std::int64_t rows = b.at(x).elements / matrix.in;
  return low_rank(b, half_of(matrix, "lora_a", matrix.in), input, rows, rank);
}

// B of that.
TensorId out_of_rank(Builder& b, const Matrix& matrix, TensorId low, const Output& output) {
  const std::int64_t rank = b.recipe.training.adapters->rank;
  const std::int64_t rows = b.at(low).elements / rank;
  return low_rank(b, half_of(matrix, "lora_b", rank), low, rows, output);
}

TensorId copied(Builder& b, TensorId x) {
  const TensorId copy = b.like(x, b.at(x).name);
  each(b, "copy", {x}, copy, 0).gradients_passed = 1;
  return copy;
}

// What the matrices have made and what the adapter has, in the dtype of the former. A compiler
// scales and adds where the sum is read, so that only the adapter's term is read for it.
Few<TensorId, 6> added(Builder& b, TensorId out, const Few<TensorId, 6>& made) {
  const FrozenBase base = b.recipe.training.adapters->base;
  TensorId term = out;
  if (!b.slice.compiled) {
    term = b.like(out, "lora_scaled");
    each(b, "lora_scale", {out}, term);
  }
  if (adds_narrow(base)) term = cast(b, "lora_scaled", term, b.recipe.compute);
  const Dtype wide = wider(b.at(made[0]).dtype, b.at(term).dtype);
  Few<TensorId, 6> terms, sums, results;
  for (const TensorId of : made) terms.push_back(base == FrozenBase::Nf4 ? copied(b, of) : of);
  for (const TensorId of : made) sums.push_back(b.like(of, b.at(of).name, wide));
  Operator& op = b.add("lora_add", OperatorKind::Elementwise, {term}, {});
  for (const TensorId of : terms) {
    op.inputs.push_back(of);
    op.forward.other += Flops(real(b.at(of).elements));
  }
  op.outputs = sums;
  for (std::size_t i = 0; b.slice.compiled && i < sums.size(); ++i) {
    op.forward.read -= b.at(terms[i]).bytes();
    op.forward.written -= b.at(sums[i]).bytes();
  }
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

// bitsandbytes 0.50 autograd/_functions.py and backends/cuda/ops.py: of 4 bits a matrix is made
// whole for the product and again for the gradient; 8 bits are multiplied with an int8 copy of an
// fp16 copy of x, and x itself is held. transformers 5.22 integrations/finegrained_fp8.py: an fp8
// copy of x, and a whole matrix for the gradient. Experts are taken one by one.
void quantise(const Builder& b, const Matrix& matrix, TensorId x, Operator& op) {
  const auto& adapters = b.recipe.training.adapters;
  if (matrix.adapter || !has_few_bits(b.recipe, b.part)) return;
  const std::int64_t numbers = checked_mul(op.matrix.in, op.matrix.out);
  const Bytes whole = Bytes(checked_mul(numbers, byte_size(b.recipe.compute)));
  op.stored = stored_bytes(adapters->base, op.matrix.in, op.matrix.out) * op.matrices;
  op.unsharded = unsharded_bytes(adapters->base, op.matrix.in, op.matrix.out) * op.matrices;
  op.forward.read = op.input_gradient.read = op.stored;
  // Made whole, written and read.
  const bool whole_forward = is_four_bits(adapters->base);
  if (whole_forward) op.forward.converted = whole * 2 * op.matrices;
  if (adapters->base != FrozenBase::AsWeights)
    op.input_gradient.converted = whole * 2 * op.matrices;
  op.backward_workspace += whole;
  const Bytes input = Bytes(b.at(x).elements);  // one byte a number
  switch (adapters->base) {
    case FrozenBase::AsWeights: break;
    case FrozenBase::Nf4:
    case FrozenBase::Mxfp4:
    case FrozenBase::Nvfp4: op.workspace += whole; break;
    case FrozenBase::Int8:
      op.workspace += input * 3;
      op.saves.push_back({x, Half::Input, of_input(0)});
      break;
    case FrozenBase::Fp8: op.workspace += input; break;
  }
}

namespace {

// Layers of bitsandbytes give back the dtype of their input (nn/modules.py Linear4bit.forward).
TensorId as_input(Builder& b, TensorId x, TensorId made) {
  const bool wide = b.recipe.wide && has_few_bits(b.recipe, b.part);
  return wide ? cast(b, b.at(made).name, made, b.at(x).dtype) : made;
}

}  // namespace

Few<TensorId, 6> adapted(Builder& b, const Matrix& matrix, TensorId x,
                         std::span<const Output> outputs, const Few<TensorId, 6>& products,
                         Cut cut) {
  Few<TensorId, 6> made;
  for (const TensorId of : products) made.push_back(as_input(b, x, of));
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

TensorId adapted_rows(Builder& b, const Matrix& matrix, TensorId x, TensorId product) {
  const TensorId made = as_input(b, x, product);
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
