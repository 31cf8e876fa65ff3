#include "trainwright/work/inventory.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "trainwright/base/hash.h"
#include "trainwright/work/work.h"

namespace trainwright {
namespace {

// What decides which rank holds what.
struct SplitKey {
  std::array<std::int64_t, 9> numbers{};
  std::vector<std::int64_t> layers;
  std::vector<Recompute> recompute_by_stage;
  friend bool operator==(const SplitKey&, const SplitKey&) = default;
};
SplitKey split_key(const Layout& of) {
  return {{of.pp, of.vpp, of.first_layers, of.last_layers, of.count_embedding, of.count_loss,
           of.mtp_stage.value_or(-1), static_cast<std::int64_t>(of.placement),
           of.vocab_parallel ? 1 : 0},
          of.layers,
          of.recompute_by_stage};
}
struct SplitHash {
  std::size_t operator()(const SplitKey& key) const {
    Hash hash;
    for (const std::int64_t number : key.numbers) hash.add(number);
    for (const std::int64_t layers : key.layers) hash.add(layers);
    for (const Recompute& of : key.recompute_by_stage) {
      hash.add(static_cast<std::int64_t>(of.kind) << 40 | of.n);
    }
    return hash.value();
  }
};

const Recompute& recompute_of(const Layout& layout, const Stage& stage) {
  return layout.recompute_by_stage.empty() ? layout.recompute
                                           : layout.recompute_by_stage[stage.id.at()];
}

bool copies_embedding(const StageContent& content) {
  return std::any_of(content.weights.begin(), content.weights.end(), is_embedding_copy);
}

StageContent content_of(const Stage& stage, const std::vector<Stage>& stages, const Model& model,
                        const Recipe& recipe, std::int64_t first_trained) {
  const std::size_t s = stage.id.at();
  const bool last = s + 1 == stages.size();
  const std::int64_t frozen = recipe.training.frozen_layers - stage.first;
  return {.stage = stage,
          .receives = s > 0 && stages[s - 1].rank != stage.rank,
          .sends = !last && stages[s + 1].rank != stage.rank,
          .frozen = std::clamp<std::int64_t>(frozen, 0, stage.count),
          .after_trained = first_trained < stage.first,
          .weights = weights_beside_layers(stage, model, recipe.code)};
}

// The place of what `matches` in a list, at its end if there is none.
template <class T, class Matches>
std::size_t place_of(const std::vector<T>& list, Matches matches) {
  return static_cast<std::size_t>(std::find_if(list.begin(), list.end(), matches) - list.begin());
}

void fill_groups(StageInventory& inventory, std::int64_t pp) {
  std::vector<PipelineGroup> ranks(static_cast<std::size_t>(pp));
  for (const StageAt& at : inventory.stages) {
    PipelineGroup& rank = ranks[static_cast<std::size_t>(at.rank)];
    const auto content = static_cast<std::size_t>(at.kind);
    rank.chunks.push_back(content);
    rank.layers += inventory.contents[content].stage.count;
    if (std::find(rank.distinct.begin(), rank.distinct.end(), content) == rank.distinct.end()) {
      rank.distinct.push_back(content);
    }
  }
  const std::vector<std::int64_t>& sums = inventory.embedding_ranks;
  for (std::int64_t r = 0; r < pp; ++r) {
    PipelineGroup& rank = ranks[static_cast<std::size_t>(r)];
    rank.sums_embedding = std::find(sums.begin(), sums.end(), r) != sums.end();
    auto& groups = inventory.groups;
    const std::size_t found = place_of(groups, [&](const PipelineGroup& group) {
      return group.chunks == rank.chunks && group.sums_embedding == rank.sums_embedding;
    });
    if (found == groups.size()) groups.push_back(std::move(rank));
    groups[found].ranks.push_back(r);
    inventory.first_alike.push_back(groups[found].ranks.front());
  }
}

std::vector<std::int64_t> embedding_ranks(const StageInventory& inventory) {
  std::vector<std::int64_t> ranks;
  for (const StageAt& at : inventory.stages) {
    const StageContent& content = inventory.contents[static_cast<std::size_t>(at.kind)];
    if (content.stage.embedding || copies_embedding(content)) ranks.push_back(at.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.size() < 2) ranks.clear();
  return ranks;
}

}  // namespace

std::string_view name_of(StageWeight weight) {
  constexpr std::array<std::string_view, 4> kNames = {"share of the embedding", "share of the head",
                                                      "copy of the embedding for the head",
                                                      "copy of the embedding for MTP"};
  return kNames[static_cast<std::size_t>(weight)];
}

StageWeights weights_beside_layers(const Stage& stage, const Model& model, const CodeFacts& code) {
  StageWeights weights;
  if (stage.embedding_share) weights.push_back(StageWeight::EmbeddingShare);
  if (stage.head_share) weights.push_back(StageWeight::HeadShare);
  if (!stage.away) return weights;
  // Megatron-Core 0.16.1, 0.19.2 models/gpt/gpt_model.py: the head's own is made beside that of the
  // modules, though it then reads theirs.
  if (model.tied && stage.head && !stage.head_share) weights.push_back(StageWeight::TiedHeadCopy);
  if (code.mtp_copies_embedding && stage.mtp > 0) weights.push_back(StageWeight::MtpEmbeddingCopy);
  return weights;
}

bool hold_the_same(const StageContent& a, const StageContent& b) {
  return a.stage.runs == b.stage.runs && a.stage.embedding == b.stage.embedding &&
         a.stage.head == b.stage.head && a.stage.mtp == b.stage.mtp && a.frozen == b.frozen &&
         a.after_trained == b.after_trained && a.receives == b.receives && a.sends == b.sends &&
         a.weights == b.weights;
}

Result<StageInventory> stage_inventory(const Layout& layout, const Model& model,
                                       const Recipe& recipe) {
  const std::vector<Stage> stages = TW_TRY(stage_layers(layout, model));
  if (!layout.recompute_by_stage.empty() && layout.recompute_by_stage.size() != stages.size()) {
    return fail("recompute", "there must be one way to recompute for each stage, or one for all");
  }
  const std::int64_t first_trained = first_trained_layer(model, recipe.training);
  StageInventory inventory;
  for (const Stage& stage : stages) {
    StageContent content = content_of(stage, stages, model, recipe, first_trained);
    auto& contents = inventory.contents;
    const std::size_t found = place_of(contents, [&](const StageContent& other) {
      return hold_the_same(content, other) &&
             recompute_of(layout, content.stage) == recompute_of(layout, other.stage);
    });
    if (found == contents.size()) contents.push_back(std::move(content));
    inventory.stages.push_back({static_cast<std::int64_t>(found), stage.rank});
  }
  inventory.embedding_ranks = embedding_ranks(inventory);
  fill_groups(inventory, layout.pp);
  return inventory;
}

struct StageInventories::State {
  Model model;
  Recipe recipe;
  std::unordered_map<SplitKey, Result<Known>, SplitHash> known = {};
  std::vector<StageContent> contents = {};  // of all inventories

  Result<Known> make(const Layout& layout) {
    Known made{TW_TRY(stage_inventory(layout, model, recipe)),
               static_cast<std::int64_t>(known.size()),
               {}};
    for (const StageContent& content : made.inventory.contents) {
      const std::size_t found = place_of(
          contents, [&](const StageContent& other) { return hold_the_same(content, other); });
      if (found == contents.size()) contents.push_back(content);
      made.numbers.push_back(found);
    }
    return made;
  }
};

StageInventories::StageInventories(const Model& model, const Recipe& recipe)
    : state_(new State{model, recipe}) {}
StageInventories::~StageInventories() = default;
StageInventories::StageInventories(StageInventories&&) noexcept = default;
StageInventories& StageInventories::operator=(StageInventories&&) noexcept = default;

Result<const StageInventories::Known*> StageInventories::of(const Layout& layout) {
  SplitKey key = split_key(layout);
  auto found = state_->known.find(key);
  if (found == state_->known.end()) {
    found = state_->known.emplace(std::move(key), state_->make(layout)).first;
  }
  const Result<Known>& known = found->second;
  if (!known) return tl::unexpected<Error>(known.error());
  return &*known;
}

}  // namespace trainwright
