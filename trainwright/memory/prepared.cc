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
  const Layout& layout = question.layout;
  const Slice first = slice_of(layout, question.trainer, 0, question.attention);
  if (auto fault = too_large(widths_of(question.model, question.job), first)) {
    return fail({*std::move(fault)});
  }
  Recipe recipe = recipe_of(question.trainer, StoredAs(layout), question.job);
  Prepared work{
      .question = question,
      .rules = TW_TRY(layout_rules(layout, question.job, question.trainer, question.cluster)),
      .inventory = TW_TRY(stage_inventory(layout, question.model, recipe)),
      .recipe = recipe,
      .cache = WorkCache(question.model, recipe),
      .chunks = {},
      .terms = {},
      .moments = {},
      .outside = {}};
  work.moments = TW_TRY(moments_for(question, work.rules));
  if (question.constants.facts) {
    work.outside = outside_bytes(layout, question.cluster, question.trainer, question.model,
                                 *question.constants.facts);
  }
  const ChunkQuestion of{question.model, work.recipe, pass_bytes(work.rules.states),
                         expert_load_of(question.constants, question.model, first, layout.pp)};
  for (const StageContent& content : work.inventory.contents) {
    const Slice slice =
        slice_of(layout, question.trainer, content.stage.id.index(), question.attention);
    work.chunks.push_back(chunk_bytes(of, content, slice, work.cache));
  }
  for (std::size_t i = 0; i < work.chunks.size(); ++i) {
    work.terms.push_back(content_terms(work.chunks[i], work.inventory.contents[i], work.rules));
  }
  return work;
}

OperatorList list_of(const Prepared& work, const ListOf& of) {
  return make_list(work.question.model, work.recipe, of);
}

}  // namespace trainwright::detail
