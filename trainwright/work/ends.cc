// Both ends of the model: embedding; final norm, head and loss; and what a multi-token-prediction
// module repeats of them.
#include <algorithm>
#include <cmath>

#include "trainwright/work/attention.h"
#include "trainwright/work/eager.h"
#include "trainwright/work/steps.h"
#include "trainwright/work/streams.h"
#include "trainwright/work/vocabulary.h"

namespace trainwright {
namespace detail {

std::int64_t local_vocabulary(std::int64_t vocabulary, const Slice& slice, const Recipe& recipe) {
  const std::int64_t mine = recipe.code.vocabulary_split ? share(vocabulary, slice.tp) : vocabulary;
  const std::int64_t padded =
      checked_mul(share(mine, recipe.code.vocabulary_multiple), recipe.code.vocabulary_multiple);
  return share(padded, slice.vocabulary_ways);
}

// That the loss works on one after the other.
double pieces_of(const Loss& loss, std::int64_t rows) {
  const std::int64_t most = std::max<std::int64_t>(1, rows);
  return real(loss.piece_tokens > 0 ? ceil_div(most, loss.piece_tokens) : loss.pieces);
}

void counted_loss(Builder& b, TensorId logits, std::int64_t rows) {
  const Loss& facts = b.recipe.loss;
  const Tensor of = b.at(logits);
  const auto bytes = [&](double per_logit) {
    return Bytes(std::llround(std::max(0.0, per_logit) * real(of.elements)));
  };
  const double size = real(byte_size(of.dtype));
  const bool keeps_logits = facts.keeps_logits || facts.kept == size;
  const double beside = facts.kept - (keeps_logits ? size : 0);
  const TensorId mean = b.tensor("loss", Dtype::Fp32, 1, b.slice.tp);
  Operator& op = b.add("loss", OperatorKind::Loss, {logits}, {mean});
  if (beside > 0) {
    const TensorId kept = b.constant("softmax", Dtype::Fp8, bytes(beside).value(), of.copies);
    op.outputs.push_back(kept);
    op.saves.push_back({kept, Half::Input});
  }
  if (keeps_logits) op.saves.push_back({logits, Half::Input});
  const double piece = facts.piece / pieces_of(facts, rows);
  op.workspace = bytes(facts.forward + piece - size - beside);
  op.backward_workspace = bytes(facts.backward + piece - facts.kept - size);
  op.forward.other = Flops(5 * real(of.elements));
  op.input_gradient.other = Flops(2 * real(of.elements));
  op.moves_counted = true;  // of all pieces that are made in turn
  const double pieces = real(std::max<std::int64_t>(1, facts.chunks));
  op.forward.read = bytes(facts.moved_forward * pieces);
  op.input_gradient.read = bytes(facts.moved_backward * pieces);
  if (keeps_logits && facts.backward <= size) b.overwritten = logits;
  if (facts.split_by_tp && b.recipe.code.vocabulary_split && b.slice.tp > 1) {
    // The largest logit, the one of the label and the sum, of every token in fp32.
    for (int call = 0; call < 3; ++call) {
      op.collectives.push_back({CollectiveKind::AllReduce, GroupKind::Tp, Pass::Forward,
                                Beside::Nothing, Bytes(rows * byte_size(Dtype::Fp32))});
    }
  }
}

namespace {

// Whether the table is of the dtype that flows from layer to layer.
bool gives_stream(const Builder& b) {
  return !b.recipe.wide || b.recipe.autocast || is_prepared(b.recipe, Part::Embedding);
}

// Rows of the table; with its vocabulary over tp every rank looks up what it has, and the sum over
// tp is what all others have.
TensorId looked_up(Builder& b, TensorId tokens) {
  b.part = Part::Embedding;
  const std::int64_t width = b.model.embedding_width;
  const bool split = b.recipe.code.vocabulary_split && b.slice.tp > 1;
  const bool scatters = split && b.slice.sp;
  const std::int64_t rows = scatters ? b.rows.inner : b.rows.outer;
  const Dtype dtype = gives_stream(b) ? b.stream() : b.recipe.compute;
  const TensorId found = b.tensor(scatters ? "partial_sum" : "embedded", dtype,
                                  checked_mul(rows, width), scatters ? 1 : b.rows.outer_copies);
  Operator& op = b.add("embedding", OperatorKind::Lookup, {tokens}, {found});
  op.saves = {{tokens, Half::Weight}};
  op.trained = b.trains();
  op.has_weight = b.recipe.code.delays_vectors;
  // The gradient of the table is made whole, zeros and all, before it is added up.
  const bool waits = b.slice.gradients_wait && !b.model.tied;
  (waits ? op.waiting : op.weight_workspace) =
      Bytes(checked_mul(checked_mul(local_vocabulary(b.model.vocabulary, b.slice, b.recipe), width),
                        byte_size(dtype)));
  const Bytes bytes = b.at(found).bytes();
  if (split && !scatters) {
    op.collectives.push_back(
        {CollectiveKind::AllReduce, GroupKind::Tp, Pass::Forward, Beside::Nothing, bytes});
  }
  if (!split && b.slice.sp && b.slice.tp > 1) {
    op.collectives.push_back({CollectiveKind::AllGather, GroupKind::Tp, Pass::WeightGradient,
                              Beside::Nothing, bytes * b.slice.tp});
  }
  if (!scatters) return found;
  const TensorId part = b.tensor("embedded", dtype, checked_mul(b.rows.outer, width));
  Operator& scatter = b.add("scatter_tokens", OperatorKind::Transfer, {found}, {part});
  scatter.collectives.push_back(
      {CollectiveKind::ReduceScatter, GroupKind::Tp, Pass::Forward, Beside::Nothing, bytes});
  scatter.collectives.push_back(
      {CollectiveKind::AllGather, GroupKind::Tp, Pass::InputGradient, Beside::Nothing, bytes});
  return part;
}

// Of a spread vocabulary: a sum over the pipeline, whose gradient goes to all ranks
// (sail-sg/VocabularyParallelism 6191c3bf, vocab_parallel_schedule.py
// input_embedding_forward_step_helper, input_embedding_backward_step_helper).
TensorId summed_over_pipeline(Builder& b, TensorId part) {
  const TensorId sum = b.like(part, "embedded_sum");
  Operator& op = b.add("sum_tokens", OperatorKind::Transfer, {part}, {sum});
  const Bytes bytes = b.at(part).bytes();
  op.collectives.push_back(
      {CollectiveKind::AllReduce, GroupKind::Pp, Pass::Forward, Beside::Nothing, bytes});
  op.collectives.push_back(
      {CollectiveKind::AllGather, GroupKind::Pp, Pass::InputGradient, Beside::Nothing, bytes});
  return sum;
}

// The sum stays with its micro-batch, as what other stages receive does.
TensorId taken_sum(Builder& b, TensorId tokens) {
  b.part = Part::Embedding;
  const TensorId sum =
      b.tensor("embedded_sum", b.stream(), checked_mul(b.rows.outer, b.model.embedding_width),
               b.rows.outer_copies);
  Operator& op = b.add("take_sum", OperatorKind::Transfer, {tokens}, {sum});
  op.saves = {{sum, Half::Input}};
  op.trained = b.trains();  // the table, on all ranks
  return sum;
}

TensorId with_positions(Builder& b, TensorId x) {
  if (b.model.learned_positions == 0) return x;
  const TensorId rows = b.like(x, "positions");
  Operator& look = b.add("positions", OperatorKind::Lookup, {}, {rows});
  look.trained = b.trains();
  look.has_weight = b.recipe.code.delays_vectors;
  if (!b.recipe.code
           .permutes_tokens) {  // The modules of transformers number the tokens themselves.
    const TensorId places = b.constant("places", Dtype::Int64, b.rows.sequence, b.slice.tp);
    b.last().outputs.push_back(places);
    b.last().saves = {{places, Half::Weight}};
  }
  const TensorId sum = b.like(x, "hidden");
  Operator& op = b.add("add_positions", OperatorKind::Elementwise, {x, rows}, {sum});
  op.gradients_passed = 2;
  op.forward.other = Flops(real(b.at(x).elements));
  return sum;
}

TensorId dropped(Builder& b, TensorId x) {
  if (!b.recipe.code.dropout || b.model.dropout_hidden <= 0) return x;
  const Tensor of = b.at(x);
  const TensorId y = b.like(x, "hidden");
  const TensorId mask = b.constant("dropout_mask", Dtype::Bool, of.elements, of.copies);
  Operator& op = b.add("dropout", OperatorKind::Elementwise, {x}, {y, mask});
  op.saves = {{mask, Half::Input}};
  op.forward.other = op.input_gradient.other = Flops(2 * real(of.elements));
  return y;
}

TensorId embedded(Builder& b, TensorId tokens) {
  TensorId x = b.slice.vocabulary_ways > 1 ? taken_sum(b, tokens) : looked_up(b, tokens);
  if (b.model.embedding_width != b.model.hidden) {
    const Output wide{"hidden", b.model.hidden};
    x = replicated(b,
                   {.name = "embedding_up", .in = b.model.embedding_width, .low_precision = false},
                   x, {&wide, 1})[0];
  }
  x = with_positions(b, x);
  // The first layer would make it so, for all of the others.
  if (!gives_stream(b)) x = cast(b, "hidden", x, b.stream());
  b.part = Part::Norm;
  x = norm(b, "embedding_norm", b.model.embedding_norm, x, b.model.hidden);
  make_layer_inputs(b, tokens, x);
  for (const Extra& one : b.model.embedding_extras) x = extra(b, one, x, x);
  return spread_streams(b, dropped(b, x));
}

// Logits of every token on every rank of tp, each for its share of the vocabulary or all of it.
TensorId logits_of(Builder& b, TensorId x, std::int64_t chunks) {
  b.part = Part::Head;
  const Matrix matrix{.name = "head",
                      .in = b.model.embedding_width,
                      .bias = b.model.head_bias,
                      .low_precision = false};
  const std::int64_t width = local_vocabulary(b.model.vocabulary, b.slice, b.recipe);
  const Output logits{"logits", width, b.recipe.code.vocabulary_split ? 1 : b.slice.tp};
  TensorId made;
  if (b.recipe.code.vocabulary_split) {
    made = columns(b, matrix, x, {&logits, 1})[0];
  } else {
    x = gathered(b, "gathered", x);
    made = product(b, matrix, x, b.rows.inner, 1, {&logits, 1}).outputs[0];
  }
  // Piece by piece: a part of the logits at a time, the whole of the work.
  Tensor& piece = b.list.tensors[made.at()];
  piece.elements = share(piece.elements, chunks);
  return made;
}

// A loss that is not split needs the parts of all ranks of tp.
TensorId whole_logits(Builder& b, TensorId logits) {
  if (!b.recipe.code.vocabulary_split || b.recipe.loss.split_by_tp || b.slice.tp == 1)
    return logits;
  const Tensor part = b.at(logits);
  const TensorId all =
      b.tensor("logits_gathered", part.dtype, checked_mul(part.elements, b.slice.tp), b.slice.tp);
  Operator& op = b.add("gather_logits", OperatorKind::Transfer, {logits}, {all});
  op.collectives.push_back({CollectiveKind::AllGather, GroupKind::Tp, Pass::Forward,
                            Beside::Nothing, b.at(all).bytes()});
  return all;
}

// Chunked losses run head and loss forward and backward at once: nothing of them is kept but the
// gradient of the hidden states. Meanwhile it is summed up beside them, and pieces of several
// sequences are copies.
void keep_gradient_instead(Builder& b, std::size_t first, TensorId x) {
  const Tensor of = b.at(x);
  const TensorId gradient = b.constant("hidden_gradient", of.dtype, of.elements, of.copies);
  Bytes beside(std::llround(b.recipe.loss.hidden_gradient * real(of.elements)));
  if (b.recipe.loss.hidden_gradient > 0 && b.slice.mbs > 1) beside += of.bytes();
  for (std::size_t i = first; i < b.list.operators.size(); ++i) {
    b.list.operators[i].saves = {};
    b.list.operators[i].workspace += beside;
  }
  b.last().outputs.push_back(gradient);
  b.last().saves.push_back({gradient, Half::Input});
}

TensorId loss_of(Builder& b, TensorId x) {
  const std::int64_t chunks = std::max<std::int64_t>(1, b.recipe.loss.chunks);
  const std::size_t first = b.list.operators.size();
  const TensorId logits = logits_of(b, x, chunks);
  loss(b, whole_logits(b, logits), b.rows.inner);
  if (chunks > 1) keep_gradient_instead(b, first, x);
  return b.last().outputs[0];
}

// Of a spread vocabulary: the last stage's output comes to all ranks in fp32, and its gradient is
// summed over them (vocab_parallel_schedule.py broadcast_lm_head_input, reduce_lm_head_res_alg2).
TensorId received_hidden(Builder& b, TensorId wide) {
  const TensorId x = b.like(wide, "hidden", b.recipe.compute);
  Operator& op = b.add("receive_hidden", OperatorKind::Transfer, {wide}, {x});
  op.saves = {{wide, Half::Input}};  // the loss' gradient came with it
  op.collectives.push_back({CollectiveKind::AllGather, GroupKind::Pp, Pass::Forward,
                            Beside::Nothing, b.at(wide).bytes()});
  op.collectives.push_back({CollectiveKind::AllReduce, GroupKind::Pp, Pass::InputGradient,
                            Beside::Nothing, b.at(x).bytes()});
  return x;
}

// The largest logit, the one of the label and the sum of every token, from all ranks.
void sum_loss_over_pipeline(Builder& b) {
  for (int call = 0; call < 3; ++call) {
    b.last().collectives.push_back({CollectiveKind::AllReduce, GroupKind::Pp, Pass::Forward,
                                    Beside::Nothing, Bytes(b.rows.inner * byte_size(Dtype::Fp32))});
  }
}

TensorId head_and_loss(Builder& b, std::string_view norm_name, TensorId x) {
  b.part = Part::Norm;
  x = norm(b, norm_name, b.model.final_norm, x, b.model.hidden);
  b.part = Part::Head;
  for (const Extra& one : b.model.head_extras) x = extra(b, one, x, x);
  if (b.model.embedding_width != b.model.hidden) {
    const Output narrow{"narrowed", b.model.embedding_width};
    x = replicated(b, {.name = "embedding_down", .in = b.model.hidden, .low_precision = false}, x,
                   {&narrow, 1})[0];
  }
  return b.slice.vocabulary_ways > 1 ? x : loss_of(b, x);
}

TensorId projected(Builder& b, TensorId embedding, TensorId hidden) {
  const TensorId both =
      b.tensor("joined", b.stream(), 2 * b.at(hidden).elements, b.rows.outer_copies);
  b.add("join", OperatorKind::Elementwise, {embedding, hidden}, {both});
  const std::int64_t width = share(b.model.hidden, b.slice.tp);
  const Output part{"projected_part", width};
  b.part = Part::Embedding;
  const TensorId mine =
      columns(b, {.name = "mtp_projection", .in = 2 * b.model.hidden}, both, {&part, 1})[0];
  if (b.slice.tp == 1) return mine;
  const TensorId y = b.like(hidden, "projected");
  Operator& op = b.add("gather_channels", OperatorKind::Transfer, {mine}, {y});
  const Bytes bytes = b.at(mine).bytes() * b.slice.tp;
  op.workspace = bytes;
  op.collectives.push_back(
      {CollectiveKind::AllGather, GroupKind::Tp, Pass::Forward, Beside::Nothing, bytes});
  if (b.slice.sp) {
    op.collectives.push_back(
        {CollectiveKind::AllGather, GroupKind::Tp, Pass::InputGradient, Beside::Nothing, bytes});
  }
  return y;
}

TensorId hidden_input(Builder& b) {
  return b.tensor("hidden", b.stream(), checked_mul(b.rows.outer, b.model.hidden),
                  b.rows.outer_copies);
}

TensorId streams_input(Builder& b) {
  return b.tensor("hidden", b.stream(),
                  checked_mul(checked_mul(b.rows.outer, b.model.hidden), b.model.streams),
                  b.rows.outer_copies);
}

}  // namespace
}  // namespace detail

OperatorList embedding_work(const Model& model, const Slice& slice, const Recipe& recipe) {
  detail::Builder b(model, slice, recipe);
  const TensorId tokens = b.constant("tokens", Dtype::Int64, b.rows.inner, slice.tp);
  const TensorId y = detail::embedded(b, tokens);
  return detail::finished_end(std::move(b), y);
}

OperatorList head_work(const Model& model, const Slice& slice, const Recipe& recipe) {
  detail::Builder b(model, slice, recipe);
  const TensorId x = detail::joined_streams(b, detail::streams_input(b));
  const TensorId y = detail::head_and_loss(b, "final_norm", x);
  return detail::finished_end(std::move(b), y);
}

OperatorList detail::embedding_share_work(const Model& model, const Slice& slice,
                                          const Recipe& recipe) {
  detail::Builder b(model, slice, recipe);
  const TensorId tokens = b.constant("tokens", Dtype::Int64, b.rows.inner, slice.tp);
  const TensorId y = detail::summed_over_pipeline(b, detail::looked_up(b, tokens));
  return detail::finished_end(std::move(b), y);
}

OperatorList detail::head_share_work(const Model& model, const Slice& slice, const Recipe& recipe) {
  detail::Builder b(model, slice, recipe);
  const TensorId wide =
      b.tensor("hidden_received", Dtype::Fp32, checked_mul(b.rows.outer, model.embedding_width),
               b.rows.outer_copies);
  const TensorId y = detail::loss_of(b, detail::received_hidden(b, wide));
  detail::sum_loss_over_pipeline(b);
  return detail::finished_end(std::move(b), y);
}

OperatorList mtp_work(const Model& model, const Slice& slice, const Recipe& recipe) {
  detail::Builder b(model, slice, recipe);
  const TensorId hidden = detail::hidden_input(b);
  const TensorId tokens = b.constant("tokens", Dtype::Int64, b.rows.inner, slice.tp);
  TensorId next = detail::looked_up(b, tokens);
  b.part = Part::Norm;
  next = detail::norm(b, "mtp_embedding_norm", model.final_norm, next, model.hidden);
  const TensorId normed =
      detail::norm(b, "mtp_hidden_norm", model.final_norm, hidden, model.hidden);
  const TensorId x = detail::projected(b, next, normed);
  const TensorId y = detail::head_and_loss(b, "mtp_final_norm", x);
  return detail::finished_end(std::move(b), y);
}

}  // namespace trainwright
