#pragma once
// Private: the stages of layouts, dealt out once for all that deal alike.
#include <array>
#include <unordered_map>
#include <vector>

#include "trainwright/base/hash.h"
#include "trainwright/layout/layout.h"

namespace trainwright::detail {

class DealtStages {
 public:
  // Of one model. Valid until the next layout whose layers are listed stage by stage.
  Result<const std::vector<Stage>*> of(const Layout& layout, const Model& model) {
    if (!layout.layers.empty()) {
      listed_ = TW_TRY(stage_layers(layout, model));
      return &listed_;
    }
    const auto found = dealt_.find(key_of(layout));
    if (found != dealt_.end()) return &found->second;
    return &dealt_.emplace(key_of(layout), TW_TRY(stage_layers(layout, model))).first->second;
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

  std::unordered_map<Key, std::vector<Stage>, NumbersHash> dealt_;
  std::vector<Stage> listed_;
};

}  // namespace trainwright::detail
