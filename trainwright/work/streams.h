#pragma once
// Private: residual streams, and what each layer adds of its own embedding.
#include "trainwright/work/builder.h"
#include "trainwright/work/steps.h"

namespace trainwright::detail {

// The input of a branch, the weights that lay its result on the streams, and those that mix them.
struct Collapsed {
  TensorId hidden, after, mix;
};
Collapsed collapse(Builder& b, std::string_view name, TensorId streams);
TensorId expand(Builder& b, TensorId streams, TensorId branch, const Collapsed& by);
// The embedding in every stream; and one hidden state of them before the head.
TensorId spread_streams(Builder& b, TensorId x);
TensorId joined_streams(Builder& b, TensorId streams);

// x and what the layer makes of its per-layer embedding; x itself where there is none.
TensorId with_layer_input(Builder& b, const LayerKind& kind, TensorId x);
// Of all layers, with the embedding.
void make_layer_inputs(Builder& b, TensorId tokens, TensorId x);

}  // namespace trainwright::detail
