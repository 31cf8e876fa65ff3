#include <algorithm>
#include <cmath>

#include "trainwright/memory/prepared.h"
#include "trainwright/memory/reserve.h"

namespace trainwright::detail {

Result<std::vector<Action>> SlackReplay::actions_of(std::int64_t rank) {
  const MemoryQuestion& question = work_.question;
  const auto at = static_cast<std::size_t>(rank);
  if (question.layout.schedule == ScheduleKind::Csv) return question.schedule->ranks[at];
  const MomentKey& key = work_.rules.moments;
  const Shape shape{key.ranks, static_cast<int>(enough_microbatches(key)), key.chunks};
  const MakeOptions options{.group = key.group, .limit = 0, .costs = {}};
  if (streams(facts_of(key.kind))) {
    return ahead_of(key, TW_TRY(make_rank(key.kind, shape, static_cast<int>(rank), options)));
  }
  if (!made_) made_ = TW_TRY(make(key.kind, shape, options));
  return ahead_of(key, made_->ranks[at]);
}

namespace {

// Which of its rank's stages a stage is.
std::vector<std::int32_t> chunks_by_stage(const MemoryQuestion& question) {
  std::vector<std::int32_t> chunk;
  if (question.layout.schedule == ScheduleKind::Csv) {
    const Placement& placement = question.schedule->placement;
    std::vector<std::int32_t> seen(static_cast<std::size_t>(placement.ranks));
    for (const RankId rank : placement.rank_of) chunk.push_back(seen[rank.at()]++);
    return chunk;
  }
  for (std::int64_t s = 0; s < stage_count(question.layout); ++s) {
    chunk.push_back(static_cast<std::int32_t>(stage_chunk(question.layout, s)));
  }
  return chunk;
}

// One by one: what all tokens meet, then expert by expert.
void add_one_by_one(std::vector<HeldWeight>& tensors, const std::vector<HeldWeight>& weights) {
  constexpr std::int64_t kMostExperts = 4096;
  std::int64_t experts = 0;
  for (const HeldWeight& weight : weights) {
    if (!weight.expert) tensors.push_back(weight);
    if (weight.expert) experts = std::max(experts, std::min(weight.copies, kMostExperts));
  }
  for (std::int64_t i = 0; i < experts; ++i) {
    for (const HeldWeight& weight : weights) {
      if (weight.expert && i < weight.copies) tensors.push_back(weight);
    }
  }
}

// Of layers that are run again together there are several.
ListWeights weights_of(const Prepared& work, const ListOf& of, const Totals& totals,
                       const OperatorList& list) {
  ListWeights weights;
  weights.stand_ins = totals.stand_ins;
  const auto held = held_weights(work.question.model, work.recipe, of, list);
  const std::int64_t lists = of.what == ListOf::What::Layer ? of.slice.recompute.n : 1;
  for (std::int64_t i = 0; i < lists; ++i) add_one_by_one(weights.tensors, held);
  return weights;
}

// Several layers that are run again together: the first one's input stays, the rest is made at
// once.
StorageEvents joint_events(const Totals& totals) {
  StorageEvents events;
  events.storages = 5;
  events.input = 0;
  events.output = 1;
  events.output_gradient = 2;
  events.input_gradient = 3;
  const Bytes working = std::max(Bytes(0), totals.backward.bytes - totals.kept - totals.output);
  const Bytes passing = std::max(Bytes(0), totals.forward.bytes - totals.kept - totals.output);
  events.forward = {{1, true, totals.output}, {4, true, passing}, {4, false, Bytes(0)}};
  events.backward = {{4, true, working},
                     {4, false, Bytes(0)},
                     {3, true, totals.input},
                     {2, false, Bytes(0)},
                     {0, false, Bytes(0)}};
  return events;
}

bool run_together(const ListOf& of) {
  return of.what == ListOf::What::Layer && of.slice.recompute.kind == RecomputeKind::Full &&
         of.slice.recompute.n > 1;
}

}  // namespace

void SlackReplay::build_programs(const PipelineGroup& group) {
  for (const std::size_t content : group.chunks) {
    for (const Portion& share : work_.chunks[content].shares) {
      if (weights_.contains(share.totals)) continue;
      weights_.emplace(share.totals,
                       weights_of(work_, *share.list, *share.totals, list_of(work_, *share.list)));
    }
    for (const PortionBytes& portion : work_.chunks[content].portions) {
      if (events_.contains(portion.totals)) continue;
      const OperatorList list = list_of(work_, *portion.list);
      events_.emplace(portion.totals, run_together(*portion.list) ? joint_events(*portion.totals)
                                                                  : storage_events(list));
      weights_.emplace(portion.totals, weights_of(work_, *portion.list, *portion.totals, list));
    }
  }
}

Result<Reserved> SlackReplay::replayed(const PipelineGroup& group, const GroupTerms& terms,
                                       std::int64_t rank, double lead) {
  if (chunk_of_.empty()) chunk_of_ = chunks_by_stage(work_.question);
  build_programs(group);
  std::vector<ChunkProgram> chunks;
  for (const std::size_t content : group.chunks) {
    ChunkProgram& program = chunks.emplace_back();
    program.content = &work_.inventory.contents[content];
    program.bytes = &work_.chunks[content];
    for (const PortionBytes& portion : program.bytes->portions) {
      const auto count = static_cast<std::size_t>(portion.count);
      program.lists.insert(program.lists.end(), count, &events_.at(portion.totals));
      program.weights.insert(program.weights.end(), count, &weights_.at(portion.totals));
      program.portions.insert(program.portions.end(), count, &portion);
    }
    // Of a spread vocabulary, or a copied embedding: weights without a place among the lists.
    for (const Portion& share : program.bytes->shares) {
      program.weights.insert(program.weights.end(), static_cast<std::size_t>(share.count),
                             &weights_.at(share.totals));
    }
  }
  const std::vector<Action> actions = TW_TRY(actions_of(rank));
  return replay_class({chunks, actions, chunk_of_, terms, work_.rules,
                       allocator_settings(work_.question.trainer), lead});
}

namespace {

// Kernels that the host is ahead by, usually and at most; none where nothing waits for it.
struct Lead {
  double usual = 0, most = 0;
};
Lead lead_of(const MemoryQuestion& question) {
  const Trainer& trainer = question.trainer;
  if (!records_streams(trainer.libraries)) return {};
  const MemoryConstants& constants = question.constants;
  const bool pipeline = question.layout.pp > 1;
  double usual = pipeline ? constants.lead_pipeline : constants.lead_alone;
  if (const auto& known = trainer.allocator.lead) {
    usual = static_cast<double>(pipeline ? known->pipeline : known->alone);
  }
  return {usual, std::max(usual, constants.lead_most)};
}

}  // namespace

Result<SlackBytes> SlackReplay::slack(const PipelineGroup& group, const GroupTerms& terms,
                                      std::int64_t rank, RealBytes coming) {
  // Far beyond any device; the allocator's model ends at 2^50 bytes.
  constexpr RealBytes kMostReplayed(0x1.0p45);
  if (coming > kMostReplayed) return SlackBytes{};
  const std::int64_t every = ceil_div(work_.question.layout.pp, kMostReplays);
  if (last_group_ == &group && rank % every != 0) {
    const auto of = [&](double share) { return RealBytes(std::ceil((share * coming).value())); };
    return SlackBytes{of(last_share_.usual), of(last_share_.most), of(last_share_.first)};
  }
  const Lead lead = lead_of(work_.question);
  const Reserved usual = TW_TRY(replayed(group, terms, rank, lead.usual));
  const Reserved most =
      lead.most > lead.usual ? TW_TRY(replayed(group, terms, rank, lead.most)) : usual;
  const SlackBytes slack{real(usual.reserved - usual.requested),
                         real(most.reserved - most.requested),
                         real(usual.first_reserved - usual.first_requested)};
  last_group_ = &group;
  last_share_ = coming > RealBytes()
                    ? SlackShares{slack.usual / coming, slack.most / coming, slack.first / coming}
                    : SlackShares{};
  return slack;
}

}  // namespace trainwright::detail
