#pragma once
// What one rank does for one micro-batch: one list, two readings.
//
// `memory` reads it for bytes, `cost` for seconds. Recompute, sequence parallelism, fused kernels,
// FP8 are changes to this list and nowhere else; the closed formulas of the papers are its tests,
// for a layer of h hidden, a heads, s tokens, b sequences, t ways of tensor parallelism:
//
//   s b h (34 + 5 a s / h)                 bytes kept, GPT, 16 bit       (arXiv:2205.05198, eq. 1)
//   s b h (10 + 24 / t + 5 a s / (h t))    with tensor parallelism       (eq. 2)
//   s b h / t (34 + 5 a s / h)             with sequence parallelism too (eq. 4)
//   s b h / t (34), 2 s b h                selective and full recompute  (section 5)
//   s b h / t (16 + 6 f / h) + 4 a s b / t Llama layer in Transformer Engine with flash attention
//
// A list is made from (model, layer kind, slice, recipe) and knows no hardware (list.h, slice.h).
// Its totals are plain numbers; a stage is a sum of totals, which costs a few additions.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/work/held.h"
#include "trainwright/work/inventory.h"
#include "trainwright/work/list.h"
#include "trainwright/work/slice.h"

namespace trainwright {

OperatorList layer_work(const Model& model, const LayerKind& kind, const Slice& slice,
                        const Recipe& recipe);
OperatorList embedding_work(const Model& model, const Slice& slice, const Recipe& recipe);
// Final norm, head and loss.
OperatorList head_work(const Model& model, const Slice& slice, const Recipe& recipe);
// What a multi-token-prediction module does beside its layer: embedding, norms, projection, head
// and loss.
OperatorList mtp_work(const Model& model, const Slice& slice, const Recipe& recipe);

// Calls and bytes of one kind over one group in one pass.
struct Traffic {
  std::int64_t calls = 0;
  Bytes bytes;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};
// All collectives of a list or of many, summed; most are zero, and only the others are held.
class TrafficTable {
 public:
  void add(GroupKind group, CollectiveKind kind, Pass pass, const Traffic& traffic);
  void add(const TrafficTable& other, std::int64_t times);
  Traffic at(GroupKind group, CollectiveKind kind, Pass pass) const;
  friend bool operator==(const TrafficTable&, const TrafficTable&) = default;

