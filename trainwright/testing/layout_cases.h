#pragma once
// A model, a cluster and a trainer without rules, small enough to reason about by hand.
#include <string>
#include <string_view>

#include "trainwright/layout/layout.h"

namespace trainwright::testing {

struct GptShape {
  std::int64_t layers = 8;
  std::int64_t hidden = 1024;
  std::int64_t heads = 16;
  std::int64_t kv_heads = 16;
  std::int64_t ffn = 4096;
  std::int64_t vocabulary = 51200;
};

inline Model gpt(const GptShape& shape = {}) {
  Model model;
  model.name = "gpt";
  model.vocabulary = shape.vocabulary;
  model.hidden = shape.hidden;
  model.embedding_width = shape.hidden;
  LayerKind kind;
  SoftmaxAttention attention;
  attention.heads = shape.heads;
  attention.kv_heads = shape.kv_heads;
  attention.head_dim = shape.hidden / shape.heads;
  kind.attention = attention;
  kind.feed_forward = Mlp{.width = shape.ffn, .gated = true};
  kind.before_attention = kind.before_feed_forward = Norm::Rms;
  model.kinds = {kind};
  model.layers.assign(static_cast<std::size_t>(shape.layers), LayerKindId(0));
  return model;
}

// The first `dense` layers have no experts; `mtp` modules at the end are like the last layer.
inline Model moe(std::int64_t experts, std::int64_t expert_width, std::int64_t dense = 1,
                 std::size_t mtp = 0, const GptShape& shape = {}) {
  Model model = gpt(shape);
  LayerKind kind = model.kinds[0];
  MixtureOfExperts mixture;
  mixture.experts = experts;
  mixture.experts_per_token = 2;
  mixture.expert = Mlp{.width = expert_width, .gated = true};
  mixture.shared = mixture.expert;
  kind.feed_forward = mixture;
  model.kinds.push_back(kind);
  for (std::size_t i = static_cast<std::size_t>(dense); i < model.layers.size(); ++i) {
    model.layers[i] = LayerKindId(1);
  }
  model.mtp.assign(mtp, LayerKindId(1));
  return model;
}

// Nodes of eight on one NVLink domain, 32 nodes below a leaf.
inline Cluster h100s(std::int64_t count) {
  Group group;
  group.accelerator.name = "H100";
  group.accelerator.vendor = "NVIDIA";
  for (const ComputeType type : {ComputeType::Fp32, ComputeType::Fp16, ComputeType::Bf16}) {
    group.accelerator.peak[type] = FlopsPerSecond(989e12);
  }
  group.accelerator.peak[ComputeType::Fp8] = FlopsPerSecond(1979e12);
  group.count = count;
  group.per_node = group.per_domain = std::min<std::int64_t>(8, count);
  group.rails = group.per_node;
  const auto tier = [](const char* name, std::int64_t domain) {
    Tier made;
    made.name = name;
    made.domain = domain;
    return made;
  };
  group.tiers.push_back(tier("nvlink", group.per_domain));
  group.accelerator.scale_up = group.tiers;
  if (count > 256) group.tiers.push_back(tier("leaf", 256));
  if (count > 8) group.tiers.push_back(tier("spine", count));
  Cluster cluster;
  cluster.name = "h100s";
  cluster.groups.push_back(group);
  return cluster;
}

// Offers every kind there is and forbids nothing.
inline Trainer permissive() {
  Trainer trainer;
  trainer.name = trainer.stack = "permissive";
  trainer.title = "Permissive";
  const auto offer_all = []<class Entry>(std::vector<Entry>& list) {
    for (const auto kind : all_of<decltype(Entry::kind)>()) list.emplace_back().kind = kind;
  };
  offer_all(trainer.precisions);
  offer_all(trainer.optimizers);
  offer_all(trainer.shardings);
  offer_all(trainer.recomputes);
  offer_all(trainer.cp_kinds);
  offer_all(trainer.offloads);
  for (const ScheduleKind kind : all_of<ScheduleKind>()) {
    for (const StagePlacement placement : all_of<StagePlacement>()) {
      TrainerSchedule& schedule = trainer.schedules.emplace_back();
      schedule.kind = kind;
      schedule.placement = placement;
    }
  }
  for (int kind = 0; kind <= static_cast<int>(OverlapKind::PartGraphs); ++kind) {
    Overlap& overlap = trainer.overlaps.emplace_back();
    overlap.kind = static_cast<OverlapKind>(kind);
    overlap.use = Use::OptIn;
  }
  return trainer;
}

}  // namespace trainwright::testing
