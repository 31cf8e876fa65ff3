#pragma once
// What the stages of a pipeline hold: layers by kind, both ends, and every copy of a weight. Part
// of work.h: include that one.
//
// Memory, step time, gradient traffic, optimizer and communicators of a stage are sums over its
// entry here, so that a weight that is added here is in all of them. Of a thousand pipeline ranks
// most hold equal pieces of equal layers: a content is listed once, ranks that hold the same
// contents form a group.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "trainwright/base/few.h"
#include "trainwright/base/result.h"
#include "trainwright/layout/layout.h"
#include "trainwright/model/model.h"
#include "trainwright/work/slice.h"

namespace trainwright {

// A weight that a stage holds outside its layers and ends. Shares: with vocab_parallel every
// pipeline rank holds a part of either table. Copies of the embedding's table: for a tied head on
// another pipeline rank, and for MTP modules on another stage where the trainer makes one.
enum class StageWeight : std::uint8_t {
  EmbeddingShare,
  HeadShare,
  TiedHeadCopy,
  MtpEmbeddingCopy,
};
std::string_view name_of(StageWeight weight);
// Copies of the embedding's table. Their gradients are summed over the stages that hold one, once a
// step, after those of data-parallel ranks.
constexpr bool is_embedding_copy(StageWeight weight) { return weight >= StageWeight::TiedHeadCopy; }
using StageWeights = Few<StageWeight, 4>;
StageWeights weights_beside_layers(const Stage& stage, const Model& model, const CodeFacts& code);

struct StageContent {
  Stage stage;                           // the first one like it
  bool receives = false, sends = false;  // across pipeline ranks
  std::int64_t frozen = 0;               // of its layers, the first so many
  bool after_trained = true;             // something before it is trained
  StageWeights weights = {};             // outside layers and ends
};
// Whether they hold the same and do the same with it, whatever they run again.
bool hold_the_same(const StageContent& a, const StageContent& b);

struct PipelineGroup {              // pipeline ranks that hold the same
  std::vector<std::int64_t> ranks;  // ascending
  std::vector<std::size_t> chunks;  // contents, in the order of the layers
  std::int64_t layers = 0;
  std::vector<std::size_t> distinct = {};  // of `chunks` each content once, as they come
  bool sums_embedding = false;             // the ranks are among embedding_ranks
};

struct StageAt {
  std::int64_t kind = 0, rank = 0;  // of `contents`, of the pipeline
};
struct StageInventory {
  std::vector<StageContent> contents;     // stages that run different things again are apart
  std::vector<StageAt> stages;            // in the order of the layers
  std::vector<PipelineGroup> groups;      // by their first rank
  std::vector<std::int64_t> first_alike;  // of each pipeline rank, the first one of its group
  // Pipeline ranks that sum gradients of the embedding's table: that of the table and those of its
  // copies, ascending, or none.
  std::vector<std::int64_t> embedding_ranks;
};
// `recipe` of any precision. O(stages x contents). Diagnoses what cannot be dealt out.
Result<StageInventory> stage_inventory(const Layout& layout, const Model& model,
                                       const Recipe& recipe);

// Inventories of many layouts of one model and job, made once for all that deal layers alike.
// References stay valid. Not for several threads at once.
class StageInventories {
 public:
  StageInventories(const Model& model, const Recipe& recipe);
  ~StageInventories();
  StageInventories(StageInventories&&) noexcept;
  StageInventories& operator=(StageInventories&&) noexcept;

  struct Known {
    StageInventory inventory;
    std::int64_t number = 0;           // of the inventory among all
    std::vector<std::size_t> numbers;  // of each content among those of all inventories
  };
  Result<const Known*> of(const Layout& layout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainwright
