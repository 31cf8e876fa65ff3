// Mixtures of experts whose tokens are permuted to their experts and sent there, as Megatron-Core's
// token dispatchers and torchtitan do. Every expert is assumed to receive its even share.
#include <algorithm>
#include <array>

#include "trainwright/work/steps.h"

namespace trainwright::detail {
namespace {

// Tokens and rows (a token times an expert it goes to) of one rank.
struct Routing {
  std::int64_t tokens = 0;       // this rank routes
  std::int64_t tokens_sent = 0;  // if a token travels once to each rank it has an expert on
  std::int64_t sent = 0;         // rows: tokens x experts per token
  std::int64_t received = 0;     // rows its experts work on: those of etp ranks
  std::int64_t width = 0;        // numbers of a row
  std::int64_t copies = 1;       // ranks of tp that route the same tokens
  std::int64_t seen_by = 1;      // ranks whose experts see the same rows
  bool gathers_etp = false;      // the parts of an expert see each other's rows
  bool own_tokens = true;        // of what tp ranks share, this rank takes its part
};

// Ranks of tp hold the same tokens without sp. If the experts are split just like the rest, all of
// them route all tokens and sum up parts; else each takes its part of the tokens.
Routing routing(const Builder& b, const MixtureOfExperts& m) {
  Routing r;
  r.width = m.latent > 0 ? m.latent : b.model.hidden;
  r.own_tokens = b.slice.sp || b.slice.tp == 1 || b.slice.etp != b.slice.tp;
  r.tokens = r.own_tokens ? share(b.rows.inner, b.slice.tp) : b.rows.inner;
  r.copies = r.own_tokens ? 1 : b.slice.tp;
  r.sent = checked_mul(r.tokens, m.experts_per_token);
  r.tokens_sent = checked_mul(r.tokens, std::min(m.experts_per_token, b.slice.ep));
  r.gathers_etp = r.own_tokens && b.slice.etp > 1;
  r.seen_by = r.gathers_etp ? b.slice.etp : r.copies;
  r.received = r.gathers_etp ? checked_mul(r.sent, b.slice.etp) : r.sent;
  return r;
}

// DeepEP and its like send a token once to every rank, however many of its experts are there; at
// most as many as it has experts, and the copies are made on arrival.
bool sends_tokens(const Builder& b) { return is_flex(b.slice.dispatcher) && b.slice.ep > 1; }

struct Routed {
  TensorId scores, rows;  // one number per row; where each row came from
};

Routed route(Builder& b, const MixtureOfExperts& m, TensorId x) {
  b.part = Part::Router;
  const std::int64_t tokens = b.rows.outer;
  const std::int64_t copies = b.rows.outer_copies;
  const Output logits{"router_logits", m.experts};
  const TensorId scored = replicated(
      b, {.name = "router", .in = b.model.hidden, .bias = m.router_bias, .low_precision = false}, x,
      {&logits, 1})[0];
  const TensorId all = b.constant("router_probabilities", Dtype::Fp32, tokens * m.experts, copies);
  const TensorId scores = b.tensor("scores", Dtype::Fp32, tokens * m.experts_per_token, copies);
  const TensorId rows =
      b.constant("row_indices", Dtype::Int32, tokens * m.experts_per_token, copies);
  Operator& op = b.add("choose_experts", OperatorKind::Route, {scored}, {all, scores, rows});
  op.saves = {{all, Half::Input}, {rows, Half::Input}};
  op.forward.other = op.input_gradient.other = Flops(8 * real(tokens) * real(m.experts));
  return {scores, rows};
}

// Both ways over one group, the same bytes back.
void add_calls(Operator& op, CollectiveKind kind, GroupKind group, Beside beside, Bytes bytes) {
  const auto back = [](CollectiveKind k) {
    if (k == CollectiveKind::AllGather) return CollectiveKind::ReduceScatter;
    if (k == CollectiveKind::ReduceScatter) return CollectiveKind::AllGather;
    return k;
  };
  op.collectives.push_back({kind, group, Pass::Forward, beside, bytes});
  op.collectives.push_back({back(kind), group, Pass::InputGradient, beside, bytes});
}

// What a gather gives is the same on all ranks it gathers from.
TensorId transferred(Builder& b, TensorId x, std::string_view name, std::int64_t elements,
                     CollectiveKind kind, GroupKind group, std::int64_t copies) {
  const Tensor from = b.at(x);
  const TensorId y = b.tensor(name, from.dtype, elements, copies);
  const Bytes most = std::max(from.bytes(), b.at(y).bytes());
  Operator& op = b.add(name, OperatorKind::Transfer, {x}, {y});
  add_calls(op, kind, group, Beside::OtherMicroBatch, most);
  return y;
}

// Rows of so many numbers in another order; the order is kept.
TensorId reordered(Builder& b, TensorId x, TensorId order, std::string_view name, std::int64_t rows,
                   std::int64_t copies, std::int64_t width) {
  const TensorId y = b.tensor(name, b.at(x).dtype, checked_mul(rows, width), copies);
  Operator& op = b.add(name, OperatorKind::Permute, {x, order}, {y});
  op.saves = {{order, Half::Input}};
  return y;
}

// Scores scale the rows in fp32 before they are sent; the rows are needed for the scores' gradient.
TensorId scaled(Builder& b, TensorId x, TensorId scores) {
  const TensorId wide = b.like(x, "rows_fp32", Dtype::Fp32);
  b.add("widen_rows", OperatorKind::Elementwise, {x}, {wide});
  const TensorId y = b.like(x, "rows_scaled");
  Operator& op = b.add("scale_rows", OperatorKind::Elementwise, {wide, scores}, {y});
  op.saves = {{wide, Half::Input, of_input(1)}, {scores, Half::Input, of_input(0)}};
  op.forward.other = op.input_gradient.other = Flops(2 * real(b.at(x).elements));
  return y;
}

// To the ranks that hold the experts: rows of `received`, sorted by expert.
TensorId dispatched(Builder& b, const MixtureOfExperts& m, const Routing& r, const Routed& routed,
                    TensorId x) {
  const std::int64_t hidden = r.width;
  const std::int64_t ep = b.slice.ep;
  if (b.slice.dispatcher == DispatcherKind::AllGather && ep > 1) {
    TensorId all = transferred(b, x, "gather_tokens", r.tokens * ep * hidden,
                               CollectiveKind::AllGather, GroupKind::Ep, r.copies);
    if (r.gathers_etp) {
      all = transferred(b, all, "gather_etp", r.tokens * ep * b.slice.etp * hidden,
                        CollectiveKind::AllGather, GroupKind::Etp, r.seen_by);
    }
    return reordered(b, all, routed.rows, "permute", r.received, r.seen_by, r.width);
  }
  if (sends_tokens(b)) {
    const TensorId sent = transferred(b, x, "dispatch", r.tokens_sent * hidden,
                                      CollectiveKind::AllToAll, GroupKind::Ep, r.copies);
    const TensorId rows = reordered(b, sent, routed.rows, "permute", r.sent, r.copies, r.width);
    return r.gathers_etp ? transferred(b, rows, "gather_etp", r.received * hidden,
                                       CollectiveKind::AllGather, GroupKind::Etp, r.seen_by)
                         : rows;
  }
  TensorId rows = reordered(b, x, routed.rows, "permute", r.sent, r.copies, r.width);
  if (b.recipe.code.expert_scores == ExpertScores::BeforeExperts)
    rows = scaled(b, rows, routed.scores);
  if (ep > 1) {
    rows = transferred(b, rows, "dispatch", r.sent * hidden, CollectiveKind::AllToAll,
                       GroupKind::Ep, r.copies);
  }
  if (r.gathers_etp) {
    rows = transferred(b, rows, "gather_etp", r.received * hidden, CollectiveKind::AllGather,
                       GroupKind::Etp, r.seen_by);
  }
  const bool mixed = (ep > 1 || r.gathers_etp) && share(m.experts, ep) > 1;
  return mixed ? reordered(b, rows, routed.rows, "sort_rows", r.received, r.seen_by, r.width)
               : rows;
}

// Scores that are in the rows before the second product are not in its bias, so that Megatron-Core
// scales and adds it for each expert by itself, in fp32 (0.19.2 transformer/moe/experts.py
// _apply_bias). Bytes of a number: the scaled bias 4, its sum 10, their concatenation 8, the cast
// back 6; backward two casts 12, the concatenation of gradients 4, those of bias and scores 24.
void add_scaled_bias(Operator& op, const Tensor& rows) {
  constexpr std::int64_t kForward = 28, kBackward = 40;
  op.forward.converted += Bytes(checked_mul(rows.elements, kForward));
  op.input_gradient.converted += Bytes(checked_mul(rows.elements, kBackward));
}

TensorId worked_on(Builder& b, const MixtureOfExperts& m, const Routing& r, TensorId scores,
                   TensorId rows) {
  const std::int64_t width = share(m.expert.width, b.slice.etp);
  const std::int64_t held = share(m.experts, b.slice.ep);
  const std::array<Output, 2> outputs = {Output{"expert_gate", width}, Output{"expert_up", width}};
  const Matrix first{.name = m.expert.gated ? "expert_gate_up" : "expert_up",
                     .in = r.width,
                     .copies = held,
                     .bias = m.expert.bias};
  const auto of = std::span(outputs).last(m.expert.gated ? 2 : 1);
  const auto made = adapted(b, first, rows, of, product(b, first, rows, r.received, 1, of).outputs);
  const bool scale = b.recipe.code.expert_scores == ExpertScores::InActivation;
  Preactivation x{.gate = made[0],
                  .up = made[made.size() - 1],
                  .scores = scores,
                  .gated = m.expert.gated,
                  .bias = m.expert.bias,
                  .has_scores = scale,
                  .activation = m.expert.activation};
  TensorId activated;
  {
    const InModule module(b, RecomputeModule::MoeActivation);
    activated = activation(b, x);
  }
  const Output out{"expert_out", r.width, r.seen_by};
  const Matrix second{.name = "expert_down", .in = width, .copies = held, .bias = m.expert.bias};
  const auto worked = product(b, second, activated, r.received, 1, {&out, 1}).outputs;
  if (m.expert.bias && scale) add_scaled_bias(b.last(), b.at(worked[0]));
  return adapted(b, second, activated, {&out, 1}, worked, Cut::Rows)[0];
}

// Back to where the tokens came from, summed over the experts of each.
TensorId combined(Builder& b, const Routing& r, const Routed& routed, TensorId rows) {
  const std::int64_t hidden = r.width;
  const std::int64_t ep = b.slice.ep;
  if (b.slice.dispatcher == DispatcherKind::AllGather && ep > 1) {
    const std::int64_t etp = r.gathers_etp ? b.slice.etp : 1;
    rows = reordered(b, rows, routed.rows, "unpermute", r.tokens * ep * etp, r.seen_by, r.width);
    if (r.gathers_etp) {
      rows = transferred(b, rows, "scatter_etp", r.tokens * ep * hidden,
                         CollectiveKind::ReduceScatter, GroupKind::Etp, r.copies);
    }
    return transferred(b, rows, "scatter_tokens", r.tokens * hidden, CollectiveKind::ReduceScatter,
                       GroupKind::Ep, r.copies);
  }
  if (r.gathers_etp) {
    rows = transferred(b, rows, "scatter_etp", r.sent * hidden, CollectiveKind::ReduceScatter,
                       GroupKind::Etp, r.copies);
  }
  const bool at_combine = b.recipe.code.expert_scores == ExpertScores::AtCombine;
  if (sends_tokens(b)) {
    rows = reordered(b, rows, routed.rows, "sum_rows", r.tokens_sent, r.copies, r.width);
    // Copies of a token are added up as they arrive (DeepEP csrc/kernels/intranode.cu combine).
    const std::int64_t arriving = at_combine ? r.tokens_sent : r.tokens;
    rows = transferred(b, rows, "combine", arriving * hidden, CollectiveKind::AllToAll,
                       GroupKind::Ep, r.copies);
    if (!at_combine) return rows;
  } else if (ep > 1) {
    rows = transferred(b, rows, "combine", r.sent * hidden, CollectiveKind::AllToAll, GroupKind::Ep,
                       r.copies);
  }
  // The layer's variables hold the rows as permuted and as received, and those sent back.
  const Bytes one = b.at(rows).bytes();
  const bool holds = b.recipe.code.expert_rows_stay && ep > 1 && !sends_tokens(b);
  if (holds) b.last().workspace += one * 2;
  const TensorId y = b.tensor("routed_out", b.at(rows).dtype, r.tokens * hidden, r.copies);
  Operator& op = b.add("unpermute", OperatorKind::Permute, {rows, routed.rows}, {y});
  op.saves = {{routed.rows, Half::Input}};
  if (holds) op.workspace = one * 3;
  if (at_combine) {
    op.inputs.push_back(routed.scores);
    op.saves.push_back({rows, Half::Input, of_input(2)});
    op.saves.push_back({routed.scores, Half::Input, of_input(0)});
  }
  op.forward.other = op.input_gradient.other = Flops(2 * real(b.at(rows).elements));
  return y;
}

TensorId shared_experts(Builder& b, const MixtureOfExperts& m, TensorId x) {
  b.part = Part::SharedExperts;
  const InModule module(b, RecomputeModule::SharedExperts);
  const TensorId y =
      feed_forward(b, *m.shared, x, {"shared_gate_up", "shared_gate", "shared_up", "shared_down"});
  if (!m.shared_gate) return y;
  const Output out{"shared_scale", 1};
  const TensorId gate = replicated(
      b, {.name = "shared_scale", .in = b.model.hidden, .low_precision = false}, x, {&out, 1})[0];
  const TensorId gated = b.like(y, "shared_gated");
  Operator& op = b.add("shared_gate", OperatorKind::Elementwise, {y, gate}, {gated});
  op.saves = {{y, Half::Input, of_input(1)}, {gate, Half::Input, of_input(0)}};
  op.forward.other = op.input_gradient.other = Flops(real(b.at(y).elements));
  return gated;
}

// The result of the routed experts for the rows that the layer has.
TensorId whole_again(Builder& b, const Routing& r, TensorId y) {
  if (b.slice.tp == 1 || b.slice.sp) return y;
  const std::int64_t elements = checked_mul(b.rows.outer, r.width);
  const Bytes bytes = Bytes(checked_mul(elements, byte_size(b.at(y).dtype)));
  if (!r.own_tokens) {
    b.last().collectives.push_back(
        {CollectiveKind::AllReduce, GroupKind::Tp, Pass::Forward, Beside::Nothing, bytes});
    return y;
  }
  const TensorId all = b.tensor("routed_gathered", b.at(y).dtype, elements, b.slice.tp);
  Operator& op = b.add("gather_own_tokens", OperatorKind::Transfer, {y}, {all});
  op.collectives.push_back(
      {CollectiveKind::AllGather, GroupKind::Tp, Pass::Forward, Beside::Nothing, bytes});
  return all;
}

}  // namespace

// Megatron-Core 0.16 and later (transformer/moe/moe_layer.py fc1_latent_proj) and transformers
// 5.22.2 (nemotron_h): every rank of tp holds both matrices whole.
TensorId into_latent(Builder& b, const MixtureOfExperts& m, TensorId x) {
  if (m.latent == 0) return x;
  b.part = Part::SharedExperts;
  const Output out{"latent", m.latent};
  return replicated(b, {.name = "latent_down", .in = b.model.hidden, .bias = m.latent_bias}, x,
                    {&out, 1})[0];
}

TensorId out_of_latent(Builder& b, const MixtureOfExperts& m, TensorId y) {
  if (m.latent == 0) return y;
  b.part = Part::SharedExperts;
  const Output out{"routed_wide", b.model.hidden};
  return replicated(b, {.name = "latent_up", .in = m.latent, .bias = m.latent_bias}, y,
                    {&out, 1})[0];
}

TensorId permuted_mixture(Builder& b, const MixtureOfExperts& m, TensorId x) {
  const Routing r = routing(b, m);
  // Shared experts run first, unless they are hidden behind the exchange.
  const TensorId shared = m.shared ? shared_experts(b, m, x) : x;
  const Routed routed = route(b, m, x);
  const TensorId narrow = into_latent(b, m, x);
  b.part = Part::RoutedExperts;
  const TensorId rows = dispatched(b, m, r, routed, narrow);
  const TensorId worked = worked_on(b, m, r, routed.scores, rows);
  TensorId y = out_of_latent(b, m, whole_again(b, r, combined(b, r, routed, worked)));
  if (!m.shared) return y;
  const TensorId sum = b.like(y, "experts_out");
  Operator& op = b.add("add_shared", OperatorKind::Elementwise, {y, shared}, {sum});
  op.gradients_passed = 2;
  op.forward.other = Flops(real(b.at(sum).elements));
  return sum;
}

}  // namespace trainwright::detail
