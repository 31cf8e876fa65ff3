#pragma once
// Private: the stages of layouts, dealt out once for all that deal alike, with those that hold the
// same told apart.
#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "trainwright/base/hash.h"
#include "trainwright/layout/layout.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright::detail {

struct Dealt {
  // A kind of stage: the first one of it, and its number among those of all layouts.
  struct Kind {
    Stage stage;
    std::int64_t content = 0;
  };
  std::vector<Kind> kinds;
  std::vector<StepPieces::StageAt> stages;
  std::vector<std::int64_t> first_alike;  // as in StepPieces
};

class DealtStages {
 public:
  // `all_alike`: all layers of a kind are, wherever they are.
  DealtStages(const Model& model, bool all_alike) : model_(model), all_alike_(all_alike) {}

  // Valid until the next layout whose layers are listed or run again stage by stage.
  Result<const Dealt*> of(const Layout& layout) {
    if (!layout.layers.empty() || !layout.recompute_by_stage.empty()) {
      listed_ = TW_TRY(dealt(layout));
      return &listed_;
    }
    const auto found = dealt_.find(key_of(layout));
    if (found != dealt_.end()) return &found->second;
    return &dealt_.emplace(key_of(layout), TW_TRY(dealt(layout))).first->second;
  }

 private:
  using Key = std::array<std::int64_t, 9>;
  static Key key_of(const Layout& of) {
    return {of.pp,
            of.vpp,
            of.first_layers,
            of.last_layers,
            of.count_embedding,
            of.count_loss,
            of.mtp_stage.value_or(-1),
            static_cast<std::int64_t>(of.placement),
            of.vocab_parallel ? 1 : 0};
  }

  bool hold_the_same(const Stage& a, const Stage& b) const {
    return a.runs == b.runs && a.embedding == b.embedding && a.head == b.head && a.mtp == b.mtp &&
           a.away == b.away && a.embedding_share == b.embedding_share &&
           a.head_share == b.head_share && (all_alike_ || a.first == b.first);
  }

  std::int64_t content_of(const Stage& stage) {
    const auto known = std::find_if(contents_.begin(), contents_.end(), [&](const Stage& other) {
      return hold_the_same(stage, other);
    });
    const std::int64_t number = known - contents_.begin();
    if (known == contents_.end()) contents_.push_back(stage);
    return number;
  }

  // O(stages x contents).
  Result<Dealt> dealt(const Layout& layout) {
    Dealt of;
    std::vector<std::vector<std::int64_t>> by_rank(static_cast<std::size_t>(layout.pp));
    for (const Stage& stage : TW_TRY(stage_layers(layout, model_))) {
      const std::int64_t content = content_of(stage);
      auto kind = of.kinds.end();
      if (layout.recompute_by_stage.empty()) {
        kind = std::find_if(of.kinds.begin(), of.kinds.end(),
                            [&](const Dealt::Kind& known) { return known.content == content; });
      }
      of.stages.push_back({kind - of.kinds.begin(), stage.rank});
      if (kind == of.kinds.end()) of.kinds.push_back({stage, content});
      by_rank[static_cast<std::size_t>(stage.rank)].push_back(of.stages.back().kind);
    }
    for (const auto& kinds : by_rank) {
      of.first_alike.push_back(std::find(by_rank.begin(), by_rank.end(), kinds) - by_rank.begin());
    }
    return of;
  }

  const Model& model_;
  bool all_alike_;
  std::vector<Stage> contents_;
  std::unordered_map<Key, Dealt, NumbersHash> dealt_;
  Dealt listed_;
};

}  // namespace trainwright::detail
