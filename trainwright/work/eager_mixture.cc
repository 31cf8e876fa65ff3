// A mixture of experts as transformers runs it with grouped_mm: tokens sorted by expert, two
// grouped products, scores applied to what comes out, order restored. Nothing is dropped or padded.
// With expert parallelism the sorted tokens cross by all_to_all_single and are sorted again by
// expert on the other side; ranks are taken to receive as much as they send.
//
// Experts that are cut over tp see the tokens of all its ranks, which sum up what they have made
// (gate_up_proj by columns, down_proj by rows): transformers 5.22.2 configuration_mixtral.py
// base_model_tp_plan and distributed/tensor_parallel.py MoeExpertsParallel, where gradients of the
// scores are summed too; torchtitan 0.2.2 distributed/expert_parallel.py TensorParallel and
// models/llama4/infra/parallelize.py.
#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

struct Routed {
  TensorId scores;                     // tokens x experts per token
  std::int64_t tokens = 0, pairs = 0;  // pairs: of token and expert
  std::int64_t copies = 1;
};

Operator& routing(Operator& op) {
  op.kind = OperatorKind::Route;
  return op;
}

// The router's product. In fp32 it needs a copy of its weight too, which then stays for backward.
TensorId logits(Builder& b, const MixtureOfExperts& m, TensorId x, const Routed& routed) {
  const bool wide = b.model.style.router_in_fp32;
  const TensorId input = wide ? cast(b, "router_input", x, Dtype::Fp32) : x;
  const TensorId result = b.tensor("router_logits", b.at(input).dtype,
                                   checked_mul(routed.tokens, m.experts), routed.copies);
  const Flops work = Flops(2 * real(routed.tokens) * real(m.experts) * real(b.model.hidden));
  Operator& op = b.add("router", OperatorKind::Route, {input}, {result});
  op.forward.matmul = op.input_gradient.matmul = op.weight_gradient.matmul = work;
  op.saves.push_back({input, Half::Weight});
  op.trained = b.trains();
  op.has_weight = true;
  if (wide && b.recipe.weight != Dtype::Fp32) {
    const TensorId weight =
        b.tensor("router_weight", Dtype::Fp32, checked_mul(m.experts, b.model.hidden),
                 b.slice.tp * b.slice.cp);
    b.last().outputs.push_back(weight);
    b.last().saves.push_back({weight, Half::Input, of_input(0)});
  }
  return result;
}

// What experts are scaled by. A division is in place where autograd has copied what it overwrites.
TensorId divided(Builder& b, const MixtureOfExperts& m, TensorId best, const Routed& routed) {
  const TensorId sum = b.tensor("scores_sum", b.at(best).dtype, routed.tokens, routed.copies);
  routing(each(b, "sum", {best}, sum, real(m.experts_per_token)));
  const TensorId scores = b.like(best, "scores");
  routing(each(b, "divide", {best, sum}, scores)).saves = {{best, Half::Input}, {sum, Half::Input}};
  return scores;
}

// Softmax or sigmoid of all scores and the best ones, divided by their sum; or the best ones and
// their softmax.
Routed route(Builder& b, const MixtureOfExperts& m, TensorId x) {
  const CodeStyle& style = b.model.style;
  Routed routed;
  routed.tokens = b.at(x).elements / b.model.hidden;
  routed.pairs = checked_mul(routed.tokens, m.experts_per_token);
  routed.copies = b.at(x).copies;
  TensorId from = logits(b, m, x, routed);
  if (style.scores_in_fp32) from = cast(b, "router_logits", from, Dtype::Fp32);
  const auto score = [&](TensorId of, std::string_view name) {
    const TensorId scores = b.like(of, name);
    Operator& op = routing(each(b, "score", {of}, scores, 4));
    op.saves.push_back({scores, Half::Input});
    if (style.scores_by_root) op.saves.push_back({of, Half::Input});
    return scores;
  };
  const auto choose = [&](TensorId of) {
    const TensorId best = b.tensor("scores_chosen", b.at(of).dtype, routed.pairs, routed.copies);
    const TensorId chosen = b.constant("experts_chosen", Dtype::Int64, routed.pairs, routed.copies);
    b.add("choose", OperatorKind::Route, {of}, {best, chosen})
        .saves.push_back({chosen, Half::Input});
    return best;
  };
  if (style.scores_of_chosen) {
    routed.scores = score(choose(from), "router_scores");
  } else {
    routed.scores = choose(score(from, "router_scores"));
    if (style.scores_divided) routed.scores = divided(b, m, routed.scores, routed);
  }
  if (style.scores_narrowed) {
    routed.scores = cast(b, "scores_narrow", routed.scores, b.at(x).dtype);
  }
  return routed;
}

