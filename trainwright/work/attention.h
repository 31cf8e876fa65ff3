#pragma once
// Private: the attention branch of a layer, by kind; x and the result have outer rows.
#include "trainwright/work/builder.h"
#include "trainwright/work/steps.h"

namespace trainwright::detail {

TensorId attention(Builder& b, const Attention& attention, TensorId x);
TensorId gated_delta_net(Builder& b, const Attention& attention, TensorId x);
TensorId lightning_attention(Builder& b, const Attention& attention, TensorId x);
TensorId mamba2(Builder& b, const Mamba2& mamba, TensorId x);
TensorId mamba1(Builder& b, const Mamba1& mamba, TensorId x);
TensorId short_convolution(Builder& b, const ShortConvolution& a, TensorId x);
TensorId compressed_attention(Builder& b, const Attention& attention, TensorId x);
// Adds what chooses keys; it runs without gradients and keeps nothing but the choice. `query_from`:
// the latent of the queries, or x.
void index(Builder& b, const Attention& attention, const Indexer& indexer, TensorId x,
           TensorId query_from);
// What a weight of a family's own takes: a product of a matrix, a scaling by a vector.
TensorId extra(Builder& b, const Extra& extra, TensorId x, TensorId y);
// The same in both: a short convolution over the tokens of each channel; keeps its input.
TensorId convolved(Builder& b, TensorId x, std::int64_t taps, std::string_view name);

// Members of cp that exchange heads for tokens all-to-all, and of those that are left.
struct CpSplit {
  std::int64_t ulysses = 1;
  std::int64_t others = 1;
};
CpSplit cp_split(const Slice& slice);
// All-to-all over the first: heads are cut `ways` ways and each rank sees that many times the
// tokens.
TensorId exchanged(Builder& b, TensorId x, std::string_view name, std::int64_t elements,
                   std::int64_t ways);
// The core with whatever cp needs around it: heads and key and value widths on this rank.
struct CoreHeads {
  TensorId query, key, value;
  std::int64_t heads = 0, kv_heads = 0, all_heads = 0;
  std::int64_t key_dim = 0, value_dim = 0;
};
TensorId spread_core(Builder& b, const Attention& attention, const CoreHeads& x);
// Of latent attention: the core and the product that follows it.
TensorId latent_output(Builder& b, const Attention& whole, const LatentAttention& a, TensorId x,
                       Rotated turned, TensorId value);

}  // namespace trainwright::detail
