#pragma once
// What a trainer offers and a layout chooses from, as enumerators with names (base/names.h). Part
// of trainer.h: include that one.
#include <span>
#include <string_view>

#include "trainwright/base/names.h"

namespace trainwright {

// clang-format off
enum class ShardingKind { Ddp, Zero, Fsdp, Hsdp, MegatronFsdp };
enum class PrecisionKind {
  Fp32, Fp16, Bf16, Fp8Delayed, Fp8Tensorwise, Fp8Rowwise, Fp8Blockwise, Mxfp8, Nvfp4,
};
// What gradients are added up and reduced in: as the trainer does unasked, or as asked.
enum class GradientDtype { AsTrainer, Fp32, Fp16, Bf16 };
enum class CpKind { Ring, AllGather, Ulysses, UlyssesRing };  // UlyssesRing: all-to-all inside
// Of tokens to experts. Flex: a kernel that sends a token once to each rank, by the backend that the
// trainer usually takes; the others name it.
enum class DispatcherKind { AllGather, AllToAll, Flex, DeepEp, HybridEp, NcclEp };
enum class OptimizerKind {
  AdamW, AdamWPrecisionAware, AdamW8bit, Muon, Adafactor, Sgd, SgdNoMomentum, AdamWFused,
  AdamWForeach,
};

// What is computed again in the backward pass. Selective: the attention core. OpSelective: all but
// the expensive operators. EveryNth: every n-th layer whole. Block: the first n layers of a stage
// whole. Full: every layer whole, keeping the input of every n-th.
enum class RecomputeKind {
  None, Selective, FeedForwardOnly, Modules, OpSelective, EveryNth, Block, Full,
};
enum class Offload { Optimizer, Activations, Parameters };  // what lives in host memory
// What the frozen matrices of layers are stored in beside adapters; embedding, head, norms, routers
// and biases stay as they are (`stored_bytes`, layout.h).
enum class FrozenBase { AsWeights, Nf4, Int8, Fp8, Mxfp4, Nvfp4 };
constexpr bool is_four_bits(FrozenBase base) {
  return base == FrozenBase::Nf4 || base >= FrozenBase::Mxfp4;
}
// What is made fp32 of what is not stored in few bits. Peft: all of it (embedding, norms, head,
// routers), as prepare_model_for_kbit_training of peft does. Trl: all but embedding and head, which
// TRL before 0.27 casts back after that call. With either, norms give fp32, few-bit matrices give
// back the dtype of their input, and so what passes from layer to layer is fp32.
enum class Prepared { AsTrainer, No, Peft, Trl };
// clang-format on
constexpr bool is_flex(DispatcherKind kind) { return kind >= DispatcherKind::Flex; }

// How the gradients of a sharding live.
enum class GradientLife {
  Buffer,             // all step, reduced in place
  Autograd,           // from a first backward pass to the step
  Flattened,          // likewise, and copied into one bucket at the step
  Copied,             // likewise, and as large buckets all step
  Bucketed,           // a buffer all step, and one bucket
  Accumulated,        // a buffer, to which autograd's own are added when a backward pass has ended
  AccumulatedCopied,  // and buckets as large as those
  AccumulatedKept,    // and autograd's own stay until the next backward pass begins
};
// Whether autograd makes them in a first backward pass and they go with the step.
constexpr bool comes_and_goes(GradientLife life) {
  return life == GradientLife::Autograd || life == GradientLife::Flattened ||
         life == GradientLife::Copied;
}
// Whether autograd's are added to a buffer when a backward pass has ended.
constexpr bool accumulates(GradientLife life) {
  return life == GradientLife::Accumulated || life == GradientLife::AccumulatedCopied ||
         life == GradientLife::AccumulatedKept;
}

// What communication is cut into buckets for.
enum class BucketPurpose {
  GradientReduce,
  FirstGradientReduce,
  ParameterGather,
  Prefetch,
  PersistentParameters,
  LiveParameters,  // most that are gathered at once
  OptimizerStep,
  StaysGathered,  // the last unit of FSDP, from forward to backward
};
enum class BucketUnit { Parameter, Byte };

std::span<const std::string_view> all_names(ShardingKind);
std::span<const std::string_view> all_names(PrecisionKind);
std::span<const std::string_view> all_names(GradientDtype);
std::span<const std::string_view> all_names(CpKind);
std::span<const std::string_view> all_names(DispatcherKind);
std::span<const std::string_view> all_names(OptimizerKind);
std::span<const std::string_view> all_names(RecomputeKind);
std::span<const std::string_view> all_names(Offload);
std::span<const std::string_view> all_names(FrozenBase);
std::span<const std::string_view> all_names(Prepared);
std::span<const std::string_view> all_names(GradientLife);
std::span<const std::string_view> all_names(BucketPurpose);
std::span<const std::string_view> all_names(BucketUnit);

}  // namespace trainwright
