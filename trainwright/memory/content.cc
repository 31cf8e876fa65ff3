#include "trainwright/memory/content.h"

#include <algorithm>

namespace trainwright::detail {
namespace {

const Recompute& recompute_of(const Layout& layout, const Stage& stage) {
  return layout.recompute_by_stage.empty() ? layout.recompute
                                           : layout.recompute_by_stage[stage.id.at()];
}

ChunkContent content_of(const Stage& stage, const std::vector<Stage>& stages, const Model& model,
                        const Recipe& recipe, std::int64_t first_trained) {
  const std::size_t s = stage.id.at();
  const bool last = s + 1 == stages.size();
  const auto copies = [&](const Stage& of) { return embedding_copies(of, model, recipe); };
  return {
      .stage = stage,
      .from_other_rank = s > 0 && stages[s - 1].rank != stage.rank,
      .to_other_rank = !last && stages[s + 1].rank != stage.rank,
      .frozen =
          std::clamp<std::int64_t>(recipe.training.frozen_layers - stage.first, 0, stage.count),
      .after_trained = first_trained < stage.first,
      .embedding_copies = copies(stage),
      .shares_embedding = copies(stage) > 0 ||
                          (stage.embedding && std::any_of(stages.begin(), stages.end(), copies))};
}

}  // namespace

bool same_content(const ChunkContent& a, const ChunkContent& b) {
  return a.stage.runs == b.stage.runs && a.stage.embedding == b.stage.embedding &&
         a.stage.head == b.stage.head && a.stage.mtp == b.stage.mtp && a.frozen == b.frozen &&
         a.after_trained == b.after_trained && a.from_other_rank == b.from_other_rank &&
         a.to_other_rank == b.to_other_rank && a.embedding_copies == b.embedding_copies &&
         a.shares_embedding == b.shares_embedding &&
         a.stage.embedding_share == b.stage.embedding_share &&
         a.stage.head_share == b.stage.head_share;
}

Result<Partition> partition_of(const Layout& layout, const Model& model, const Recipe& recipe) {
  const std::vector<Stage> stages = TW_TRY(stage_layers(layout, model));
  if (!layout.recompute_by_stage.empty() && layout.recompute_by_stage.size() != stages.size()) {
    return fail("recompute", "there must be one way to recompute for each stage, or one for all");
  }
  const std::int64_t first_trained = first_trained_layer(model, recipe.training);
  Partition partition;
  const auto ranks = static_cast<std::size_t>(layout.pp);
  std::vector<std::vector<std::size_t>> chunks(ranks);
  std::vector<std::int64_t> layers(ranks);
  for (const Stage& stage : stages) {
    ChunkContent content = content_of(stage, stages, model, recipe, first_trained);
    auto& contents = partition.contents;
    const auto found = std::find_if(contents.begin(), contents.end(), [&](const auto& other) {
      return same_content(content, other) &&
             recompute_of(layout, content.stage) == recompute_of(layout, other.stage);
    });
    const auto rank = static_cast<std::size_t>(stage.rank);
    chunks[rank].push_back(static_cast<std::size_t>(found - contents.begin()));
    layers[rank] += stage.count;
    if (found == contents.end()) contents.push_back(std::move(content));
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto& groups = partition.groups;
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.chunks == chunks[rank];
    });
    if (found != groups.end()) {
      found->ranks.push_back(static_cast<std::int64_t>(rank));
    } else {
      groups.push_back({{static_cast<std::int64_t>(rank)}, chunks[rank], layers[rank]});
    }
  }
  for (PipelineGroup& group : partition.groups) {
    for (const std::size_t chunk : group.chunks) {
      auto& distinct = group.distinct;
      const bool known = std::find(distinct.begin(), distinct.end(), chunk) != distinct.end();
      if (!known) distinct.push_back(chunk);
    }
  }
  return partition;
}

}  // namespace trainwright::detail
