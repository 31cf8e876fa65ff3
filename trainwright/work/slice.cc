#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "trainwright/work/work.h"

namespace trainwright {
namespace {

// Of one tensor before it is split: 2^48 numbers, so that bytes of thousands of layers stay below
// 2^63.
constexpr double kMostNumbers = 281474976710656.0;

}  // namespace

Slice slice_of(const Layout& layout, const Trainer& trainer, std::int64_t stage,
               std::optional<AttentionKernel> attention) {
  Slice slice{.tp = layout.tp,
              .cp = layout.cp,
              .ep = layout.ep,
              .etp = layout.etp,
              .mbs = layout.mbs,
              .seq = layout.seq,
              .vocabulary_ways = layout.vocab_parallel ? layout.pp : 1,
              .sp = layout.sp,
              .cp_kind = layout.cp_kind,
              .cp_ulysses = layout.cp_ulysses,
              .dispatcher = layout.dispatcher,
              .precision = layout.precision,
              .distribute_saved = asks(layout, Switch::DistributeSaved, trainer),
              .gradients_wait = accumulates(sharding_of(layout, trainer).life),
              .recompute = layout.recompute};
  const auto at = static_cast<std::size_t>(stage);
  if (at < layout.recompute_by_stage.size()) slice.recompute = layout.recompute_by_stage[at];
  slice.attention = attention ? *attention : recipe_of(trainer, layout.precision).attention;
  return slice;
}

std::optional<Diagnostic> too_large(const Model& model, const Slice& slice) {
  // The widest thing that a token has: the vocabulary, a row of scores, all channels of a layer.
  double widest = static_cast<double>(std::max(model.vocabulary, 8 * model.hidden));
  for (const LayerKind& kind : model.kinds) {
    for (const Weight& weight : layer_weights(model, kind)) {
      const double channels = static_cast<double>(weight.out) * static_cast<double>(weight.used);
      widest = std::max(widest, channels);
    }
    const auto* softmax = std::get_if<SoftmaxAttention>(&kind.attention);
    const auto* latent = std::get_if<LatentAttention>(&kind.attention);
    const std::int64_t heads = softmax ? softmax->heads : latent ? latent->heads : 0;
    const bool scores = slice.attention != AttentionKernel::Flash;
    if (scores)
      widest = std::max(widest, static_cast<double>(heads) * static_cast<double>(slice.seq));
  }
  // A rank has at least one token, and the parts of experts gather those of each other.
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const double tokens =
      real(slice.mbs) * std::max(real(slice.seq), real(slice.tp) * real(slice.cp));
  const bool gathers = slice.dispatcher == DispatcherKind::AllGather;
  const double gathered = real(slice.etp) * (gathers ? real(slice.ep) : 1);
  const double numbers = tokens * widest * gathered;
  if (numbers <= kMostNumbers) return std::nullopt;
  return Diagnostic{
      "layout",
      fmt::format("a micro-batch of {} sequences of {} tokens is too large to be counted",
                  slice.mbs, slice.seq),
      "choose a smaller mbs or seq"};
}

// EveryNth: of n layers the last is run again, so that n = 1 is every layer (torchtitan counts
// layers and checkpoints when the count divides).
Recompute recompute_of_layer(const Recompute& recompute, std::int64_t i) {
  const Recompute none;
  const Recompute full{.kind = RecomputeKind::Full, .modules = {}, .n = 1};
  switch (recompute.kind) {
    case RecomputeKind::Block: return i < recompute.n ? full : none;
    case RecomputeKind::EveryNth:
      return (i + 1) % std::max<std::int64_t>(1, recompute.n) == 0 ? full : none;
    case RecomputeKind::None:
    case RecomputeKind::Selective:
    case RecomputeKind::FeedForwardOnly:
    case RecomputeKind::Modules:
    case RecomputeKind::OpSelective:
    case RecomputeKind::Full: return recompute;
  }
  return recompute;
}

namespace {
template <std::size_t N, class E>
std::string_view name_in(const std::array<std::string_view, N>& names, E kind) {
  return names[static_cast<std::size_t>(kind)];
}
}  // namespace

std::string_view name_of(AttentionKernel kernel) {
  return name_in<4>({"flash", "fused-softmax", "eager", "sdpa"}, kernel);
}
std::string_view name_of(Dtype dtype) {
  return name_in<7>({"fp32", "bf16", "fp16", "fp8", "int64", "int32", "bool"}, dtype);
}
std::string_view name_of(OperatorKind kind) {
  return name_in<9>({"matmul", "attention", "norm", "elementwise", "lookup", "route", "permute",
                     "loss", "transfer"},
                    kind);
}
std::string_view name_of(CollectiveKind kind) {
  return name_in<5>({"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ring"}, kind);
}
std::string_view name_of(Pass pass) {
  return name_in<4>({"forward", "input-gradient", "weight-gradient", "recompute"}, pass);
}
std::string_view name_of(Beside beside) {
  return name_in<7>({"nothing", "own-product", "weight-gradient", "input-gradient", "ring-steps",
                     "other-micro-batch", "shared-experts"},
                    beside);
}
std::string_view name_of(Half half) { return name_in<3>({"input", "weight", "both"}, half); }

}  // namespace trainwright
