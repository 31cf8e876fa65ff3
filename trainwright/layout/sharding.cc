#include "trainwright/layout/sharding.h"

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/layout/layout.h"

namespace trainwright {
namespace {

Sharers dense_sharers(const Layout& layout) {
  if (layout.zero == 0) return {1, layout.dp * layout.cp, GroupKind::Shard, GroupKind::DpCp};
  return {.ways = dp_shard(layout) * layout.cp, .replicas = layout.dp_replicate};
}

// Replicas of a sharded state are replicas of experts, too; where there are fewer ranks than that,
// nothing is shared.
Sharers expert_sharers(const Layout& layout) {
  const std::int64_t ranks = std::max<std::int64_t>(1, expert_dp(layout));
  if (layout.zero == 0) return {1, ranks, GroupKind::ExpertShard, GroupKind::Edp};
  const std::int64_t ways = std::max<std::int64_t>(1, ranks / layout.dp_replicate);
  return {ways, ranks / ways, GroupKind::ExpertShard, GroupKind::ExpertReplicate};
}

bool is_pytorch_fsdp(ShardingKind kind) {
  return kind == ShardingKind::Fsdp || kind == ShardingKind::Hsdp;
}

Gather gather_of(const Layout& layout, bool fsdp) {
  if (fsdp && layout.pp > 1) return Gather::Step;
  if (layout.zero == 3) return Gather::Pass;
  return fsdp ? Gather::MicroBatch : Gather::Step;
}

}  // namespace

Sharding sharding_of(const Layout& layout, const Trainer& trainer) {
  Sharding sharding;
  sharding.dense = dense_sharers(layout);
  sharding.expert = expert_sharers(layout);
  if (const ShardingFacts* facts = find_kind(trainer.shardings, layout.sharding)) {
    sharding.life = facts->gradients;
    if (layout.zero == 3) sharding.host_per_module = facts->host_per_module;
  }
  const PrecisionFacts* precision = find_kind(trainer.precisions, layout.precision);
  if (precision != nullptr && precision->gradient_life) sharding.life = *precision->gradient_life;
  if (layout.zero == 0) return sharding;
  const bool fsdp = is_pytorch_fsdp(layout.sharding);
  sharding.states = true;
  sharding.gradients = layout.zero >= 2;
  sharding.weights = layout.zero == 3 || fsdp;
  if (sharding.dense.ways > 1 || sharding.expert.ways > 1) {
    sharding.gather = gather_of(layout, fsdp);
  }
  // Where no rank has a whole gradient to add to, every micro-batch reduces its own.
  const bool whole = fsdp && layout.pp > 1;
  sharding.reduce = sharding.gradients && !whole ? Reduce::MicroBatch : Reduce::Step;
  sharding.by_unit = sharding.weights || layout.sharding == ShardingKind::MegatronFsdp;
  sharding.flat_buffers = fsdp;
  sharding.fp8_gather = asks(layout, Switch::Fp8ParameterGather, trainer);
  return sharding;
}

std::int64_t gathers(const Sharding& sharding, std::int64_t micro_batches) {
  switch (sharding.gather) {
    case Gather::Never: return 0;
    case Gather::Step: return 1;
    case Gather::MicroBatch: return micro_batches;
    case Gather::Pass: return 2 * micro_batches;
  }
  TW_CHECK(false, "no such time to gather");
}

std::int64_t reductions(const Sharding& sharding, std::int64_t micro_batches) {
  return sharding.reduce == Reduce::Step ? 1 : micro_batches;
}

Flags<Offload> offloaded(const Layout& layout, const Trainer& trainer) {
  Flags<Offload> moved = layout.offload;
  const auto* states = find_kind(trainer.offloads, Offload::Optimizer);
  const auto* parameters = find_kind(trainer.offloads, Offload::Parameters);
  const bool one =
      states != nullptr && parameters != nullptr && states->setting == parameters->setting;
  if (one && (moved.has(Offload::Optimizer) || moved.has(Offload::Parameters))) {
    moved.insert(Offload::Optimizer);
    moved.insert(Offload::Parameters);
  }
  return moved;
}

ZeroRange zero_range(ShardingKind kind) {
  switch (kind) {
    case ShardingKind::Ddp: return {0, 0};
    case ShardingKind::Zero: return {1, 3};
    case ShardingKind::Fsdp:
    case ShardingKind::Hsdp: return {2, 3};
    case ShardingKind::MegatronFsdp: return {0, 3};
  }
  TW_CHECK(false, "no such sharding");
}

}  // namespace trainwright
