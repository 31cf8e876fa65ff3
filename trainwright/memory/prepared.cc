#include "trainwright/memory/prepared.h"

#include <fmt/format.h>

namespace trainwright::detail {
namespace {

Result<std::vector<Moments>> moments_for(const MemoryQuestion& question, const LayoutRules& rules) {
  if (question.layout.schedule != ScheduleKind::Csv) return moments_of(rules.moments);
  const Schedule* schedule = question.schedule;
  if (schedule == nullptr) {
    return fail("schedule", "a schedule from a file was asked for, but none is given");
  }
  const Layout& layout = question.layout;
  const auto& ranks = schedule->placement.rank_of;
  if (std::ssize(schedule->ranks) != layout.pp || std::ssize(ranks) != stage_count(layout)) {
    return fail("schedule",
                fmt::format("it has {} ranks and {} stages, the layout {} and {}",
                            schedule->ranks.size(), ranks.size(), layout.pp, stage_count(layout)));
  }
  for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
    if (ranks[stage].index() == stage_rank(layout, static_cast<std::int64_t>(stage))) continue;
    return fail("schedule",
                fmt::format("stage {} is not on the rank that the layout has it on", stage),
                "set placement=loop or placement=v as the file has it");
  }
  return moments_of(*schedule, rules.pipeline.sends_stay);
}

}  // namespace

Result<Prepared> prepare(const MemoryQuestion& question) {
  Diagnostics faults = check_sizes(question.layout, question.model);
  if (!faults.empty()) return fail(std::move(faults));
  const Layout& layout = question.layout;
  Recipe recipe = recipe_of(question.trainer, layout.precision);
  Prepared work{
      .question = question,
      .rules = TW_TRY(layout_rules(layout, question.job, question.trainer, question.cluster)),
      .partition = TW_TRY(partition_of(layout, question.model, question.job)),
      .recipe = recipe,
      .cache = WorkCache(question.model, recipe),
      .chunks = {},
      .slices = {},
      .moments = {},
      .communicators = {}};
  work.moments = TW_TRY(moments_for(question, work.rules));
  work.communicators =
      communicators_of(layout, question.cluster, question.trainer, question.constants);
  const ChunkQuestion of{question.model, question.job, work.recipe,
                         question.constants.expert_imbalance};
  for (const ChunkContent& content : work.partition.contents) {
    work.slices.push_back(
        slice_of(layout, question.trainer, content.stage.id.index(), question.attention));
    work.chunks.push_back(chunk_bytes(of, content, work.slices.back(), work.cache));
  }
  return work;
}

OperatorList list_of(Prepared& work, const ChunkContent& content, const Slice& slice,
                     const Totals* totals) {
  const Model& model = work.question.model;
  if (totals == &work.cache.embedding(slice)) return embedding_work(model, slice, work.recipe);
  if (totals == &work.cache.head(slice)) return head_work(model, slice, work.recipe);
  if (content.stage.mtp > 0 && totals == &work.cache.mtp(slice)) {
    return mtp_work(model, slice, work.recipe);
  }
  for (std::int64_t i = 0; i < content.stage.count + content.stage.mtp; ++i) {
    Slice own = slice;
    own.recompute = recompute_of_layer(slice.recompute, i);
    own.recompute.n = 1;
    for (std::size_t k = 0; k < model.kinds.size(); ++k) {
      if (totals != &work.cache.layer(LayerKindId(static_cast<std::int32_t>(k)), own)) continue;
      return layer_work(model, model.kinds[k], own, work.recipe);
    }
  }
  // Layers that are run again together have the operators of one.
  if (content.stage.runs.empty()) return {};
  Slice own = slice;
  own.recompute.n = 1;
  return layer_work(model, model.kinds[content.stage.runs.front().kind.at()], own, work.recipe);
}

}  // namespace trainwright::detail
