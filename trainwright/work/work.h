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
// A list is made from (model, layer kind, slice, recipe) and knows no hardware (list.h, slice.h). Its
// totals are plain numbers; a stage is a sum of totals, which costs a few additions.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/work/list.h"
#include "trainwright/work/slice.h"

namespace trainwright {

OperatorList layer_work(const Model& model, const LayerKind& kind, const Slice& slice,
                        const Recipe& recipe);
OperatorList embedding_work(const Model& model, const Slice& slice, const Recipe& recipe);
// Final norm, head and loss.
OperatorList head_work(const Model& model, const Slice& slice, const Recipe& recipe);
// What a multi-token-prediction module does beside its layer: norms, projection, head and loss.
OperatorList mtp_work(const Model& model, const Slice& slice, const Recipe& recipe);

// Weights one rank holds. Expert weights are sharded over another group (edp), hence apart;
// replicated ones (norms, router, key and value heads beyond their number) are part of `dense`.
struct HeldParameters {
  Params dense, expert, replicated;
  HeldParameters& operator+=(const HeldParameters& other);
};
HeldParameters held_parameters(const std::vector<Weight>& weights, const Model& model,
                               const Slice& slice, const Recipe& recipe);

// Calls and bytes of one kind over one group in one pass.
struct Traffic {
  std::int64_t calls = 0;
  Bytes bytes;
};
inline constexpr std::size_t kTrafficGroups = 4;  // tp, cp, ep, etp

// A moment of a list: the bytes alive beyond what was there before its forward pass began, and
// where. Earlier lists' kept bytes come on top.
struct Peak {
  Bytes bytes;
  OperatorId at;
};

// The sums of a list, or of many.
struct Totals {
  std::array<Effort, 4> effort{};  // by Pass
  Bytes kept;                      // from forward to backward
  Bytes kept_for_weights;          // of these, what W still needs after I
  Bytes held_gradients;            // made by I and held until W
  Peak forward;                    // kept so far included
  Peak backward;                   // what is still kept, recomputed tensors and gradients
  HeldParameters parameters;
  // [group][kind][pass]
  std::array<std::array<std::array<Traffic, 4>, 5>, kTrafficGroups> traffic{};
};
Totals totals(const OperatorList& list, const HeldParameters& parameters);

// `count` equal lists in a row, of a stage.
struct Portion {
  const Totals* totals = nullptr;
  std::int64_t count = 1;
};
// The sums of a stage, in the order of its layers; allocates nothing. Its peaks are the highest of
//   forward   kept of all before + forward peak          backward   kept of all before + backward
Totals compose(std::span<const Portion> portions);

// Every list of one model and recipe that was asked for, made once. A look-up is a hash of the slice.
// Not for several threads at once; each has its own.
class WorkCache {
 public:
  WorkCache(const Model& model, const Recipe& recipe);
  const Totals& layer(LayerKindId kind, const Slice& slice);
  const Totals& embedding(const Slice& slice);
  const Totals& head(const Slice& slice);
  const Totals& mtp(const Slice& slice);
  std::size_t size() const;
  // (members: private maps)
};

}  // namespace trainwright
