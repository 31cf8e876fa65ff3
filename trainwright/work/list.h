#pragma once
// The operator list as a value. Part of work.h: include that one.
//
// A layer on one rank is a small graph: operators in the order they run, and the tensors between
// them. A tensor is a storage: two views of the same bytes are one tensor, so nothing is ever
// counted twice. An operator says which tensors its backward pass needs; nothing else about memory
// is written down anywhere, it follows:
//
//   kept        a tensor that at least one operator saves, once;
//   recompute   an operator that is run again saves nothing; what enters a segment of such
//               operators from outside is kept instead;
//   alive       from the operator that writes a tensor to the last one that reads it, or, if kept,
//               to the backward of the first one that saves it;
//   gradients   a result has one if an input has one or a weight of the operator is trained. What
//               only serves gradients that nobody makes is not saved, not computed and not sent:
//               frozen weights have no W, and nothing runs backward below the first trained one;
//   I and W     the backward pass has two halves, the gradients of the inputs (I) and of the
//               weights (W), which zero-bubble schedules run apart. A saved tensor that W needs
//               lives until W, and so does the gradient that enters an operator with weights.
//
// The input of a list belongs to it, its output to the list that follows.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "trainwright/base/few.h"
#include "trainwright/base/four_bits.h"
#include "trainwright/base/ids.h"
#include "trainwright/base/units.h"
#include "trainwright/layout/layout.h"

namespace trainwright {

using TensorId = Id<struct TensorTag>;      // an index into OperatorList::tensors
using OperatorId = Id<struct OperatorTag>;  // an index into OperatorList::operators

// Those in 4 bits last, in the order of FourBits.
enum class Dtype : std::uint8_t { Fp32, Bf16, Fp16, Fp8, Int64, Int32, Bool, Nvfp4, Mxfp4, Nf4 };
constexpr std::int64_t byte_size(Dtype dtype) {  // of one number, where it has whole bytes
  constexpr std::array<std::int64_t, 7> kSizes = {4, 2, 2, 1, 8, 4, 1};
  return kSizes.at(static_cast<std::size_t>(dtype));
}
constexpr Bytes bytes_of(Dtype dtype, std::int64_t numbers) {  // with scales of blocks
  if (dtype < Dtype::Nvfp4) return Bytes(checked_mul(numbers, byte_size(dtype)));
  const int format = static_cast<int>(dtype) - static_cast<int>(Dtype::Nvfp4);
  return bytes_of(static_cast<FourBits>(format), numbers);
}
std::string_view name_of(Dtype dtype);

struct Tensor {
  std::string_view name;  // "query", "activated"; one word for one thing in every list
  Dtype dtype = Dtype::Bf16;
  std::int64_t elements = 0;  // on this rank; the most loaded one where they differ
  // Ranks of the tp x cp group that hold the same numbers. 1: each has its own part, and the parts
  // add up to the whole. tp: replicated. Key and value heads beyond their number are in between.
  std::int64_t copies = 1;
  bool has_gradient = true;  // false for masks, indices, statistics, and where nothing is trained

  Bytes bytes() const { return bytes_of(dtype, elements); }
};

// Which half of the backward pass needs a saved tensor.
enum class Half : std::uint8_t { Input, Weight, Both };
// Which gradients a saved tensor serves, a bit each: those of the operator's inputs in their order,
// and of its weights.
using GradientSet = std::uint8_t;
inline constexpr GradientSet kOfWeights = 0x80;
inline constexpr GradientSet kOfAny = 0xff;
constexpr GradientSet of_input(std::size_t k) { return static_cast<GradientSet>(1U << k); }
struct Save {
  TensorId tensor;
  Half half = Half::Input;
  GradientSet serves = kOfAny;  // of Half::Weight always the weights only
};

// What one pass of one operator costs, whatever the machine.
struct Effort {
  Flops matmul;  // matrix products and attention cores: what counts for MFU
  Flops other;   // everything else, one per arithmetic operation, roughly
  Bytes read;    // from the accelerator's memory
  Bytes written;
  Bytes converted;  // moved by kernels beside a product that make its factors: casts to few bits,
                    // or from them
  Effort& operator+=(const Effort& more);
  friend bool operator==(const Effort&, const Effort&) = default;
};

// A matrix as one rank holds it.
struct MatrixShape {
  std::int64_t in = 0, out = 0;
  friend bool operator==(const MatrixShape&, const MatrixShape&) = default;
};

enum class Pass : std::uint8_t { Forward, InputGradient, WeightGradient, Recompute };
enum class CollectiveKind : std::uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Ring };
inline constexpr std::array kPasses = {Pass::Forward, Pass::InputGradient, Pass::WeightGradient,
                                       Pass::Recompute};
