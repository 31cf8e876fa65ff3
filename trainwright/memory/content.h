#pragma once
// Private: what each pipeline rank holds, and which ranks hold the same.
//
// Of a thousand pipeline ranks most hold equal pieces of equal layers. Ranks with the same pieces
// form a group: their bytes per micro-batch and their states are the same, only the number of
// micro-batches in flight differs.
#include <cstdint>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/work/work.h"

namespace trainwright::detail {

// A stage as far as memory is concerned.
struct ChunkContent {
  Stage stage;                                          // the first one like it
  bool from_other_rank = false, to_other_rank = false;  // its boundaries cross ranks
  std::int64_t frozen = 0;                              // of its layers, the first so many
  bool after_trained = true;                            // something before it is trained
  std::int64_t embedding_copies = 0;                    // as work.h counts them
  bool shares_embedding = false;  // these or the embedding: all have gradients to sum
};

// Whether they hold the same and do the same with it; how each recomputes is left to the caller.
bool same_content(const ChunkContent& a, const ChunkContent& b);

struct PipelineGroup {
  std::vector<std::int64_t> ranks;  // of the pipeline, ascending
  std::vector<std::size_t> chunks;  // into Partition::contents
  std::int64_t layers = 0;
  std::vector<std::size_t> distinct = {};  // of `chunks` each content once, as they come
};

struct Partition {
  std::vector<ChunkContent> contents;
  std::vector<PipelineGroup> groups;  // by their first rank
};
// O(stages x contents).
Result<Partition> partition_of(const Layout& layout, const Model& model, const Recipe& recipe);

}  // namespace trainwright::detail
