// A layer: norms, the attention branch, the feed-forward branch, and how they are put together.
#include <array>

#include "trainwright/work/attention.h"
#include "trainwright/work/eager.h"
#include "trainwright/work/steps.h"
#include "trainwright/work/streams.h"

namespace trainwright {
namespace detail {

TensorId feed_forward(Builder& b, const Mlp& mlp, TensorId x, const MlpNames& names) {
  const std::int64_t width = share(mlp.width, b.slice.tp);
  std::array<Output, 2> outputs = {Output{names.gate, width}, Output{names.up, width}};
  std::size_t used = mlp.gated ? 2 : 1;
  if (mlp.gated && !b.recipe.code.permutes_tokens && b.model.style.joined_feed_forward) {
    // Of which gate and up are views.
    outputs.back() = {.name = names.joined,
                      .width = 2 * width,
                      .matrices = {*layer_matrix(names.gate), *layer_matrix(names.up)}};
    used = 1;
  }
  const auto made = columns(
      b, {.name = mlp.gated ? names.joined : names.up, .in = b.model.hidden, .bias = mlp.bias}, x,
      std::span(outputs).last(used));
  const TensorId activated = activation(b, {.gate = made[0],
                                            .up = made[made.size() - 1],
                                            .scores = {},
                                            .gated = mlp.gated,
                                            .bias = mlp.bias,
                                            .activation = mlp.activation});
  return rows(b, {.name = names.down, .in = width, .bias = mlp.bias}, activated,
              "feed_forward_out");
}

namespace {

TensorId layer_norm(Builder& b, std::string_view name, Norm kind, TensorId x) {
  b.part = Part::Norm;
  return norm(b, name, kind, x, b.model.hidden);
}

// A norm that a branch begins with: its output may be dropped and made again, unless it is part of
// the product that follows.
TensorId norm_before_attention(Builder& b, const LayerKind& kind, TensorId x) {
  const bool part =
      b.recipe.code.norm_in_product && !std::holds_alternative<LatentAttention>(kind.attention);
  const Flags<RecomputeModule> outside = b.modules;
  if (!part) b.modules.insert(RecomputeModule::Norm);
  const TensorId y = layer_norm(b, "before_attention", kind.before_attention, x);
  b.modules = outside;
  return y;
}

TensorId norm_before_feed_forward(Builder& b, const LayerKind& kind, TensorId x) {
  const bool part = b.recipe.code.norm_in_product && std::holds_alternative<Mlp>(kind.feed_forward);
  const InModule module(b, part ? RecomputeModule::Mlp : RecomputeModule::Norm);
  return layer_norm(b, "before_feed_forward", kind.before_feed_forward, x);
}

TensorId feed_forward_branch(Builder& b, const FeedForward& branch, TensorId x) {
  if (const auto* m = std::get_if<MixtureOfExperts>(&branch)) return mixture(b, *m, x);
  b.part = Part::DenseFeedForward;
  const InModule module(b, RecomputeModule::Mlp);
  return feed_forward(b, std::get<Mlp>(branch), x, {"gate_up", "gate", "up", "down"});
}

TensorId added(Builder& b, TensorId x, TensorId branch) {
  b.part = Part::Norm;
  return residual(b, x, branch);
}

// x times a number of the config: a copy. Falcon-H1's classes scale whatever enters and leaves a
// mixer, also by one.
TensorId scaled(Builder& b, TensorId x, std::string_view name) {
  const TensorId y = b.like(x, name);
  each(b, "scale", {x}, y);
  return y;
}

// Attention, and the state-space mixer beside it.
TensorId mixed(Builder& b, const LayerKind& kind, TensorId x) {
  if (!kind.beside_attention) return attention(b, kind.attention, x);
  b.part = Part::SelfAttention;
  const TensorId first = mamba2(b, *kind.beside_attention, scaled(b, x, "mamba_input"));
  const TensorId state = scaled(b, first, "mamba_out_scaled");
  const TensorId second = attention(b, kind.attention, scaled(b, x, "attention_input"));
  const TensorId attended = scaled(b, second, "attention_out_scaled");
  const TensorId sum = b.like(state, "mixed");
  each(b, "add_mixers", {state, attended}, sum).gradients_passed = 2;
  return sum;
}

TensorId parallel_layer(Builder& b, const LayerKind& kind, TensorId x) {
  const TensorId first = norm_before_attention(b, kind, x);
  const TensorId second =
      kind.before_feed_forward == Norm::None ? first : norm_before_feed_forward(b, kind, x);
  const TensorId attended = mixed(b, kind, first);
  const TensorId fed = feed_forward_branch(b, kind.feed_forward, second);
  return added(b, added(b, x, attended), fed);
}

// x + after(branch), or after(x + branch).
TensorId joined(Builder& b, const LayerKind& kind, std::string_view name, Norm after, TensorId x,
                TensorId branch) {
  if (kind.norm_after_residual) return layer_norm(b, name, after, added(b, x, branch));
  return added(b, x, layer_norm(b, name, after, branch));
}

bool is_of_attention(const Extra& extra) { return extra.part == Extra::Part::SelfAttention; }

// Weights that the family has beside those of its branches.
TensorId with_extras(Builder& b, const LayerKind& kind, bool of_attention, TensorId x, TensorId y) {
  for (const Extra& one : kind.extras) {
    if (is_of_attention(one) == of_attention) y = extra(b, one, x, y);
  }
  return y;
}

TensorId sequential_layer(Builder& b, const LayerKind& kind, TensorId x) {
  TensorId y = x;
  if (!std::holds_alternative<NoAttention>(kind.attention)) {
    y = norm_before_attention(b, kind, x);
    y = with_extras(b, kind, true, y, mixed(b, kind, y));
    x = joined(b, kind, "after_attention", kind.after_attention, x, y);
  }
  if (std::holds_alternative<NoFeedForward>(kind.feed_forward)) return x;
  y = norm_before_feed_forward(b, kind, x);
  y = with_extras(b, kind, false, y, feed_forward_branch(b, kind.feed_forward, y));
  return joined(b, kind, "after_feed_forward", kind.after_feed_forward, x, y);
}

// Around each branch the streams are collapsed, and its result is laid on all of them.
TensorId layer_of_streams(Builder& b, const LayerKind& kind, TensorId streams) {
  Collapsed in = collapse(b, "attention_mix", streams);
  TensorId y = mixed(b, kind, norm_before_attention(b, kind, in.hidden));
  y = layer_norm(b, "after_attention", kind.after_attention, y);
  streams = expand(b, streams, with_extras(b, kind, true, in.hidden, y), in);
  in = collapse(b, "feed_forward_mix", streams);
  y = feed_forward_branch(b, kind.feed_forward, norm_before_feed_forward(b, kind, in.hidden));
  y = layer_norm(b, "after_feed_forward", kind.after_feed_forward, y);
  return expand(b, streams, with_extras(b, kind, false, in.hidden, y), in);
}

// Only a part of the input is kept, and gathered over tp before the layer is run again.
TensorId input_in_parts(Builder& b, TensorId x) {
  const Tensor whole = b.at(x);
  const TensorId part = b.tensor("input_part", whole.dtype, share(whole.elements, b.slice.tp));
  b.add("keep_part", OperatorKind::Elementwise, {x}, {part}).gradients_passed = 1;
  const TensorId again = b.like(x, "input_again");
  Operator& op = b.add("gather_part", OperatorKind::Transfer, {part}, {again});
  op.collectives.push_back(
      {CollectiveKind::AllGather, GroupKind::Tp, Pass::Recompute, Beside::Nothing, whole.bytes()});
  return again;
}

}  // namespace
}  // namespace detail

OperatorList layer_work(const Model& model, const LayerKind& kind, const Slice& slice,
                        const Recipe& recipe) {
  using namespace detail;
  Builder b(model, slice, recipe);
  TensorId x = b.tensor("hidden", b.stream(),
                        checked_mul(checked_mul(b.rows.outer, model.hidden), model.streams),
                        b.rows.outer_copies);
  const bool in_parts = slice.recompute.kind == RecomputeKind::Full && slice.distribute_saved &&
                        slice.tp > 1 && !slice.sp;
  if (in_parts) x = input_in_parts(b, x);
  const TensorId y = model.streams > 1 ? layer_of_streams(b, kind, x)
                     : kind.parallel   ? parallel_layer(b, kind, x)
                                       : sequential_layer(b, kind, x);
  const TensorId output = with_layer_input(b, kind, y);
  return finished_layer(std::move(b), output);
}

}  // namespace trainwright
