#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "trainwright/base/check.h"
#include "trainwright/memory/peak.h"

namespace trainwright {
namespace {

using detail::CategoryNumbers;
using detail::ChunkBytes;
using detail::GroupTerms;
using detail::Moments;

Bytes whole(double bytes) { return Bytes(static_cast<std::int64_t>(std::min(bytes, 0x1.0p60))); }

// Everything of a question that is the same for all of its classes.
struct Work {
  const MemoryQuestion& question;
  detail::LayoutRules rules;
  detail::Partition partition;
  Recipe recipe;
  WorkCache cache;
  std::vector<ChunkBytes> chunks;  // by content
  std::vector<Slice> slices;       // by content
  std::vector<Moments> moments;    // by pipeline rank
  detail::Communicators communicators;
};

Result<std::vector<Moments>> moments_for(const MemoryQuestion& question,
                                         const detail::LayoutRules& rules) {
  if (question.layout.schedule != ScheduleKind::Csv) return detail::moments_of(rules.moments);
  const Schedule* schedule = question.schedule;
  if (schedule == nullptr) {
    return fail("schedule", "a schedule from a file was asked for, but none is given");
  }
  const bool fits = static_cast<std::int64_t>(schedule->ranks.size()) == question.layout.pp &&
                    schedule->placement.stages() == stage_count(question.layout);
  if (!fits) {
    return fail("schedule", fmt::format("it has {} ranks and {} stages, the layout {} and {}",
                                        schedule->ranks.size(), schedule->placement.stages(),
                                        question.layout.pp, stage_count(question.layout)));
  }
  return detail::moments_of(*schedule, rules.pipeline.sends_stay);
}

Result<Work> prepare(const MemoryQuestion& question) {
  Diagnostics faults = detail::check_sizes(question.layout, question.model);
  if (!faults.empty()) return fail(std::move(faults));
  const Layout& layout = question.layout;
  Recipe recipe = recipe_of(question.trainer, layout.precision);
  Work work{.question = question,
            .rules = TW_TRY(detail::layout_rules(layout, question.job, question.trainer)),
            .partition = TW_TRY(detail::partition_of(layout, question.model, question.job)),
            .recipe = recipe,
            .cache = WorkCache(question.model, recipe),
            .chunks = {},
            .slices = {},
            .moments = {},
            .communicators = {}};
  work.moments = TW_TRY(moments_for(question, work.rules));
  work.communicators =
      detail::communicators_of(layout, question.cluster, question.trainer, question.constants);
  const detail::ChunkQuestion of{question.model, question.job, work.recipe,
                                 question.constants.expert_imbalance};
  for (const detail::ChunkContent& content : work.partition.contents) {
    work.slices.push_back(
        slice_of(layout, question.trainer, content.stage.id.index(), question.attention));
    work.chunks.push_back(detail::chunk_bytes(of, content, work.slices.back(), work.cache));
  }
  return work;
}

// The list that a portion of a chunk is made of.
OperatorList list_of(Work& work, const detail::ChunkContent& content, const Slice& slice,
                     const Totals* totals) {
  const Model& model = work.question.model;
  if (totals == &work.cache.embedding(slice)) return embedding_work(model, slice, work.recipe);
  if (totals == &work.cache.head(slice)) return head_work(model, slice, work.recipe);
  if (content.stage.mtp > 0 && totals == &work.cache.mtp(slice)) {
    return mtp_work(model, slice, work.recipe);
  }
  for (std::int64_t i = 0; i < content.stage.count; ++i) {
    Slice own = slice;
    own.recompute = recompute_of_layer(slice.recompute, i);
    for (std::size_t k = 0; k < model.kinds.size(); ++k) {
      if (totals != &work.cache.layer(LayerKindId(static_cast<std::int32_t>(k)), own)) continue;
      return layer_work(model, model.kinds[k], own, work.recipe);
    }
  }
  return {};
}

std::string_view operator_at(Work& work, std::size_t content, const detail::Spot& spot) {
  if (spot.portion < 0) return {};
  const auto& portions = work.chunks[content].portions;
  const Totals* totals = portions[static_cast<std::size_t>(spot.portion)].totals;
  const OperatorList list =
      list_of(work, work.partition.contents[content], work.slices[content], totals);
  const OperatorId at = spot.backward ? totals->backward.at : totals->forward.at;
  return at.at() < list.operators.size() ? list.operators[at.at()].name : std::string_view{};
}

Moment::Kind kind_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward: return Moment::Kind::Forward;
    case ActionKind::BackwardInput: return Moment::Kind::BackwardInput;
    case ActionKind::BackwardWeight: return Moment::Kind::BackwardWeight;
    case ActionKind::Backward: return Moment::Kind::Backward;
    case ActionKind::SendForward:
    case ActionKind::RecvForward:
    case ActionKind::SendBackward:
    case ActionKind::RecvBackward:
    case ActionKind::Unshard:
    case ActionKind::Reshard:
    case ActionKind::ReduceGrad: break;
  }
  TW_CHECK(false, "moments are of compute actions");
}