 private:
  struct Cell {
    std::size_t at = 0;  // of 5 groups, 5 kinds, 4 passes
    Traffic traffic;
    friend bool operator==(const Cell&, const Cell&) = default;
  };
  Traffic& cell(std::size_t at);
  std::vector<Cell> cells_;  // that are not zero, in order
};

// A moment of a list: the bytes alive beyond those that earlier lists keep, and where. The input of
// the list counts as its own.
struct Peak {
  Bytes bytes;
  OperatorId at;
  friend bool operator==(const Peak&, const Peak&) = default;
};

// Empty gradients that stay for good, one for each shape, in the compute type.
using StandIns = Few<MatrixShape, 16>;
void add_shapes(StandIns& all, const StandIns& more);  // of those it does not have yet

// The sums of a list, or of many.
struct Totals {
  std::array<Effort, 4> effort{};  // by Pass
  Bytes kept;                      // from forward to backward
  Bytes kept_of_experts;           // of these, what grows with the tokens that experts receive
  Bytes kept_for_weights;          // what W still needs after I, recomputed tensors included
  Bytes held_gradients;            // made by I and held until W
  Bytes input, output;             // the tensors at both ends; output is not part of `kept`
  Peak forward;                    // kept so far, the operator's inputs, outputs and workspace
  Peak backward;                   // what is still kept, recomputed tensors, gradients, workspace
  Peak backward_input;             // the same when W is put off: what W needs stays
  HeldParameters parameters;
  StandIns stand_ins;
  TrafficTable traffic;
  friend bool operator==(const Totals&, const Totals&) = default;
};
Totals totals(const OperatorList& list, const HeldParameters& parameters = {});
// No more than its efforts: nothing is walked through.
Totals efforts(const OperatorList& list);
// {"tensors": [...], "operators": [...]}; tensors are named by their place in the array.
Json to_json(const OperatorList& list);
Json to_json(const Totals& totals);

// The same passes as a program for an allocator: which storages are made and dropped, in order.
// The input is made by the list before and dropped here, the output is made here and dropped by the
// list after; backward, the gradient of the output comes and that of the input goes.
struct StorageEvent {
  std::int32_t storage = 0;
  bool made = false;  // else dropped
  Bytes bytes;
  bool sent = false;  // dropped after a collective that read or wrote it, on another stream
};
struct StorageEvents {
  std::vector<StorageEvent> forward, backward;
  std::int32_t storages = 0;  // ids are below
  std::int32_t input = 0, output = 0;
  std::int32_t input_gradient = -1, output_gradient = -1;  // -1: there is none
  std::vector<std::int32_t> waiting;  // gradients of weights that live on when the list is done
};
StorageEvents storage_events(const OperatorList& list);

// Which list: of a layer kind, of an end, a rank's share of a spread vocabulary, or none, of a copy
// of the embedding's table.
struct ListOf {
  enum class What : std::uint8_t { Embedding, Layer, Mtp, Head, EmbeddingShare, HeadShare, Copy };
  What what = What::Layer;
  LayerKindId kind = LayerKindId(0);  // of a layer
  Slice slice;
  friend bool operator==(const ListOf&, const ListOf&) = default;
};
// Of layers that are run again together, the list of one.
OperatorList make_list(const Model& model, const Recipe& recipe, const ListOf& of);
// Its weights; `list`: as made.
std::vector<HeldWeight> held_weights(const Model& model, const Recipe& recipe, const ListOf& of,
                                     const OperatorList& list);
// The sums of that list with what a rank holds for it.
Totals totals(const Model& model, const Recipe& recipe, const ListOf& of, const OperatorList& list);

// `count` equal lists in a row, of a stage.
struct Portion {
  const Totals* totals = nullptr;
  std::int64_t count = 1;
  const ListOf* list = nullptr;
};
// The sums of a stage, in the order of its layers. Its peaks are the highest of
//   forward   kept of all before + forward peak          backward   kept of all before + backward
Totals compose(std::span<const Portion> portions);
// n layers that are run again as one, of which only the first one's input is kept: `plain` is such
// a layer without recompute, `full` with.
Totals checkpointed_together(const Totals& plain, const Totals& full, std::int64_t n);

// Every list of one model and recipe that was asked for, made once. A look-up is a hash of the
// slice; references stay valid. Not for several threads at once; each has its own.
class WorkCache {
 public:
  // Who wants more of a list than its sums reads it when it is made.
  using Reader = std::function<void(const Totals&, const OperatorList&)>;
  // Work: of each list no more than efforts and parameters, which takes half as long.
  enum class Sums : std::uint8_t { All, Work };
  WorkCache(const Model& model, const Recipe& recipe, Reader reader = {}, Sums sums = Sums::All);
  ~WorkCache();
  WorkCache(WorkCache&&) noexcept;
  WorkCache& operator=(WorkCache&&) noexcept;

  const Totals& layer(LayerKindId kind, const Slice& slice);
  // n of them that are run again as one.
  const Totals& together(LayerKindId kind, const Slice& slice, std::int64_t n);
  const Totals& embedding(const Slice& slice);
  const Totals& head(const Slice& slice);
  const Totals& mtp(const Slice& slice);
  // A stage's portions in order; `slice` as from slice_of for that stage. Which layers are frozen,
  // and into which a gradient flows, is settled here. With `full:n`, layers that are alike and
  // follow each other are grouped.
  std::vector<Portion> stage(const Stage& stage, const Slice& slice);
  // Of the weights that a stage holds besides (weights_beside_layers).
  std::vector<Portion> shares(const Stage& stage, const Slice& slice);
  const Totals& embedding_copy(const Slice& slice);
  std::size_t size() const;  // lists made

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What data parallelism moves for one stage: `units` calls (layers, the embedding, the head) of the
// shardings that work layer by layer. Gradients are those of trained parameters only.
struct ParameterTraffic {
  CollectiveKind kind = CollectiveKind::AllReduce;
  GroupKind group = GroupKind::DpCp;  // of the sharding's sharers
  Pass pass = Pass::Forward;          // before which weights are gathered, after which gradients go
  std::int64_t calls = 0;
  Bytes bytes;   // of all calls, the larger side
  Bytes copied;  // read and written between its buffer and the weights or gradients themselves
  bool every_micro_batch = false;  // or once a step
};
std::vector<ParameterTraffic> parameter_traffic(const HeldParameters& stage, std::int64_t units,
                                                const Sharding& sharding, const Recipe& recipe,
                                                const TrainedBytes& bytes);
// What one rank sends to the next stage for a micro-batch; the gradient that comes back is as
// large.
Bytes boundary_bytes(const Model& model, const Slice& slice, const Recipe& recipe);

}  // namespace trainwright
