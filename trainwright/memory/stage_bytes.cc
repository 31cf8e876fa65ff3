#include "trainwright/memory/stage_bytes.h"

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/memory/clocked_bytes.h"
#include "trainwright/memory/prepared.h"

namespace trainwright {
namespace {

using detail::ChunkTerms;
using detail::whole;

const PipelineGroup& group_of(const detail::Prepared& work, std::int64_t rank) {
  const auto group = std::find_if(
      work.inventory.groups.begin(), work.inventory.groups.end(), [&](const PipelineGroup& of) {
        return std::binary_search(of.ranks.begin(), of.ranks.end(), rank);
      });
  TW_CHECK(group != work.inventory.groups.end(), "every pipeline rank is in a group");
  return *group;
}

// Of each stage the place of what it holds among the inventory's contents.
std::vector<std::size_t> contents_of(const detail::Prepared& work) {
  std::vector<std::size_t> contents;
  for (const StageAt& at : work.inventory.stages) {
    contents.push_back(static_cast<std::size_t>(at.kind));
  }
  return contents;
}

// Counted from what is there before the action, its own micro-batch's activations among it.
void set_bytes(const ChunkTerms& terms, StageCosts& stage) {
  stage.kept = whole(terms.whole);
  stage.released_by_input = whole(terms.whole) - whole(terms.half);
  stage.gradients = whole(terms.gradients + terms.kept_gradients + terms.last_gradient);
  stage.inside.forward = whole(terms.spots[0].total);
  stage.inside.backward_input = whole(terms.spots[1].total - terms.whole);
  stage.inside.backward_weight = whole(terms.spots[2].total - terms.half);
  stage.inside.backward = whole(terms.spots[3].total - terms.whole);
  if (stage.gradients == Bytes(0)) return;
  // The first ones make the gradients, which the memory model counts once they are made.
  stage.inside.first_weight = std::max(Bytes(1), stage.inside.backward_weight);
  stage.inside.first_backward = std::max(Bytes(1), whole(terms.first_backward.total - terms.whole));
}

}  // namespace

Result<std::vector<StageBytes>> stage_bytes(const MemoryQuestion& question) {
  const detail::Prepared work = TW_TRY(detail::prepare(question));
  std::vector<StageBytes> stages;
  for (const std::size_t content : contents_of(work)) {
    stages.push_back({whole(work.chunks[content].kept), whole(work.chunks[content].half)});
  }
  return stages;
}

Result<ClockedBytes> clocked_bytes(const MemoryQuestion& question, Costs times) {
  const detail::Prepared work = TW_TRY(detail::prepare(question));
  const Layout& layout = question.layout;
  const std::vector<std::size_t> contents = contents_of(work);
  TW_CHECK(contents.size() == times.stages.size(), "times are of the layout's stages");
  ClockedBytes made{std::move(times), EngineRules::None, {}};
  const bool pytorch = work.rules.pipeline.sends_stay;
  if (pytorch) made.engine = EngineRules::PyTorch;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    StageCosts& stage = made.costs.stages[i];
    set_bytes(work.terms[contents[i]].chunk, stage);
    if (!pytorch || i + 1 == contents.size()) continue;
    // The clock counts what is sent with what is kept.
    made.costs.boundaries[i].size = whole(work.chunks[contents[i]].output);
    stage.kept += made.costs.boundaries[i].size;
  }
  std::vector<char> seen(static_cast<std::size_t>(layout.pp), 0);
  made.at_step.resize(seen.size());
  detail::GroupTerms terms;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const std::int64_t rank = stage_rank(layout, static_cast<std::int64_t>(i));
    const auto r = static_cast<std::size_t>(rank);
    if (seen[r] != 0) continue;
    seen[r] = 1;
    detail::fill_terms(terms, group_of(work, rank), work.terms, work.rules);
    RealBytes standing;
    const detail::CategoryBytes bytes = detail::standing_bytes(terms);
    for (std::size_t c = 0; c < kCategories; ++c) {
      if (is_allocated(static_cast<Category>(c))) standing += bytes[c];
    }
    made.at_step[r] = whole(standing + terms.step);
    standing += detail::beside_passes(terms, work.rules);
    for (const ChunkTerms* chunk : terms.chunks) standing += chunk->gathered;
    made.costs.stages[i].resident = whole(pytorch ? standing - terms.transport : standing);
  }
  return made;
}

}  // namespace trainwright
