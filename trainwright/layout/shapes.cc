#include "trainwright/layout/shapes.h"

#include <algorithm>
#include <numeric>
#include <variant>

namespace trainwright::detail {
namespace {

void note(Shapes& shapes, const SoftmaxAttention& attention, std::int64_t hidden) {
  shapes.windows |= attention.reach != Reach::Full;
  if (shapes.heads != 0 && shapes.kv_heads != 0) return;
  shapes.heads = attention.heads;
  shapes.kv_heads = attention.kv_heads;
  shapes.head_dim = attention.head_dim;
  shapes.own_head_dim = attention.heads * attention.head_dim != hidden;
}

void note(Shapes& shapes, const LatentAttention& attention, std::int64_t) {
  if (shapes.heads != 0 && shapes.kv_heads != 0) return;
  shapes.heads = attention.heads;
  shapes.kv_heads = attention.heads;
  shapes.head_dim = attention.nope_dim + attention.rope_dim;
  shapes.own_head_dim = true;
  shapes.mla = true;
}

void note(Shapes& shapes, const CompressedAttention& attention, std::int64_t) {
  shapes.windows = true;
  if (shapes.heads != 0 && shapes.kv_heads != 0) return;
  shapes.heads = attention.heads;
  shapes.kv_heads = 1;
  shapes.head_dim = attention.head_dim;
  shapes.own_head_dim = true;
}

// Linear layers only count in a model without any softmax.
void note(Shapes& shapes, const GatedDeltaNet& attention, std::int64_t) {
  shapes.linear_heads = std::gcd(attention.key_heads, attention.value_heads);
  if (shapes.heads == 0) shapes.heads = attention.value_heads;
}

void note(Shapes& shapes, const LightningAttention& attention, std::int64_t) {
  if (shapes.heads == 0) shapes.heads = attention.heads;
}

void note(Shapes& shapes, const Mamba2& mamba, std::int64_t) {
  if (shapes.mamba_heads != 0) return;
  shapes.mamba_heads = mamba.heads;
  shapes.mamba_groups = mamba.groups;
}

void note(Shapes&, const Mamba1&, std::int64_t) {}

void note(Shapes&, const ShortConvolution&, std::int64_t) {}

void note(Shapes&, const NoAttention&, std::int64_t) {}

void note(Shapes&, const NoFeedForward&) {}

void note(Shapes& shapes, const Mlp& mlp) {
  if (shapes.ffn == 0) shapes.ffn = mlp.width;
}

void note(Shapes& shapes, const MixtureOfExperts& experts) {
  if (shapes.experts != 0) return;
  shapes.expert_bias = experts.expert.bias;
  shapes.experts = experts.experts;
  shapes.top_k = experts.experts_per_token;
  shapes.moe_ffn = experts.expert.width;
  if (!experts.shared || experts.expert.width == 0) return;
  // The shared experts are one Mlp as wide as all of them.
  shapes.shared_experts = ceil_div(experts.shared->width, experts.expert.width);
}

}  // namespace

Shapes shapes_of(const Model& model) {
  Shapes shapes;
  for (const LayerKind& kind : model.kinds) {
    std::visit([&](const auto& attention) { note(shapes, attention, model.hidden); },
               kind.attention);
    if (kind.beside_attention) {
      note(shapes, *kind.beside_attention, model.hidden);
      shapes.mamba_beside = true;
    }
    std::visit([&](const auto& feed_forward) { note(shapes, feed_forward); }, kind.feed_forward);
  }
  if (shapes.heads == 0) shapes.heads = std::max<std::int64_t>(1, shapes.mamba_heads);
  if (shapes.kv_heads == 0) shapes.kv_heads = shapes.heads;
  return shapes;
}

std::int64_t ulysses_degree(const Layout& layout) {
  if (layout.cp_kind == CpKind::Ulysses) return layout.cp;
  if (layout.cp_kind == CpKind::UlyssesRing && layout.cp > 1) {
    return std::max<std::int64_t>(1, layout.cp_ulysses);
  }
  return 1;
}

std::span<const Recompute> recomputes_of(const Layout& layout) {
  if (layout.recompute_by_stage.empty()) return {&layout.recompute, 1};
  return layout.recompute_by_stage;
}

Flags<RecomputeModule> modules_in(const Shapes& shapes) {
  Flags<RecomputeModule> modules = {RecomputeModule::CoreAttention, RecomputeModule::Norm};
  if (shapes.ffn > 0) modules.insert(RecomputeModule::Mlp);
  if (shapes.mla) modules.insert(RecomputeModule::MlaUpProjection);
  if (shapes.experts > 0) modules.insert(RecomputeModule::Moe);
  if (shapes.experts > 0) modules.insert(RecomputeModule::MoeActivation);
  if (shapes.shared_experts > 0) modules.insert(RecomputeModule::SharedExperts);
  return modules;
}

}  // namespace trainwright::detail
