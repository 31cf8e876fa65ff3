#pragma once
// Private: plain PyTorch, every operation its own kernel and its own result, as the modules of
// transformers 5.22 run on torch 2.13. What is saved follows from autograd's formulas: a product
// needs its factors, tanh and softmax their results, a power its argument, sums and copies nothing.
// Storages are those of real tensors (tests/oracle/test_kept_storages.py): a cast to the dtype that
// is there already gives the same one, and so does a view.
//
// What runs is not all in the config: families spell the same function differently, which CodeStyle
// (model/shape.h) says of each.
#include <cstdint>
#include <string_view>

#include "trainwright/work/builder.h"
#include "trainwright/work/steps.h"

namespace trainwright::detail {

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
TensorId eager_compressed_attention(Builder& b, const Attention& attention, TensorId x);

}  // namespace trainwright::detail
