// Numbers that follow from a layout.
#include "trainwright/layout/layout.h"

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/layout/product.h"

namespace trainwright {
namespace {

using detail::product_or_most;

// How a trainer treats what a switch is about, when nobody asks.
Use usual_use(const Trainer& trainer, Switch what) {
  if (const auto overlap = overlap_of(what)) return overlap_use(trainer, *overlap);
  if (what != Switch::GroupedGemm) return Use::OptIn;
  const Kernel* kernel = find_kernel(trainer, KernelKind::GroupedGemm);
  return kernel == nullptr ? Use::Never : kernel->use;
}

}  // namespace

std::optional<OverlapKind> overlap_of(Switch what) {
  switch (what) {
    case Switch::OverlapTp: return OverlapKind::TensorParallel;
    case Switch::OverlapGradientReduce: return OverlapKind::GradientReduce;
    case Switch::OverlapParameterGather: return OverlapKind::ParameterGather;
    case Switch::OverlapGatherWithStep: return OverlapKind::GatherWithStep;
    case Switch::OverlapP2p: return OverlapKind::PointToPoint;
    case Switch::OverlapEp: return OverlapKind::ExpertAllToAll;
    case Switch::OverlapSharedExperts: return OverlapKind::SharedExpert;
    case Switch::Graphs: return OverlapKind::Graphs;
    case Switch::PartGraphs: return OverlapKind::PartGraphs;
    case Switch::DelayWeightGradient:
    case Switch::GroupedGemm:
    case Switch::Compile:
    case Switch::DistributeSaved:
    case Switch::Fp8ParameterGather: break;
  }
  return std::nullopt;
}

ScheduleKind usual_schedule(std::int64_t pp, std::int64_t vpp) {
  if (pp <= 1) return ScheduleKind::None;
  return vpp <= 1 ? ScheduleKind::OneFOneB : ScheduleKind::InterleavedOneFOneB;
}

StagePlacement usual_placement(ScheduleKind schedule, std::int64_t vpp) {
  return facts_of(schedule).placement.value_or(vpp <= 1 ? StagePlacement::Single
                                                        : StagePlacement::Loop);
}

bool differ_in_pipeline_alone(const Layout& a, const Layout& b) {
  Layout same = a;
  same.vpp = b.vpp;
  same.schedule = b.schedule;
  same.placement = b.placement;
  same.count_embedding = b.count_embedding;
  same.count_loss = b.count_loss;
  same.first_layers = b.first_layers;
  same.last_layers = b.last_layers;
  same.layers = b.layers;
  return same == b;
}

ScheduleKind running_schedule(const Layout& layout) {
  return layout.pp == 1 ? ScheduleKind::None : layout.schedule;
}

std::int64_t running_group(const Layout& layout) {
  if (!facts_of(running_schedule(layout)).grouped) return 0;
  return std::min(layout.micro_batch_group, micro_batch_count(layout));
}

std::int64_t world_size(const Layout& layout) {
  return product_or_most(product_or_most(layout.tp, layout.pp),
                         product_or_most(layout.cp, layout.dp));
}

std::int64_t dp_shard(const Layout& layout) {
  return layout.zero == 0 ? 1 : layout.dp / layout.dp_replicate;
}

std::int64_t expert_dp(const Layout& layout) {
  const std::int64_t ranks = product_or_most(product_or_most(layout.tp, layout.cp), layout.dp);
  return ranks / product_or_most(layout.etp, layout.ep);
}

std::int64_t stage_count(const Layout& layout) { return product_or_most(layout.pp, layout.vpp); }

std::int64_t micro_batch_count(const Layout& layout) {
  return layout.gbs / product_or_most(layout.mbs, layout.dp);
}

Tokens tokens_per_step(const Layout& layout) { return Tokens(layout.gbs) * layout.seq; }

Flags<RecomputeModule> modules_of(const Recompute& recompute) {
  switch (recompute.kind) {
    case RecomputeKind::Selective: return {RecomputeModule::CoreAttention};
    case RecomputeKind::FeedForwardOnly: return {RecomputeModule::Mlp, RecomputeModule::Moe};
    case RecomputeKind::Modules: return recompute.modules;
    case RecomputeKind::None:
    case RecomputeKind::OpSelective:
    case RecomputeKind::EveryNth:
    case RecomputeKind::Block:
    case RecomputeKind::Full: break;
  }
  return {};
}

std::size_t running_loss(const Layout& layout, const Trainer& trainer) {
  const bool compiled = asks(layout, Switch::Compile, trainer);
  const auto found =
      std::find_if(trainer.losses.begin(), trainer.losses.end(), [&](const Loss& loss) {
        if (!layout.loss.empty()) return loss.name == layout.loss;
        const bool usual = loss.with_compile == compiled && loss.use >= Use::ByDefault;
        return usual || loss.use == Use::Always;  // one that a run's own file names
      });
  return found == trainer.losses.end() ? 0
                                       : static_cast<std::size_t>(found - trainer.losses.begin());
}

bool asks(const Layout& layout, Switch what, const Trainer& trainer) {
  if (layout.on.has(what)) return true;
  if (layout.off.has(what)) return false;
  const Use use = usual_use(trainer, what);
  // A graph that nobody asks for holds neither a pipeline nor a dispatch that waits for the host.
  if (what == Switch::Graphs && use == Use::ByDefault) return layout.pp == 1 && layout.ep == 1;
  return use == Use::ByDefault || use == Use::Always;
}

}  // namespace trainwright
