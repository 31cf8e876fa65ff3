// Products with weights: column-parallel, row-parallel, replicated.
#include <algorithm>
#include <cmath>

#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

// Bytes that one pass over the matrix' numbers moves.
Bytes times(std::int64_t numbers, std::int64_t bytes) { return Bytes(checked_mul(numbers, bytes)); }

std::int64_t width_of(std::span<const Output> outputs) {
  std::int64_t width = 0;
  for (const Output& output : outputs) width += output.width;
  return width;
}

// What is saved of x for the weight gradient.
TensorId saved_of(Builder& b, const Matrix& matrix, TensorId x) {
  const double copy = b.recipe.input_copy;
  if (copy <= 0 || !matrix.low_precision) return x;
  // Of numbers in 4 bits each has its share of a block's scale.
  const bool four_bits = b.slice.precision == PrecisionKind::Nvfp4;
  const double numbers = copy / (four_bits ? 9.0 / 16.0 : 1.0) * real(b.at(x).elements);
  return b.constant("input_copy", four_bits ? Dtype::Nvfp4 : Dtype::Fp8,
                    std::llround(std::ceil(numbers)), b.at(x).copies);
}

// The calls of a column-parallel product: it gathers its input, and its input's gradient is summed.
// `summed_elsewhere`: another product of the same x does it for the sum of both gradients.
void add_column_calls(Builder& b, Operator& op, TensorId x, TensorId saved, std::int64_t in,
                      bool summed_elsewhere) {
  if (b.slice.tp == 1) return;
  const Bytes whole = times(checked_mul(b.rows.inner, in), byte_size(b.at(x).dtype));
  const auto call = [&](CollectiveKind kind, Pass pass, Beside beside, Bytes bytes) {
    op.collectives.push_back({kind, GroupKind::Tp, pass, beside, bytes});
  };
  if (!b.slice.sp) {
    if (summed_elsewhere) return;
    call(CollectiveKind::AllReduce, Pass::InputGradient, Beside::WeightGradient, whole);
    return;
  }
  if (!b.recipe.code.gathers_again) return;  // `gathered` has done it
  // What is gathered is what is multiplied: a low-precision copy, if there is one.
  const Bytes sent = saved == x ? whole : b.at(saved).bytes() * b.slice.tp;
  call(CollectiveKind::AllGather, Pass::Forward, Beside::OwnProduct, sent);
  call(CollectiveKind::ReduceScatter, Pass::InputGradient, Beside::WeightGradient, whole);
  call(CollectiveKind::AllGather, Pass::WeightGradient, Beside::InputGradient, sent);
  op.backward_workspace += whole;
  if (b.recipe.code.gather_buffers_stay) return;
  op.workspace += sent;
  op.weight_workspace += sent;
}

// What the gradient of `numbers` weights costs: added to a buffer by the product itself, or made
// in the dtype of the weights.
void add_weight_gradient(const Builder& b, const Matrix& matrix, Operator& op, Dtype dtype,
                         std::int64_t numbers) {
  if (!b.recipe.accumulates_in_product) {
    op.weight_gradient.written = times(numbers, byte_size(b.recipe.autocast ? Dtype::Fp32 : dtype));
    (b.slice.gradients_wait ? op.waiting : op.weight_workspace) = op.weight_gradient.written;
    return;
  }
  op.weight_gradient.read = op.weight_gradient.written = times(numbers, byte_size(Dtype::Fp32));
  if (!b.recipe.code.gradient_stand_ins) return;
  // Matrices that a low-precision recipe takes are the library's. Megatron's own head keeps one
  // too (learned: B200 runs with experts reach their peak while it is there from the micro-batch
  // before).
  if (matrix.low_precision || b.part == Part::Head) {
    op.stand_in = op.matrix;
  } else {
    op.weight_workspace = times(numbers, byte_size(dtype));
  }
}

bool made_by_norm(const OperatorList& list, TensorId x) {
  return std::any_of(list.operators.begin(), list.operators.end(), [&](const Operator& op) {
    return op.kind == OperatorKind::Norm &&
           std::find(op.outputs.begin(), op.outputs.end(), x) != op.outputs.end();
  });
}

// A compiler casts once for all products that read the same input.
bool cast_before(const Builder& b, TensorId x) {
  const auto& operators = b.list.operators;
  return b.slice.compiled &&
         std::any_of(operators.begin(), operators.end() - 1,
                     [&](const Operator& op) { return op.low_precision && op.inputs[0] == x; });
}

