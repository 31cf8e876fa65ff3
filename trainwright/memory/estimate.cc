#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/memory/prepared.h"

namespace trainwright {
namespace {

using detail::CategoryBytes;
using detail::ChunkBytes;
using detail::GroupTerms;
using detail::Moments;
using detail::whole;

std::string_view operator_at(const detail::Prepared& work, std::size_t content,
                             const detail::Spot& spot) {
  if (spot.portion < 0) return {};
  const auto& portions = work.chunks[content].portions;
  const detail::PortionBytes& portion = portions[static_cast<std::size_t>(spot.portion)];
  const OperatorList list = detail::list_of(work, *portion.list);
  const OperatorId at = (portion.totals->*spot.peak).at;
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

Moment moment_of(detail::Prepared& work, const PipelineGroup& group, const GroupTerms& terms,
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

// Without the optimizer's states until its step makes them.
Bytes first_allocated(const CategoryBytes& standing, const GroupTerms& terms,
                      const detail::ClassPeak& peak) {
  RealBytes all;
  for (std::size_t i = 0; i < kCategories; ++i) {
    if (is_allocated(static_cast<Category>(i))) all += standing[i];
  }
  return whole(std::max(all - terms.states.states + peak.moments, all + terms.step));
}

Result<RankClass> class_of(detail::Prepared& work, detail::SlackReplay& replay,
                           const PipelineGroup& group, const GroupTerms& terms, std::int64_t rank) {
  const Moments& moments = work.moments[static_cast<std::size_t>(rank)];
  const detail::ClassPeak peak = detail::class_peak(terms, moments, work.rules);
  const CategoryBytes coming = detail::coming_bytes(terms, moments, work.rules, peak);
  const CategoryBytes standing = detail::standing_bytes(terms);
  RankClass of{.pipeline_rank = rank,
               .ranks = world_size(work.question.layout) / work.question.layout.pp,
               .layers = group.layers};
  for (const std::size_t chunk : group.chunks) {
    of.embedding |= work.inventory.contents[chunk].stage.embedding;
    of.head |= work.inventory.contents[chunk].stage.head;
  }
  for (std::size_t i = 0; i < kCategories; ++i) {
    of.bytes[i] = whole(standing[i] + coming[i]);
    const auto category = static_cast<Category>(i);
    // Buffers between stages and logits go with the last micro-batch.
    const bool goes = category == Category::PointToPoint || category == Category::Logits;
    if (is_allocated(category) && !goes) of.between_steps += whole(standing[i]);
  }
  of.between_steps += whole(terms.left);
  const bool asked = work.question.replayed_rank.value_or(rank) == rank;
  const detail::SlackBytes slack = work.question.slack == Slack::Replayed && asked
                                       ? TW_TRY(replay.slack(group, terms, rank, peak.coming))
                                       : detail::SlackBytes{};
  of.bytes[static_cast<std::size_t>(Category::AllocatorSlack)] = whole(slack.usual);
  of.first_allocated = first_allocated(standing, terms, peak);
  of.first_reserved = of.first_allocated + whole(slack.first);
  of.slack_most = whole(slack.most);
  of.shares_embedding = terms.shares_embedding;
  of.moment = moment_of(work, group, terms, moments, peak);
  return of;
}

}  // namespace

Result<MemoryEstimate> estimate_memory(const MemoryQuestion& question) {
  detail::Prepared work = TW_TRY(detail::prepare(question));
  MemoryEstimate estimate;
  estimate.classes.resize(static_cast<std::size_t>(question.layout.pp));
  detail::SlackReplay replay(work);
  GroupTerms terms;
  for (const PipelineGroup& group : work.inventory.groups) {
    detail::fill_terms(terms, group, work.terms, work.rules);
    for (const std::int64_t rank : group.ranks) {
      estimate.classes[static_cast<std::size_t>(rank)] =
          TW_TRY(class_of(work, replay, group, terms, rank));
    }
  }
  estimate.capacity = capacity_of(question.cluster);
  estimate.outside = std::move(work.outside);
  estimate.ground = ground_of(question.trainer, question.job, question.constants);
  return settled(std::move(estimate), question.constants);
}

}  // namespace trainwright