// Rows in another order. Of that order backward needs the indices, one each row.
TensorId reordered(Builder& b, std::string_view name, TensorId x, std::int64_t rows,
                   std::string_view index, std::int64_t width) {
  const TensorId order = b.constant(index, Dtype::Int64, rows, b.at(x).copies);
  const TensorId result = b.tensor(name, b.at(x).dtype, checked_mul(rows, width), b.at(x).copies);
  Operator& op = b.add("reorder", OperatorKind::Permute, {x}, {result, order});
  op.saves.push_back({order, Half::Input});
  return result;
}

TensorId crossed(Builder& b, std::string_view name, TensorId x) {
  const TensorId result = b.like(x, name);
  Operator& op = b.add("all_to_all", OperatorKind::Transfer, {x}, {result});
  const Bytes bytes = b.at(x).bytes();
  op.collectives.push_back(
      {CollectiveKind::AllToAll, GroupKind::Ep, Pass::Forward, Beside::OtherMicroBatch, bytes});
  op.collectives.push_back({CollectiveKind::AllToAll, GroupKind::Ep, Pass::InputGradient,
                            Beside::OtherMicroBatch, bytes});
  return result;
}

// One grouped product; `offsets` of the groups, int32, is saved by both. By rows it is of a part of
// each expert's inputs and makes a part of the sum.
TensorId grouped(Builder& b, const MixtureOfExperts& m, std::string_view name, TensorId x,
                 TensorId offsets, std::int64_t rows, std::int64_t in, std::int64_t out, Cut cut) {
  const std::int64_t copies =
      cut == Cut::Rows ? b.at(x).copies * b.slice.etp : b.at(x).copies / b.slice.etp;
  const TensorId result = b.tensor(name, b.at(x).dtype, checked_mul(rows, out), copies);
  const Flops work = Flops(2 * real(rows) * real(in) * real(out));
  Operator& op = b.add(name, OperatorKind::Matmul, {x, offsets}, {result});
  op.forward.matmul = op.input_gradient.matmul = op.weight_gradient.matmul = work;
  op.saves = {{x, Half::Weight}, {offsets, Half::Both}};
  op.trained = b.trains();
  op.has_weight = true;
  const Matrix matrix{.name = name, .in = in, .copies = share(m.experts, b.slice.ep)};
  Output output{name, out, copies};
  if (name == "expert_gate_up") output.matrices = {LayerMatrix::ExpertGate, LayerMatrix::ExpertUp};
  set_matrix(op, matrix, {&output, 1});
  quantise(b, matrix, x, op);
  return adapted(b, matrix, x, {&output, 1}, {result}, cut)[0];
}

TensorId expert_activation(Builder& b, const Mlp& expert, TensorId up) {
  const InModule module(b, RecomputeModule::MoeActivation);
  return eager_activation(b, {.gate = up,
                              .up = up,
                              .scores = up,
                              .gated = expert.gated,
                              .bias = expert.bias,
                              .has_scores = false,
                              .activation = expert.activation});
}

// To each row that of its expert, in place; which one it is stays.
void add_bias(Builder& b, TensorId rows, TensorId expert_of_row) {
  Operator& op = each(b, "add_bias", {rows}, rows);
  op.inputs.push_back(expert_of_row);
  op.saves.push_back({expert_of_row, Half::Input});
  op.gradients_passed = 1;
  op.trained = b.trains();
}

