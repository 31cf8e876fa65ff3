#pragma once
// What a layer's operator list depends on. Part of work.h: include that one.
//
// Of a whole decision only a slice matters to one layer. Slices are few (a few thousand in a search
// over millions of layouts), so every list is made once.
#include <compare>
#include <cstdint>
#include <optional>

#include "trainwright/layout/layout.h"
#include "trainwright/work/list.h"

namespace trainwright {

// Flash: one kernel, keeps its inputs, output and a row statistic. FusedSoftmax: scores, a fused
// scale-mask-softmax, product. Eager: every step its own kernel. Sdpa: PyTorch's
// scaled_dot_product_attention as it runs on CPU (transformers' default there).
enum class AttentionKernel : std::uint8_t { Flash, FusedSoftmax, Eager, Sdpa };

struct Slice {
  std::int64_t tp = 1, cp = 1, ep = 1, etp = 1;
  std::int64_t mbs = 1, seq = 1;  // the whole sequence, before cp cuts it
  bool sp = false;
  CpKind cp_kind = CpKind::Ring;
  std::int64_t cp_ulysses = 0;
  DispatcherKind dispatcher = DispatcherKind::AllToAll;
  PrecisionKind precision = PrecisionKind::Bf16;
  AttentionKernel attention = AttentionKernel::Flash;
  Recompute recompute;  // of this layer: None, Selective, FeedForwardOnly, Modules, OpSelective,
                        // or Full; which layers Block and EveryNth mean is settled by the stage
  friend bool operator==(const Slice&, const Slice&) = default;
};
// The slice of a layer that is or is not among those recomputed; `attention`: nullopt for what the
// trainer does by default.
Slice slice_of(const Layout& layout, const Trainer& trainer,
               std::optional<AttentionKernel> attention = std::nullopt);

// What the fused version of a step keeps: its input, its output, so many bytes per row. A step
// without one is run as plain PyTorch would, operator by operator.
struct FusedKeeps {
  bool input = false;
  bool output = false;
  double row_bytes = 0;
};

// Which code runs, as far as it changes what is kept or moved: the trainer's facts, settled for one
// precision. Trainers differ in this value and nowhere else.
struct Recipe {
  Dtype compute = Dtype::Bf16;  // of activations
  Dtype weight = Dtype::Bf16;   // as kernels read them
  std::optional<FusedKeeps> norm, rope, gated_activation, bias_activation, bias_dropout;
  std::optional<FusedKeeps> flash;  // row: one token of one head
  bool grouped_gemm = true;
  bool gathers_again = true;     // with sp: the gathered input of a matrix is dropped and gathered
                                 // again for the weight gradient
  bool dropout = true;           // hidden dropout as the model says; false: switched off
  bool vocabulary_split = true;  // embedding and head over tp
  Loss loss;                     // bytes per logit
  double fp8_input_copies = 0;   // bytes per element kept of a matrix' input in fp8 recipes
};
Recipe recipe_of(const Trainer& trainer, PrecisionKind precision);

}  // namespace trainwright
