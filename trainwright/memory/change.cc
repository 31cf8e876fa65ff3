// The smallest change that fits.
#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/memory/memory.h"
#include "trainwright/memory/outside.h"

namespace trainwright {
namespace {

// One thing to change. False when it cannot be changed (further).
using Step = bool (*)(Layout&);

bool smallest_micro_batch(Layout& layout) {
  if (layout.mbs == 1) return false;
  layout.mbs = 1;
  return true;
}
bool half_micro_batch(Layout& layout) {
  if (layout.mbs % 2 != 0) return false;
  layout.mbs /= 2;
  return true;
}
bool sequence_parallel(Layout& layout) {
  if (layout.sp || layout.tp == 1) return false;
  return layout.sp = true;
}
bool recompute(Layout& layout, RecomputeKind kind) {
  if (!layout.recompute_by_stage.empty() || layout.recompute.kind >= kind) return false;
  layout.recompute = {.kind = kind, .modules = {}, .n = 1};
  return true;
}
bool selective(Layout& layout) { return recompute(layout, RecomputeKind::Selective); }
bool full(Layout& layout) { return recompute(layout, RecomputeKind::Full); }

bool more_sharding(Layout& layout) {
  if (layout.zero == 3 || layout.dp * layout.cp == 1) return false;
  ++layout.zero;
  if (layout.sharding == ShardingKind::Ddp) layout.sharding = ShardingKind::Zero;
  return true;
}
bool twice(std::int64_t& degree, Layout& layout) {
  if (layout.dp % 2 != 0 || layout.dp_replicate > 1) return false;
  layout.dp /= 2;
  degree *= 2;
  return true;
}
bool twice_tensor(Layout& layout) {
  const bool follows = layout.etp == layout.tp;
  if (!twice(layout.tp, layout)) return false;
  if (follows) layout.etp = layout.tp;
  return true;
}
bool twice_pipeline(Layout& layout) {
  const bool had = layout.pp > 1;
  if (!layout.layers.empty() || !layout.recompute_by_stage.empty()) return false;
  if (!twice(layout.pp, layout)) return false;
  if (!had) {
    layout.schedule = usual_schedule(layout.pp, layout.vpp);
    layout.placement = usual_placement(layout.schedule, layout.vpp);
  }
  return true;
}
bool twice_context(Layout& layout) { return twice(layout.cp, layout); }
bool offload_optimizer(Layout& layout) {
  if (layout.offload.has(Offload::Optimizer)) return false;
  layout.offload.insert(Offload::Optimizer);
  return true;
}

// What differs in the text of two layouts.
std::string difference(const Layout& from, const Layout& to) {
  const std::string before = to_text(from), after = to_text(to);
  const auto old = split(before, ',');
  std::vector<std::string> changed;
  for (const std::string_view part : split(after, ',')) {
    if (std::find(old.begin(), old.end(), part) == old.end()) changed.emplace_back(part);
  }
  return join(changed, ",");
}

const std::vector<std::vector<Step>>& steps_to_try() {
  static const std::vector<std::vector<Step>> kSteps = {
      {half_micro_batch},
      {half_micro_batch, half_micro_batch},
      {half_micro_batch, half_micro_batch, half_micro_batch},
      {smallest_micro_batch},
      {sequence_parallel},
      {selective},
      {more_sharding},
      {smallest_micro_batch, selective},
      {sequence_parallel, selective},
      {full},
      {more_sharding, selective},
      {twice_pipeline},
      {twice_tensor},
      {twice_context},
      {smallest_micro_batch, full},
      {more_sharding, more_sharding},
      {more_sharding, full},
      {twice_tensor, full},
      {twice_pipeline, full},
      {twice_pipeline, twice_pipeline},
      {twice_tensor, twice_pipeline},
      {more_sharding, more_sharding, full},
      {twice_tensor, twice_tensor, full},
      {twice_pipeline, twice_pipeline, full},
      {twice_tensor, twice_pipeline, full},
      {twice_tensor, twice_tensor, twice_pipeline, full},
      {twice_tensor, twice_pipeline, twice_pipeline, full},
      {twice_tensor, twice_tensor, twice_pipeline, twice_pipeline, full},
      {offload_optimizer},
      {offload_optimizer, full},
      {smallest_micro_batch, twice_tensor, twice_tensor, twice_pipeline, twice_pipeline, full},
      {smallest_micro_batch, twice_tensor, twice_tensor, twice_tensor, twice_pipeline,
       twice_pipeline, twice_pipeline, full},
  };
  return kSteps;
}

std::optional<Layout> changed(const Layout& layout, const std::vector<Step>& steps) {
  Layout next = layout;
  for (const Step step : steps) {
    if (!step(next)) return std::nullopt;
  }
  return next;
}

}  // namespace

std::optional<Change> smallest_change_that_fits(const MemoryQuestion& question) {
  if (question.layout.schedule == ScheduleKind::Csv) return std::nullopt;
  const Bytes capacity = detail::capacity_of(question.cluster);
  MemoryModel model(question.model, question.cluster, question.trainer, question.job,
                    question.constants, question.attention);
  const auto safe = [&](Bytes driver) {
    return chance_of_oom(driver, capacity, question.constants.spread) <= kSafeChance;
  };
  for (const std::vector<Step>& steps : steps_to_try()) {
    const auto layout = changed(question.layout, steps);
    if (!layout) continue;
    if (!is_legal(violations(*layout, question.job, question.model, question.cluster,
                             question.trainer))) {
      continue;
    }
    const auto quick = model.worst(*layout);
    if (!quick || !safe(*quick)) continue;
    MemoryQuestion again{question.model, question.cluster,   question.trainer,   *layout,
                         question.job,   question.attention, question.constants, nullptr,
                         question.slack};
    const auto estimate = estimate_memory(again);
    if (!estimate || !safe(estimate->classes[estimate->worst].driver)) continue;
    return Change{difference(question.layout, *layout), *layout,
                  estimate->classes[estimate->worst].driver};
  }
  return std::nullopt;
}

}  // namespace trainwright