inline constexpr std::array kCollectiveKinds = {
    CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
    CollectiveKind::AllToAll, CollectiveKind::Ring};
// What may run meanwhile: nothing; the product it feeds or follows, piece by piece (OverlapKind::
// TensorParallel); the weight or the input gradient of the same matrix; the other steps of the ring
// (ContextParallel); another micro-batch (ExpertAllToAll); the shared experts (SharedExpert).
enum class Beside : std::uint8_t {
  Nothing,
  OwnProduct,
  WeightGradient,
  InputGradient,
  RingSteps,
  OtherMicroBatch,
  SharedExperts,
};
// One call. Bytes are the larger side on this rank: what an all-gather gives, what a reduce-scatter
// takes, what an all-reduce or all-to-all holds; of a ring, what is sent in all its steps. A call
// of the forward pass is made again when its operator is run again.
struct Collective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  GroupKind group = GroupKind::Tp;  // Tp, Cp, Ep or Etp; Pp of a spread vocabulary
  Pass pass = Pass::Forward;        // Recompute: only then
  Beside beside = Beside::Nothing;
  Bytes bytes;
};

enum class OperatorKind : std::uint8_t {
  Matmul,         // with a weight
  AttentionCore,  // scores, softmax, product with the values, in one kernel or as one of several
  Norm,
  Elementwise,  // activation, rotation, residual, dropout, cast
  Lookup,       // rows of a table
  Route,        // scores and choice of experts
  Permute,      // tokens to experts and back
  Loss,
  Transfer,  // only a collective
};

// Whether an operator is run again in the backward pass. Rerun: its outputs stay if somebody else
// saves them. Discarded: they go too. Stored: it belongs to a segment that is run again, but its
// outputs are kept instead. Tail: after the last thing of its segment that anybody needs, so it
// saves nothing and is not run.
enum class Again : std::uint8_t { No, Rerun, Discarded, Stored, Tail };

struct Operator {
  std::string_view name;  // "query_key_value", "attention_core"
  OperatorKind kind = OperatorKind::Elementwise;
  Part part = Part::Norm;  // of the model, for grouping
  Few<TensorId, 8> inputs;
  Few<TensorId, 6> outputs;  // one that is an input too is overwritten in place
  Few<TensorId, 2> held;     // of earlier operators, by their callers, until this one has run
  Few<Save, 8> saves;
  Few<Collective, 6> collectives;
  Effort forward, input_gradient, weight_gradient;
  Bytes workspace;               // beside inputs and outputs, while it runs forward
  Bytes backward_workspace;      // beside what is saved and the gradients, and
  Bytes weight_workspace;        // so much more where its weights are trained
  MatrixShape matrix;            // the weight of a product; 0 x 0: none
  std::int64_t matrices = 1;     // of that shape: experts of this rank
  Flags<LayerMatrix> weights;    // of a layer that it joins; none: that of the operator's name
  Bytes stored;                  // of all of them with their scales, where they are quantised
  Bytes unsharded;               // of these, what no sharding cuts (`unsharded_bytes`)
  Bytes waiting;                 // gradients of its weights that stay until the pass has ended
  MatrixShape stand_in;          // an empty gradient of that shape stays for good; 0 x 0: none
  bool trained = false;          // has weights of its own that get a gradient
  bool adapter = false;          // these are a low-rank adapter's, not the model's
  bool has_weight = false;       // has a weight-gradient half that can be put off
  bool gradients_apart = false;  // that of each input is a product by itself
  bool low_precision = false;    // a product that fp8 and fp4 recipes take
  bool moves_counted = false;    // forward and input_gradient tell it, whatever its tensors are
  std::int64_t head_width = 0;   // of an attention core that is one kernel; 0: it is none
  std::int64_t keys = 0;         // and the tokens of a sequence that one call sees
  // So many of the first inputs have the gradient of the output itself, as the terms of a sum.
  std::uint8_t gradients_passed = 0;
  Again again = Again::No;
  std::uint8_t segment = 0;  // operators of one segment are run again together; 0: none
};

struct OperatorList {
  std::vector<Tensor> tensors;
  std::vector<Operator> operators;
  TensorId input, output;  // what the previous list gives and the next one takes

  const Tensor& at(TensorId id) const { return tensors[id.at()]; }
};

// The tensors that stay from the forward to the backward pass, by the rules above, in their order.
struct Kept {
  TensorId tensor;
  Half half = Half::Input;
  bool checkpoint = false;  // only because it entered, or was stored in, a segment run again
};
std::vector<Kept> kept_tensors(const OperatorList& list);

std::string_view name_of(OperatorKind kind);
std::string_view name_of(CollectiveKind kind);
std::string_view name_of(Pass pass);
std::string_view name_of(Half half);
std::string_view name_of(Beside beside);

}  // namespace trainwright
