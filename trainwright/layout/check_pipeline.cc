// Layers on stages, the schedule that runs them, and what they recompute.
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "trainwright/base/check.h"
#include "trainwright/layout/findings.h"
#include "trainwright/layout/shapes.h"
#include "trainwright/layout/stages.h"

namespace trainwright::detail {
namespace {

// Chunks per rank a schedule is made for, and how it places them.
struct ScheduleShape {
  std::int64_t chunks_least = 1;
  std::int64_t chunks_most = 1;
  std::optional<StagePlacement> placement;  // nullopt: any
};

ScheduleShape shape_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::None:
    case ScheduleKind::Gpipe:
    case ScheduleKind::OneFOneB:
    case ScheduleKind::Eager1F1B:
    case ScheduleKind::ZbH1:
    case ScheduleKind::ZbH2: return {1, 1, StagePlacement::Single};
    case ScheduleKind::Interleaved1F1B:
    case ScheduleKind::LoopedBfs:
    case ScheduleKind::InterleavedZb: return {2, kMostDegree, StagePlacement::Loop};
    case ScheduleKind::ZbV:
    case ScheduleKind::VHalf:
    case ScheduleKind::VMin:
    case ScheduleKind::DualPipeV: return {2, 2, StagePlacement::V};
    case ScheduleKind::ZbVpp: return {2, kMostDegree, std::nullopt};
    case ScheduleKind::Csv: return {1, kMostDegree, std::nullopt};
  }
  TW_CHECK(false, "no such schedule");
}

void check_layers(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  const auto layers = static_cast<std::int64_t>(c.model.layers.size());
  const std::int64_t stages = stage_count(layout);
  // A stage with the embedding or the loss alone is none too few, where they count as layers.
  const std::int64_t dealt = layers + layout.count_embedding + layout.count_loss;
  if (split_of(layout) != SplitKind::Explicit && dealt < stages) {
    findings.forbid("layers-for-every-stage",
                    fmt::format("{} layers do not fill pp {} x vpp {} = {} stages", dealt,
                                layout.pp, layout.vpp, stages),
                    fmt::format("pp x vpp may be up to {}", dealt));
  } else if (const auto counts = stage_counts(layout, c.model); !counts) {
    const Diagnostic& fault = counts.error().diagnostics.front();
    findings.forbid("layers-dealt-out", fault.what, fault.hint);
  }
  const bool set_apart = layout.first_layers > 0 || layout.last_layers > 0;
  const bool counted = layout.count_embedding > 0 || layout.count_loss > 0;
  if (!layout.layers.empty() && (set_apart || counted)) {
    findings.forbid("one-way-to-split",
                    "the layers of each stage are listed, so nothing else can say how to split",
                    "leave out first_layers, last_layers, count_embedding and count_loss");
  } else if ((layout.first_layers > 0 && layout.count_embedding > 0) ||
             (layout.last_layers > 0 && layout.count_loss > 0)) {
    findings.forbid("one-way-to-split",
                    "a rank whose layers are stated cannot also count its embedding or loss",
                    "leave out one of the two");
  }
  if (layout.mtp_stage && (*layout.mtp_stage < 0 || *layout.mtp_stage >= stages)) {
    findings.forbid("mtp-on-a-stage",
                    fmt::format("mtp_stage {} of {} stages", *layout.mtp_stage, stages),
                    fmt::format("stages are 0 to {}", stages - 1));
  }
}

void check_schedule(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  if (layout.vpp > 1 && layout.pp == 1) {
    findings.forbid("chunks-need-a-pipeline",
                    fmt::format("{} chunks per rank without a pipeline", layout.vpp),
                    "set vpp=1 or pp > 1");
    return;
  }
  if (layout.pp > 1 && layout.schedule == ScheduleKind::None) {
    findings.forbid(
        "pipeline-needs-a-schedule", fmt::format("pp {} without a schedule", layout.pp),
        fmt::format("the usual one is {}", name_of(usual_schedule(layout.pp, layout.vpp))));
    return;
  }
  if (layout.pp == 1) return;
  const ScheduleShape shape = shape_of(layout.schedule);
  if (layout.vpp < shape.chunks_least || layout.vpp > shape.chunks_most) {
    const std::string_view id = shape.chunks_least == 1  ? "one-stage-per-rank"
                                : shape.chunks_most == 2 ? "v-has-two-stages"
                                                         : "several-stages-per-rank";
    findings.forbid(std::string(id),
                    fmt::format("{} runs {} stages per rank, vpp is {}", name_of(layout.schedule),
                                shape.chunks_most == shape.chunks_least
                                    ? std::to_string(shape.chunks_least)
                                    : fmt::format("{} or more", shape.chunks_least),
                                layout.vpp),
                    fmt::format("vpp={}, or schedule={}", shape.chunks_least,
                                name_of(usual_schedule(layout.pp, layout.vpp))));
    return;
  }
  const bool single = layout.placement == StagePlacement::Single;
  const bool fits =
      shape.placement ? layout.placement == *shape.placement : single == (layout.vpp == 1);
  if (fits) return;
  const StagePlacement usual =
      shape.placement.value_or(usual_placement(layout.schedule, layout.vpp));
  findings.forbid("schedule-placement",
                  fmt::format("{} with vpp {} does not place its stages as {}",
                              name_of(layout.schedule), layout.vpp, name_of(layout.placement)),
                  fmt::format("placement={}", name_of(usual)));
}

bool exists(const Model& model, RecomputeModule module, const Shapes& shapes) {
  switch (module) {
    case RecomputeModule::CoreAttention:
    case RecomputeModule::Norm: return true;
    case RecomputeModule::Mlp: return shapes.ffn > 0;
    case RecomputeModule::MlaUpProjection: return shapes.mla;
    case RecomputeModule::Moe:
    case RecomputeModule::MoeActivation: return shapes.experts > 0;
    case RecomputeModule::SharedExperts: return shapes.shared_experts > 0;
  }
  TW_CHECK(false, fmt::format("no such module of {}", model.name));
}

void check_recompute(const Case& c, Findings& findings) {
  const auto ways = recomputes_of(c.layout);
  const std::int64_t stages = stage_count(c.layout);
  const auto listed = static_cast<std::int64_t>(c.layout.recompute_by_stage.size());
  if (listed != 0 && listed != stages) {
    findings.forbid("recompute-of-every-stage",
                    fmt::format("recompute is listed for {} stages, pp {} x vpp {} is {}", listed,
                                c.layout.pp, c.layout.vpp, stages),
                    "list each stage, or state one for all");
  }
  const Shapes shapes = shapes_of(c.model);
  for (const Recompute& way : ways) {
    if (way.n < 1 || (way.kind == RecomputeKind::Modules && way.modules.empty())) {
      findings.forbid("recompute-says-what",
                      fmt::format("recompute={} names nothing to recompute", to_text(way)),
                      "for example block:4, every-nth:2 or modules:norm+moe");
    }
    for (int m = 0; m <= static_cast<int>(RecomputeModule::SharedExperts); ++m) {
      const auto module = static_cast<RecomputeModule>(m);
      if (!modules_of(way).has(module) || exists(c.model, module, shapes)) continue;
      findings.advise("recompute-finds-module",
                      fmt::format("the model has no {} to recompute", name_of(module)),
                      "leave it out");
    }
  }
}

}  // namespace

void check_pipeline(const Case& c, Findings& findings) {
  check_layers(c, findings);
  check_schedule(c, findings);
  check_recompute(c, findings);
}

}  // namespace trainwright::detail