// Of a low-precision product, the last operator, what its casts move.
void add_casts(const Builder& b, const Matrix& matrix, TensorId x, std::int64_t weights,
               Operator& op) {
  const Rounding& rounds = b.recipe.rounds;
  const auto moved = [](double each, std::int64_t numbers) {
    return Bytes(std::llround(each * real(numbers)));
  };
  std::int64_t results = 0;
  for (const TensorId output : op.outputs) {
    if (b.at(output).has_gradient) results += b.at(output).elements;
  }
  const Bytes of_weights = b.slice.weights_rounded ? Bytes(0) : moved(rounds.weight, weights);
  op.forward.converted = of_weights;
  op.input_gradient.converted =
      of_weights + moved(rounds.gradient, share(results, matrix.gradient_from));
  op.weight_gradient.converted = moved(rounds.gradient_again, results);
  if (cast_before(b, x)) return;
  const std::int64_t inputs = b.at(x).elements;
  op.forward.converted += moved(made_by_norm(b.list, x) ? rounds.after_norm : rounds.input,
                                share(inputs, matrix.input_from));
  op.weight_gradient.converted += moved(rounds.input_again, inputs);
}

}  // namespace

namespace {

// torch.autocast: a copy of the input for every product, and one of fp32 weights, both kept. Of
// weights in few bits products make their own; in int8 they read the input as it is.
std::optional<TensorId> cast_factors(Builder& b, const Matrix& matrix, TensorId& x,
                                     std::span<const Output> outputs) {
  if (!b.recipe.wide || matrix.adapter) return std::nullopt;
  const bool few_bits = has_few_bits(b.recipe, b.part);
  if (few_bits && b.recipe.training.adapters->base == FrozenBase::Int8) return std::nullopt;
  x = cast(b, "input_cast", x, b.recipe.compute);
  if (few_bits || !(b.recipe.autocast || is_prepared(b.recipe, b.part))) return std::nullopt;
  const std::int64_t numbers =
      checked_mul(checked_mul(matrix.in, width_of(outputs)), matrix.copies);
  const TensorId copy = b.constant("weight_cast", b.recipe.compute, numbers);
  Operator& op = b.add("cast_weight", OperatorKind::Elementwise, {}, {copy});
  op.forward.read = times(numbers, byte_size(Dtype::Fp32));
  return copy;
}

}  // namespace

void set_matrix(Operator& op, const Matrix& matrix, std::span<const Output> outputs) {
  op.matrix = {matrix.in, width_of(outputs)};
  op.matrices = matrix.copies;
  if (matrix.adapter || layer_matrix(matrix.name)) return;
  for (const Output& output : outputs) {
    const auto named = layer_matrix(output.name);
    if (named) op.weights.insert(*named);
    op.weights.bits |= output.matrices.bits;
  }
}

Product product(Builder& b, const Matrix& matrix, TensorId x, std::int64_t row_count,
                std::int64_t row_copies, std::span<const Output> outputs) {
  const std::optional<TensorId> weights = cast_factors(b, matrix, x, outputs);
  const auto& adapters = b.recipe.training.adapters;
  const Dtype dtype = matrix.adapter && !adapters->autocast ? adapters->dtype : b.recipe.compute;
  Product made;
  made.saved = saved_of(b, matrix, x);
  for (const Output& output : outputs) {
    const std::int64_t elements = checked_mul(row_count, output.width);
    made.outputs.push_back(b.tensor(output.name, dtype, elements, row_copies * output.copies));
  }
  Operator& op = b.add(matrix.name, OperatorKind::Matmul, {x}, {});
  op.outputs = made.outputs;
  if (made.saved != x) op.outputs.push_back(made.saved);
  op.saves.push_back({made.saved, Half::Weight});
  if (weights) op.saves.push_back({*weights, Half::Input, of_input(0)});
  op.adapter = matrix.adapter;
  op.trained = matrix.adapter || b.trains();
  op.has_weight = true;
  const std::int64_t width = width_of(outputs);
  set_matrix(op, matrix, outputs);
  op.low_precision = matrix.low_precision;
  const Flops flops(2 * real(row_count) * real(matrix.in) * real(width));
  op.forward.matmul = op.input_gradient.matmul = op.weight_gradient.matmul = flops;
  if (matrix.bias) op.forward.other = Flops(real(row_count) * real(width));
  const std::int64_t numbers = checked_mul(checked_mul(matrix.in, width), matrix.copies);
  const Dtype weight = matrix.adapter || weights ? dtype : b.recipe.weight;
  op.forward.read = op.input_gradient.read = times(numbers, byte_size(weight));
  add_weight_gradient(b, matrix, op, dtype, numbers);
  if (matrix.low_precision) add_casts(b, matrix, x, numbers, op);
  quantise(b, matrix, x, op);
  if (b.recipe.splits_products) {
    // The input, then the output's gradient are copied and dropped; then the weight's gradient is
    // made, and copied when both are gone.
    const Bytes input = b.at(made.saved).bytes();
    const Bytes output = times(checked_mul(row_count, width), byte_size(dtype));
    const Bytes of_weight = times(numbers, byte_size(dtype));
    op.weight_workspace +=
        std::max({Bytes(0), of_weight - input - output, input - of_weight, output - of_weight});
  }
  return made;
}

