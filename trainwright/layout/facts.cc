// What a trainer's rules may ask about a layout.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainwright/layout/layout.h"
#include "trainwright/layout/shapes.h"
#include "trainwright/layout/stages.h"

namespace trainwright {
namespace {

template <class E>
void set_kind(Facts& facts, Variable variable, E kind) {
  facts.set(variable, static_cast<std::int64_t>(kind));
}

void set_flag(Facts& facts, Variable variable, bool value) { facts.set(variable, value ? 1 : 0); }

void set_degrees(Facts& facts, const Layout& layout, const Cluster& cluster) {
  facts.set(Variable::World, accelerator_count(cluster));
  facts.set(Variable::Dp, layout.dp);
  facts.set(Variable::Tp, layout.tp);
  facts.set(Variable::Pp, layout.pp);
  facts.set(Variable::Vpp, layout.vpp);
  facts.set(Variable::Cp, layout.cp);
  facts.set(Variable::Ep, layout.ep);
  facts.set(Variable::Etp, layout.etp);
  // Without sharding every rank is a replica.
  facts.set(Variable::DpShard, dp_shard(layout));
  facts.set(Variable::DpReplicate, layout.zero == 0 ? layout.dp : layout.dp_replicate);
  facts.set(Variable::Stages, stage_count(layout));
  facts.set(Variable::Zero, layout.zero);
  set_flag(facts, Variable::Sp, layout.sp);
  facts.set(Variable::Mbs, layout.mbs);
  facts.set(Variable::Gbs, layout.gbs);
  facts.set(Variable::Seq, layout.seq);
  facts.set(Variable::MicroBatches, micro_batch_count(layout));
  facts.set(Variable::MicroBatchGroup,
            layout.micro_batch_group > 0 ? layout.micro_batch_group : layout.pp);
}

void set_model(Facts& facts, const Model& model) {
  const detail::Shapes shapes = detail::shapes_of(model);
  facts.set(Variable::Layers, static_cast<std::int64_t>(model.layers.size()));
  facts.set(Variable::Hidden, model.hidden);
  facts.set(Variable::Ffn, shapes.ffn);
  facts.set(Variable::MoeFfn, shapes.moe_ffn);
  facts.set(Variable::Heads, shapes.heads);
  facts.set(Variable::KvHeads, shapes.kv_heads);
  facts.set(Variable::HeadDim, shapes.head_dim);
  facts.set(Variable::Vocab, model.vocabulary);
  facts.set(Variable::Experts, shapes.experts);
  facts.set(Variable::TopK, shapes.top_k);
  facts.set(Variable::SharedExperts, shapes.shared_experts);
  facts.set(Variable::MtpLayers, static_cast<std::int64_t>(model.mtp.size()));
  set_flag(facts, Variable::OwnHeadDim, shapes.own_head_dim);
  set_flag(facts, Variable::TiedEmbeddings, model.tied);
  set_flag(facts, Variable::Mla, shapes.mla);
  set_flag(facts, Variable::Windows, shapes.windows);
  set_flag(facts, Variable::ExpertBias, shapes.expert_bias);
  facts.set(Variable::LinearHeads, shapes.linear_heads);
  facts.set(Variable::MambaHeads, shapes.mamba_heads);
  facts.set(Variable::MambaGroups, shapes.mamba_groups);
  set_flag(facts, Variable::MambaBeside, shapes.mamba_beside);
}

bool splits_backward(const Schedule& order) {
  return std::any_of(order.ranks.begin(), order.ranks.end(), [](const auto& actions) {
    return std::any_of(actions.begin(), actions.end(), [](const Action& action) {
      return action.kind == ActionKind::BackwardWeight;
    });
  });
}

void set_schedule(Facts& facts, const Layout& layout, const Schedule* order) {
  set_kind(facts, Variable::Schedule, layout.schedule);
  set_kind(facts, Variable::Placement, layout.placement);
  if (order != nullptr) {
    set_flag(facts, Variable::SplitBackward, splits_backward(*order));
  } else if (layout.schedule != ScheduleKind::Csv) {
    set_flag(facts, Variable::SplitBackward, facts_of(layout.schedule).splits_backward);
  }
}

void set_stages(Facts& facts, const Layout& layout, const Model& model) {
  facts.set(Variable::FirstStageLayers, layout.first_layers);
  facts.set(Variable::LastStageLayers, layout.last_layers);
  const std::int64_t mtp = layout.mtp_stage.value_or(stage_count(layout) - 1);
  facts.set(Variable::MtpStage, mtp);
  if (const auto counts = detail::stage_counts(layout, model)) {
    facts.set(Variable::LeastStageLayers, *std::min_element(counts->begin(), counts->end()));
    const auto behind = std::clamp<std::int64_t>(mtp + 1, 0, std::ssize(*counts));
    facts.set(Variable::LayersBehindMtp,
              std::accumulate(counts->begin() + behind, counts->end(), std::int64_t{0}));
  }
  set_flag(facts, Variable::CountEmbedding, layout.count_embedding > 0);
  set_flag(facts, Variable::CountLoss, layout.count_loss > 0);
  set_flag(facts, Variable::VocabParallel, layout.vocab_parallel);
  set_kind(facts, Variable::Split, detail::split_of(layout));
}

// Rules speak of one way to recompute. Where stages differ it is the one that recomputes most (the
// kinds stand in that order), with the modules of all: those that are listed, and of the others
// those that the model has.
void set_recompute(Facts& facts, const Layout& layout, const Model& model) {
  const Flags<RecomputeModule> there = detail::modules_in(detail::shapes_of(model));
  RecomputeKind most = RecomputeKind::None;
  Flags<RecomputeModule> modules;
  std::int64_t layers = 1;
  for (const Recompute& recompute : detail::recomputes_of(layout)) {
    most = std::max(most, recompute.kind);
    layers = std::max(layers, recompute.n);
    const bool listed = recompute.kind == RecomputeKind::Modules;
    modules.bits |= modules_of(recompute).bits & (listed ? ~0U : there.bits);
  }
  set_kind(facts, Variable::Recompute, most);
  facts.set(Variable::RecomputeLayers, layers);
  const auto set = [&](Variable variable, RecomputeModule module) {
    set_flag(facts, variable, modules.has(module));
  };
  set(Variable::RecomputeCoreAttention, RecomputeModule::CoreAttention);
  set(Variable::RecomputeNorm, RecomputeModule::Norm);
  set(Variable::RecomputeMlp, RecomputeModule::Mlp);
  set(Variable::RecomputeMlaUpProjection, RecomputeModule::MlaUpProjection);
  set(Variable::RecomputeMoe, RecomputeModule::Moe);
  set(Variable::RecomputeMoeActivation, RecomputeModule::MoeActivation);
  set(Variable::RecomputeSharedExperts, RecomputeModule::SharedExperts);
}

void set_switches(Facts& facts, const Layout& layout, const Trainer& trainer) {
  const auto set = [&](Variable variable, Switch what) {
    set_flag(facts, variable, asks(layout, what, trainer));
  };
  set(Variable::OverlapTp, Switch::OverlapTp);
  set(Variable::OverlapGradientReduce, Switch::OverlapGradientReduce);
  set(Variable::OverlapParameterGather, Switch::OverlapParameterGather);
  set(Variable::OverlapGatherWithStep, Switch::OverlapGatherWithStep);
  set(Variable::OverlapP2p, Switch::OverlapP2p);
  set(Variable::OverlapEp, Switch::OverlapEp);
  set(Variable::OverlapSharedExperts, Switch::OverlapSharedExperts);
  set(Variable::DelayWeightGradient, Switch::DelayWeightGradient);
  set(Variable::GroupedGemm, Switch::GroupedGemm);
  set(Variable::Compile, Switch::Compile);
  set(Variable::DistributeSaved, Switch::DistributeSaved);
  set(Variable::Fp8ParameterGather, Switch::Fp8ParameterGather);
  set(Variable::Graphs, Switch::Graphs);
  set(Variable::PartGraphs, Switch::PartGraphs);
}

void set_machine(Facts& facts, const Layout& layout, const Cluster& cluster) {
  facts.set(Variable::NodeSize, smallest_node(cluster));
  // Blackwell brought FP4 to NVIDIA's accelerators (NVIDIA Blackwell architecture brief, 2024),
  // CDNA 4 to AMD's (AMD CDNA 4 architecture white paper, 2025).
  const auto have_fp4_of = [&](std::string_view vendor) {
    return std::all_of(cluster.groups.begin(), cluster.groups.end(), [&](const Group& group) {
      return group.accelerator.vendor == vendor && peak(group.accelerator, ComputeType::Fp4);
    });
  };
  set_flag(facts, Variable::Blackwell, have_fp4_of("NVIDIA"));
  set_flag(facts, Variable::Cdna4, have_fp4_of("AMD"));
  double capability = INFINITY;
  for (const Group& group : cluster.groups) {
    capability = std::min(capability, group.accelerator.compute_capability);
  }
  if (capability > 0) facts.set(Variable::Capability, std::llround(10 * capability));
  if (layout.max_connections) facts.set(Variable::MaxConnections, *layout.max_connections);
}

void set_dispatcher(Facts& facts, DispatcherKind kind) {
  set_kind(facts, Variable::Dispatcher, is_flex(kind) ? DispatcherKind::Flex : kind);
  set_kind(facts, Variable::FlexBackend, kind);
}

void set_libraries(Facts& facts, const LibraryFacts& libraries) {
  const auto set = [&](Variable variable, Version version) {
    if (version == Version{}) return;
    facts.set(variable, std::int64_t{100} * version.major_part + version.minor_part);
  };
  set(Variable::TransformerEngine, libraries.transformer_engine);
  set(Variable::Cuda, libraries.cuda);
}

}  // namespace

Facts facts(const Layout& layout, const Job& job, const Model& model, const Cluster& cluster,
            const Trainer& trainer, const Schedule* order) {
  Facts facts;
  set_degrees(facts, layout, cluster);
  set_model(facts, model);
  set_stages(facts, layout, model);
  set_schedule(facts, layout, order);
  set_recompute(facts, layout, model);
  set_switches(facts, layout, trainer);
  set_machine(facts, layout, cluster);
  set_libraries(facts, trainer.libraries);
  const std::size_t loss = running_loss(layout, trainer);
  facts.set(Variable::LossChunks, loss < trainer.losses.size() ? trainer.losses[loss].chunks : 1);
  set_kind(facts, Variable::Precision, layout.precision);
  if (const auto dtype = named<GradientDtype>(gradient_dtype(layout, trainer))) {
    set_kind(facts, Variable::Gradients, *dtype);
  }
  set_kind(facts, Variable::Optimizer, job.optimizer);
  set_kind(facts, Variable::CpKind, layout.cp_kind);
  facts.set(Variable::Ulysses, detail::ulysses_degree(layout));
  set_kind(facts, Variable::Sharding, layout.sharding);
  set_dispatcher(facts, layout.dispatcher);
  set_flag(facts, Variable::OffloadOptimizer, layout.offload.has(Offload::Optimizer));
  set_flag(facts, Variable::OffloadActivations, layout.offload.has(Offload::Activations));
  set_flag(facts, Variable::OffloadParameters, layout.offload.has(Offload::Parameters));
  set_flag(facts, Variable::Prepared, job.lora && job.lora->prepared > Prepared::No);
  set_kind(facts, Variable::FrozenBase, job.lora ? job.lora->base : FrozenBase::AsWeights);
  return facts;
}

DispatcherKind usual_flex(const Cluster& cluster, const Trainer& trainer) {
  // Experts over sixteen ranks: more than a node or its domain holds for backends that need one.
  constexpr std::int64_t kRanks = 16;
  for (const auto& backend : trainer.flex_backends) {
    Facts known;
    set_machine(known, {}, cluster);
    set_libraries(known, trainer.libraries);
    set_dispatcher(known, backend.kind);
    known.set(Variable::Ep, kRanks);
    known.set(Variable::Etp, 1);
    const bool refused =
        std::any_of(trainer.rules.begin(), trainer.rules.end(), [&](const Rule& rule) {
          return rule.severity == Severity::Forbidden && evaluate(rule, known) == Verdict::Violated;
        });
    if (!refused) return backend.kind;
  }
  return DispatcherKind::Flex;
}

}  // namespace trainwright
