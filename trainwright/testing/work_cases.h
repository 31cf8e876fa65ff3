#pragma once
// Layers, slices and recipes for tests of `work`.
#include <utility>

#include "trainwright/work/work.h"

namespace trainwright {

// GPT as in arXiv:2205.05198: layer norms, biases, GELU 4h wide, dropout everywhere.
inline Model gpt_model(std::int64_t hidden, std::int64_t heads) {
  LayerKind kind;
  kind.attention = SoftmaxAttention{.heads = heads,
                                    .kv_heads = heads,
                                    .head_dim = hidden / heads,
                                    .qkv_bias = true,
                                    .output_bias = true,
                                    .rotary = false};
  kind.feed_forward =
      Mlp{.width = 4 * hidden, .gated = false, .bias = true, .activation = Activation::Gelu};
  kind.before_attention = kind.before_feed_forward = Norm::Layer;
  Model model;
  model.name = "gpt";
  model.vocabulary = 51200;
  model.hidden = model.embedding_width = hidden;
  model.positions = Positions::Learned;
  model.learned_positions = 2048;
  model.final_norm = Norm::Layer;
  model.tied = true;
  model.dropout_hidden = model.dropout_attention = 0.1;
  model.kinds = {kind};
  model.layers = {LayerKindId(0)};
  return model;
}

// Llama: RMS norms, SwiGLU, rotary positions, no biases, no dropout.
inline Model llama_model(std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
                         std::int64_t width) {
  LayerKind kind;
  kind.attention =
      SoftmaxAttention{.heads = heads, .kv_heads = kv_heads, .head_dim = hidden / heads};
  kind.feed_forward = Mlp{.width = width, .gated = true};
  kind.before_attention = kind.before_feed_forward = Norm::Rms;
  Model model;
  model.name = "llama";
  model.vocabulary = 32000;
  model.hidden = model.embedding_width = hidden;
  model.kinds = {kind};
  model.layers = {LayerKindId(0)};
  return model;
}

inline Model with_experts(Model model, const MixtureOfExperts& experts) {
  model.kinds.front().feed_forward = experts;
  return model;
}

// The kernels of Megatron in 2022: statistics of norms are left out of the paper's count.
inline Recipe paper_recipe() {
  Recipe recipe;
  recipe.norm = FusedKeeps{.input = true};
  recipe.rope = FusedKeeps{};
  recipe.bias_activation = recipe.gated_activation = FusedKeeps{.input = true};
  recipe.bias_dropout = FusedKeeps{.output = true};
  recipe.softmax = FusedKeeps{.output = true};
  recipe.flash = FusedKeeps{.input = true, .output = true, .row_bytes = 4};
  recipe.attention = AttentionKernel::FusedSoftmax;
  recipe.accumulates_in_product = true;
  recipe.loss = {.name = "vocabulary-parallel",
                 .forward = 6,
                 .kept = 4,
                 .backward = 6,
                 .split_by_tp = true,
                 .setting = {},
                 .source = {}};
  return recipe;
}

// What data/trainers/pytorch-2.json says of its code.
inline Recipe plain_recipe(Dtype compute = Dtype::Bf16) {
  Recipe recipe;
  recipe.compute = recipe.weight = compute;
  recipe.attention = AttentionKernel::Eager;
  recipe.code.joined_projections = recipe.code.gathers_again = recipe.code.permutes_tokens = false;
  recipe.code.vocabulary_split = false;
  recipe.code.delays_vectors = recipe.code.stops_early = true;
  recipe.loss.by_operators = true;
  return recipe;
}

inline Totals totals_of(const Model& model, const LayerKind& kind, const Slice& slice,
                        const Recipe& recipe) {
  const OperatorList list = layer_work(model, kind, slice, recipe);
  return totals(
      list, held_parameters(held_weights(layer_weights(model, kind), list, slice, recipe), recipe));
}
inline Totals layer_totals(const Model& model, const Slice& slice, const Recipe& recipe) {
  return totals_of(model, model.kinds.front(), slice, recipe);
}

inline Slice recomputed(Slice slice, RecomputeKind kind, Flags<RecomputeModule> modules = {}) {
  slice.recompute = {.kind = kind, .modules = modules, .n = 1};
  return slice;
}

}  // namespace trainwright
