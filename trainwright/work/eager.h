#pragma once
// Private: plain PyTorch, every operation its own kernel and its own result, as the modules of
// transformers 5.22 run on torch 2.13. What is saved follows from autograd's formulas: a product
// needs its factors, tanh and softmax their results, a power its argument, sums and copies nothing.
// Storages are those of real tensors (tests/oracle/test_kept_storages.py): a cast to the dtype that
// is there already gives the same one, and so does a view.
//
// What runs is not all in the config: families spell the same function differently. EagerStyle is
// what their files say.
#include <cstdint>
#include <string_view>

#include "trainwright/work/builder.h"
#include "trainwright/work/steps.h"

namespace trainwright::detail {

// Where the gain of an RMS norm is applied: to the result cast back, to fp32 before the cast, or
// there as 1 + gain, which is a tensor of its own.
enum class GainPlace { AfterCast, BeforeCast, OnePlusBeforeCast };

struct EagerStyle {
  GainPlace gain = GainPlace::AfterCast;
  bool one_plus_norm_gain = false;   // 1 + gain also in layer norms
  bool joined_attention = false;     // query, key and value are views of one product's result
  bool joined_feed_forward = false;  // gate and up are
  bool softmax_in_fp32 = true;       // else in the dtype of the scores
  bool rotates_part = false;         // of a head; the rest is joined to it anew, heads outermost
  bool tanh_gelu_in_steps = false;   // "gelu_new" instead of PyTorch's kernel
  bool router_in_fp32 = false;       // its product too, not only the scores
  // Norms and rotations are flash-attention's where that is, rotations over copies in fp32.
  bool takes_flash_kernels = false;
};
EagerStyle eager_style(std::string_view family);

// x in that dtype: x itself if it is there already.
TensorId cast(Builder& b, std::string_view name, TensorId x, Dtype dtype);
// One result from some inputs, number by number, `flops` for each; nothing saved yet.
Operator& each(Builder& b, std::string_view name, std::initializer_list<TensorId> inputs,
               TensorId output, double flops = 1);
// A vector of parameters: its gradient belongs to W only where the recipe puts it off.
Half half_of_vector(const Builder& b);

// So many numbers of a storage: a view.
struct View {
  TensorId storage;
  std::int64_t elements = 0;
};
Rotated eager_rotation(Builder& b, const View& query, const View& key);
Rotated fused_rotation(Builder& b, const View& query, const View& key);
// RMS norm with gain of a view in fp32; the result has that dtype.
TensorId eager_rms_norm_of(Builder& b, std::string_view name, const View& x, std::int64_t width,
                           Dtype dtype);

// Whole branches where projections share a storage (eager_branches.cc).
TensorId eager_joined_attention(Builder& b, const Attention& whole, const SoftmaxAttention& a,
                                TensorId x);
TensorId eager_latent_attention(Builder& b, const Attention& whole, const LatentAttention& a,
                                TensorId x);

}  // namespace trainwright::detail
