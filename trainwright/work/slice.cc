#include <algorithm>
#include <array>

#include "trainwright/base/hash.h"
#include "trainwright/work/work.h"

namespace trainwright {
namespace {

bool excludes_fused_gradients(const Layout& layout, const Trainer& trainer) {
  const ShardingFacts* facts = find_kind(trainer.shardings, layout.sharding);
  if (facts == nullptr) return false;
  return std::find(facts->without.begin(), facts->without.end(),
                   KernelKind::FusedGradientAccumulation) != facts->without.end();
}

// Sharded weights are gathered in the dtype of products; whole ones stay as they are.
bool casts_weights(const Layout& layout, const Trainer& trainer) {
  const PrecisionFacts* facts = find_kind(trainer.precisions, layout.precision);
  return facts != nullptr && layout.sharding == ShardingKind::Ddp && facts->compute != "fp32" &&
         facts->master == "none";
}

}  // namespace

std::size_t SliceHash::operator()(const Slice& s) const {
  Hash hash;
  hash.add(s.tp | s.cp << 24);
  hash.add(s.ep | s.etp << 24);
  hash.add(s.mbs | s.vocabulary_ways << 36);
  hash.add(s.seq);
  hash.add(s.cp_ulysses << 32 | static_cast<std::int64_t>(s.cp_kind) << 24 |
           static_cast<std::int64_t>(s.dispatcher) << 16 |
           static_cast<std::int64_t>(s.precision) << 8 |
           static_cast<std::int64_t>(s.attention) << 2 | (s.sp ? 2 : 0) |
           (s.distribute_saved ? 1 : 0) | (s.gradients_wait ? std::int64_t{1} << 62 : 0) |
           (s.own_gradients ? std::int64_t{1} << 61 : 0));
  hash.add(s.recompute.n << 40 | static_cast<std::int64_t>(s.recompute.modules.bits) << 8 |
           static_cast<std::int64_t>(s.recompute.kind) << 2 | (s.frozen ? 2 : 0) |
           (s.input_gradient ? 1 : 0));
  return hash.value();
}

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
              // Lists are those of flex whatever its backend.
              .dispatcher = is_flex(layout.dispatcher) ? DispatcherKind::Flex : layout.dispatcher,
              .precision = layout.precision,
              .distribute_saved = asks(layout, Switch::DistributeSaved, trainer),
              .gradients_wait = accumulates(sharding_of(layout, trainer).life),
              .own_gradients = excludes_fused_gradients(layout, trainer),
              .compiled = asks(layout, Switch::Compile, trainer),
              .autocast = casts_weights(layout, trainer),
              .weights_rounded = sharding_of(layout, trainer).fp8_gather,
              .loss = static_cast<std::uint8_t>(running_loss(layout, trainer)),
              .recompute = layout.recompute};
  const auto at = static_cast<std::size_t>(stage);
  if (at < layout.recompute_by_stage.size()) slice.recompute = layout.recompute_by_stage[at];
  slice.attention = attention ? *attention : usual_attention(trainer);
  return slice;
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
  return name_in<10>(
      {"fp32", "bf16", "fp16", "fp8", "int64", "int32", "bool", "nvfp4", "mxfp4", "nf4"}, dtype);
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