TensorId gathered(Builder& b, std::string_view name, TensorId x, bool rounded) {
  const std::int64_t width = b.at(x).elements / b.rows.outer;
  return gathered_whole(b, name, x, checked_mul(b.rows.inner, width), rounded);
}

TensorId gathered_whole(Builder& b, std::string_view name, TensorId x, std::int64_t elements,
                        bool rounded) {
  if (!b.slice.sp || b.slice.tp == 1) return x;
  const Tensor part = b.at(x);
  const TensorId whole = b.tensor(name, part.dtype, elements, part.copies * b.slice.tp);
  Operator& op = b.add("gather_tokens", OperatorKind::Transfer, {x}, {whole});
  const Bytes bytes = b.at(whole).bytes();
  op.collectives.push_back({CollectiveKind::AllGather, GroupKind::Tp, Pass::Forward,
                            Beside::OwnProduct, rounded ? Bytes(b.at(whole).elements) : bytes});
  op.collectives.push_back({CollectiveKind::ReduceScatter, GroupKind::Tp, Pass::InputGradient,
                            Beside::WeightGradient, bytes});
  return whole;
}

namespace {

// An identity whose backward is the sum over tp, as an operator of its own.
TensorId copied_input(Builder& b, TensorId x) {
  const TensorId copy = b.like(x, "input_of_rank");
  b.add("identity", OperatorKind::Elementwise, {x}, {copy}).gradients_passed = 1;
  return copy;
}

}  // namespace

namespace {

// What sequence parallelism gathers beside the matrix is cast before, and travels in 8 bits.
bool gathers_rounded(const Builder& b, const Matrix& matrix) {
  return b.recipe.rounds.before_gather && matrix.low_precision && b.slice.sp && b.slice.tp > 1;
}

bool is_joined(const CodeFacts& code, const Matrix& matrix) {
  return code.joined_projections || (code.joined_queries && matrix.name == "query_key_value");
}

}  // namespace

Few<TensorId, 6> columns(Builder& b, const Matrix& matrix, TensorId x,
                         std::span<const Output> outputs) {
  const bool rounded = gathers_rounded(b, matrix);
  if (!b.recipe.code.gathers_again) x = gathered(b, "gathered", x, rounded);
  const bool copies = b.recipe.code.inputs_copied && b.slice.tp > 1 && !b.slice.sp;
  bool first = true;
  const auto one = [&](Matrix part, std::span<const Output> of) {
    if (rounded) part.input_from = b.slice.tp;
    const TensorId input = copies ? copied_input(b, x) : x;
    const Product made = product(b, part, input, b.rows.inner, 1, of);
    add_column_calls(b, b.last(), input, made.saved, part.in, !first && !copies);
    first = false;
    return adapted(b, part, input, of, made.outputs, Cut::Columns);
  };
  if (is_joined(b.recipe.code, matrix) || outputs.size() == 1) return one(matrix, outputs);
  Few<TensorId, 6> all;
  for (const Output& output : outputs) {
    Matrix part = matrix;
    part.name = output.name;
    all.push_back(one(part, {&output, 1})[0]);
  }
  return all;
}

TensorId rows(Builder& b, const Matrix& matrix, TensorId x, std::string_view output) {
  const bool scatters = b.slice.sp && b.slice.tp > 1;
  const Output wide{scatters ? "partial_sum" : output, b.model.hidden, b.slice.tp};
  const bool rounded = gathers_rounded(b, matrix);
  Matrix cast = matrix;
  if (rounded) cast.gradient_from = b.slice.tp;
  const TensorId sum = product(b, cast, x, b.rows.inner, 1, {&wide, 1}).outputs[0];
  const Bytes bytes = b.at(sum).bytes();
  if (!scatters) {
    if (b.slice.tp > 1) {
      b.last().collectives.push_back(
          {CollectiveKind::AllReduce, GroupKind::Tp, Pass::Forward, Beside::OwnProduct, bytes});
    }
    return adapted_rows(b, matrix, x, sum);
  }
  const TensorId part =
      b.tensor(output, b.recipe.compute, checked_mul(b.rows.outer, b.model.hidden));
  Operator& op = b.add("scatter_tokens", OperatorKind::Transfer, {sum}, {part});
  op.collectives.push_back(
      {CollectiveKind::ReduceScatter, GroupKind::Tp, Pass::Forward, Beside::OwnProduct, bytes});
  op.collectives.push_back({CollectiveKind::AllGather, GroupKind::Tp, Pass::InputGradient,
                            Beside::OwnProduct, rounded ? Bytes(b.at(sum).elements) : bytes});
  return adapted_rows(b, matrix, x, part);
}

Few<TensorId, 6> replicated(Builder& b, const Matrix& matrix, TensorId x,
                            std::span<const Output> outputs) {
  const Tensor of = b.at(x);
  return adapted(b, matrix, x, outputs,
                 product(b, matrix, x, of.elements / matrix.in, of.copies, outputs).outputs);
}

}  // namespace trainwright::detail