Moment moment_of(Work& work, const detail::PipelineGroup& group, const GroupTerms& terms,
                 const Moments& moments, const detail::ClassPeak& peak) {
  if (peak.at_step) return {.kind = Moment::Kind::Step};
  const detail::MomentAction& action = moments.actions[peak.moment];
  Moment moment{.kind = kind_of(action.kind),
                .chunk = action.chunk,
                .micro_batch = action.microbatch,
                .in_flight = 1};
  for (const detail::InFlight& chunk : moments.at(peak.moment)) {
    moment.in_flight += chunk.whole + chunk.half;
  }
  moment.operator_name = operator_at(work, group.chunks[static_cast<std::size_t>(action.chunk)],
                                     detail::spot_of(terms.chunks, action));
  return moment;
}

void sum_up(RankClass& of) {
  for (std::size_t i = 0; i < kCategories; ++i) {
    of.driver += of.bytes[i];
    if (static_cast<Category>(i) <= Category::AllocatorSlack) of.reserved += of.bytes[i];
    if (is_allocated(static_cast<Category>(i))) of.allocated += of.bytes[i];
  }
}

RankClass class_of(Work& work, const detail::PipelineGroup& group, const GroupTerms& terms,
                   std::int64_t rank) {
  const Moments& moments = work.moments[static_cast<std::size_t>(rank)];
  const detail::ClassPeak peak = detail::class_peak(terms, moments, work.rules);
  const CategoryNumbers coming = detail::coming_bytes(terms, moments, work.rules, peak);
  const CategoryNumbers standing =
      detail::standing_bytes(terms, work.communicators, work.question.constants);
  RankClass of{.pipeline_rank = rank,
               .ranks = world_size(work.question.layout) / work.question.layout.pp,
               .layers = group.layers};
  for (const std::size_t chunk : group.chunks) {
    of.embedding |= work.partition.contents[chunk].stage.embedding;
    of.head |= work.partition.contents[chunk].stage.head;
  }
  for (std::size_t i = 0; i < kCategories; ++i) of.bytes[i] = whole(standing[i] + coming[i]);
  of.bytes[static_cast<std::size_t>(Category::AllocatorSlack)] =
      whole(detail::quantile_slack(peak.coming, work.question.constants));
  of.moment = moment_of(work, group, terms, moments, peak);
  return of;
}

}  // namespace

Result<MemoryEstimate> estimate_memory(const MemoryQuestion& question) {
  Work work = TW_TRY(prepare(question));
  MemoryEstimate estimate;
  estimate.classes.resize(static_cast<std::size_t>(question.layout.pp));
  GroupTerms terms;
  for (const detail::PipelineGroup& group : work.partition.groups) {
    detail::fill_terms(terms, group, work.partition, work.chunks, work.rules);
    for (const std::int64_t rank : group.ranks) {
      estimate.classes[static_cast<std::size_t>(rank)] = class_of(work, group, terms, rank);
    }
  }
  for (RankClass& of : estimate.classes) sum_up(of);
  const auto worst =
      std::max_element(estimate.classes.begin(), estimate.classes.end(),
                       [](const auto& a, const auto& b) { return a.driver < b.driver; });
  estimate.worst = static_cast<std::size_t>(worst - estimate.classes.begin());
  estimate.capacity = detail::capacity_of(question.cluster);
  const double spread = question.constants.spread;
  estimate.low = exceeded_with(0.95, worst->driver, spread);
  estimate.high = exceeded_with(0.05, worst->driver, spread);
  estimate.oom = chance_of_oom(worst->driver, estimate.capacity, spread);
  return estimate;
}

}  // namespace trainwright