TensorId experts(Builder& b, const MixtureOfExperts& m, TensorId x, const Routed& routed) {
  const std::int64_t hidden = m.latent > 0 ? m.latent : b.model.hidden;
  const bool parallel = b.slice.ep > 1;
  TensorId sent = reordered(b, "expert_input", x, routed.pairs, "token_of_pair", hidden);
  // The order itself, which also sorts the scores.
  const TensorId scores = reordered(b, "scores_sorted", routed.scores, routed.pairs, "order", 1);
  if (parallel) {
    sent = crossed(b, "received", sent);
    sent = reordered(b, "expert_input", sent, routed.pairs, "order_received", hidden);
  }
  const TensorId offsets = b.constant("offsets", Dtype::Int32, share(m.experts, b.slice.ep));
  b.add("count", OperatorKind::Permute, {}, {offsets});
  const std::int64_t width = share(m.expert.width, b.slice.etp);
  const TensorId up = grouped(b, m, "expert_gate_up", sent, offsets, routed.pairs, hidden,
                              m.expert.gated ? 2 * width : width, Cut::Whole);
  TensorId expert_of_row;
  if (m.expert.bias) {
    expert_of_row = b.constant("expert_of_row", Dtype::Int64, routed.pairs, b.at(sent).copies);
    b.add("sort_experts", OperatorKind::Permute, {}, {expert_of_row});
    add_bias(b, up, expert_of_row);
  }
  const TensorId activated = expert_activation(b, m.expert, up);
  TensorId down =
      grouped(b, m, "expert_down", activated, offsets, routed.pairs, width, hidden, Cut::Rows);
  if (m.expert.bias) add_bias(b, down, expert_of_row);
  if (parallel) {
    down = reordered(b, "expert_output", down, routed.pairs, "order_back", hidden);
    down = crossed(b, "returned", down);
  }
  // Scores in fp32 make the product fp32, too.
  const Dtype dtype = b.at(scores).dtype == Dtype::Fp32 ? Dtype::Fp32 : b.at(down).dtype;
  const TensorId weighted = b.like(down, "expert_weighted", dtype);
  each(b, "weigh", {down, scores}, weighted).saves = {{down, Half::Input, of_input(1)},
                                                      {scores, Half::Input, of_input(0)}};
  const TensorId ordered =
      reordered(b, "expert_ordered", weighted, routed.pairs, "order_restored", hidden);
  const TensorId sum =
      b.tensor("experts_sum", dtype, checked_mul(routed.tokens, hidden), routed.copies);
  each(b, "sum_experts", {ordered}, sum, real(m.experts_per_token));
  return cast(b, "experts_output", sum, b.at(x).dtype);
}

// Of all ranks that have a part of each expert; with sequence parallelism for a rank's own tokens.
TensorId summed_over_parts(Builder& b, TensorId y, const Routed& routed) {
  if (b.slice.etp == 1) return y;
  const auto call = [&](CollectiveKind kind, Pass pass, TensorId of) {
    b.last().collectives.push_back({kind, GroupKind::Tp, pass, Beside::Nothing, b.at(of).bytes()});
  };
  if (!b.slice.sp) {
    call(CollectiveKind::AllReduce, Pass::Forward, y);
    call(CollectiveKind::AllReduce, Pass::InputGradient, y);  // of what all of them have read
    call(CollectiveKind::AllReduce, Pass::InputGradient, routed.scores);
    return y;
  }
  const TensorId own = b.tensor("mixture_own", b.at(y).dtype, b.at(y).elements / b.slice.tp);
  b.add("scatter_tokens", OperatorKind::Transfer, {y}, {own});
  call(CollectiveKind::ReduceScatter, Pass::Forward, y);
  call(CollectiveKind::AllGather, Pass::InputGradient, y);
  return own;
}

// The shared experts, scaled by a number of each token where the family has a gate for them.
TensorId shared_experts(Builder& b, const MixtureOfExperts& m, TensorId x) {
  b.part = Part::SharedExperts;
  const InModule module(b, RecomputeModule::SharedExperts);
  const TensorId y =
      feed_forward(b, *m.shared, x, {"shared_gate_up", "shared_gate", "shared_up", "shared_down"});
  if (!m.shared_gate) return y;
  const Output out{"shared_scale", 1};
  const TensorId logit = replicated(
      b, {.name = "shared_scale", .in = b.model.hidden, .low_precision = false}, x, {&out, 1})[0];
  const TensorId scale = b.like(logit, "shared_sigmoid");
  each(b, "sigmoid", {logit}, scale, 4).saves.push_back({scale, Half::Input});
  const TensorId scaled = b.like(y, "shared_scaled");
  each(b, "scale_shared", {scale, y}, scaled).saves = {{scale, Half::Input, of_input(1)},
                                                       {y, Half::Input, of_input(0)}};
  return scaled;
}

}  // namespace

TensorId eager_mixture(Builder& b, const MixtureOfExperts& m, TensorId x) {
  b.part = Part::Router;
  const TensorId seen = b.slice.etp > 1 ? gathered(b, "mixture_input", x) : x;
  const Routed routed = route(b, m, seen);
  const TensorId narrow = into_latent(b, m, seen);
  b.part = Part::RoutedExperts;
  const TensorId summed = summed_over_parts(b, experts(b, m, narrow, routed), routed);
  const TensorId routed_output = out_of_latent(b, m, summed);
  if (!m.shared) return routed_output;
  const TensorId shared = shared_experts(b, m, x);
  const TensorId sum = b.like(routed_output, "mixture");
  each(b, "add_shared", {routed_output, shared}, sum).gradients_passed = 2;
  return sum;
}

}  // namespace trainwright::detail
