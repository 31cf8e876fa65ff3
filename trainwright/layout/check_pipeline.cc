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

void check_layers(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  const std::int64_t stages = stage_count(layout);
  if (const auto counts = stage_counts(layout, c.model); !counts) {
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
  if (layout.vocab_parallel && layout.pp == 1) {
    findings.forbid("vocab-parallel-needs-a-pipeline",
                    "embedding and head are to be spread over a pipeline of one rank",
                    "leave out vocab_parallel, or set pp > 1");
  }
  if (layout.mtp_stage && (*layout.mtp_stage < 0 || *layout.mtp_stage >= stages)) {
    findings.forbid("mtp-on-a-stage",
                    fmt::format("mtp_stage {} of {} stages", *layout.mtp_stage, stages),
                    fmt::format("stages are 0 to {}", stages - 1));
  }
}

// As many stages on every rank as the schedule runs.
bool check_chunks(const Layout& layout, const KindFacts& facts, Findings& findings) {
  if (layout.vpp >= facts.chunks_least && layout.vpp <= facts.chunks_most) return true;
  const std::string_view id = facts.chunks_most == 1   ? "one-stage-per-rank"
                              : facts.chunks_most == 2 ? "v-has-two-stages"
                                                       : "several-stages-per-rank";
  const std::int64_t nearest =
      std::clamp<std::int64_t>(layout.vpp, facts.chunks_least, facts.chunks_most);
  std::string hint = fmt::format("vpp={}", nearest);
  const KindFacts& usual = facts_of(usual_schedule(layout.pp, layout.vpp));
  if (layout.vpp <= usual.chunks_most) hint += fmt::format(", or schedule={}", usual.name);
  findings.forbid(std::string(id),
                  fmt::format("{} runs {} stages per rank, vpp is {}", facts.name,
                              facts.chunks_most == facts.chunks_least
                                  ? std::to_string(facts.chunks_least)
                                  : fmt::format("{} to {}", facts.chunks_least, facts.chunks_most),
                              layout.vpp),
                  hint);
  return false;
}

// Sizes and groups that no order can be made for.
void check_order(const Layout& layout, Findings& findings) {
  const auto narrowed = [](std::int64_t value, std::int64_t most) {
    return static_cast<int>(std::clamp<std::int64_t>(value, 1, most));
  };
  const Shape shape{narrowed(layout.pp, kMostDegree),
                    narrowed(micro_batch_count(layout), kMaxMicroBatches),
                    narrowed(layout.vpp, kMostDegree)};
  MakeOptions options;
  options.group =
      static_cast<int>(std::min<std::int64_t>(running_group(layout), shape.microbatches));
  for (const Diagnostic& fault : faults_of(layout.schedule, shape, options)) {
    findings.forbid("schedule-can-be-made", fmt::format("{}: {}", fault.where, fault.what),
                    fault.hint);
  }
}

void check_schedule_and_placement(const Case& c, Findings& findings) {
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
        fmt::format("the default is {}", name_of(usual_schedule(layout.pp, layout.vpp))));
    return;
  }
  if (layout.pp == 1) return;
  const KindFacts& facts = facts_of(layout.schedule);
  if (!check_chunks(layout, facts, findings)) return;
  if (facts.order != OrderFrom::File) check_order(layout, findings);
  const bool single = layout.placement == StagePlacement::Single;
  const bool fits =
      facts.placement ? layout.placement == *facts.placement : single == (layout.vpp == 1);
  if (fits) return;
  findings.forbid(
      "schedule-placement",
      fmt::format("{} with vpp {} does not place its stages as {}", name_of(layout.schedule),
                  layout.vpp, name_of(layout.placement)),
      fmt::format("placement={}", name_of(usual_placement(layout.schedule, layout.vpp))));
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
  const Flags<RecomputeModule> there = modules_in(shapes_of(c.model));
  for (const Recompute& way : ways) {
    if (way.n < 1 || (way.kind == RecomputeKind::Modules && way.modules.empty())) {
      findings.forbid("recompute-says-what",
                      fmt::format("recompute={} names nothing to recompute", to_text(way)),
                      "for example block:4, every-nth:2 or modules:norm+moe");
    }
    for (int m = 0; m <= static_cast<int>(RecomputeModule::SharedExperts); ++m) {
      const auto module = static_cast<RecomputeModule>(m);
      if (!way.modules.has(module) || there.has(module)) continue;
      findings.advise("recompute-finds-module",
                      fmt::format("the model has no {} to recompute", name_of(module)),
                      "leave it out");
    }
  }
}

}  // namespace

void check_pipeline(const Case& c, Findings& findings) {
  check_layers(c, findings);
  check_schedule_and_placement(c, findings);
  check_recompute(c, findings);
}

}  // namespace trainwright::detail
