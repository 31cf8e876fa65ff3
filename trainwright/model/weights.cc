// The list of weights of each part of a model, and what they add up to.
#include <algorithm>
#include <variant>

#include "trainwright/model/model.h"

namespace trainwright {
namespace {

// Trained numbers per channel.
struct NormWeights {
  bool gain = false;
  bool bias = false;
};

NormWeights weights_of(Norm norm) {
  switch (norm) {
    case Norm::None:
    case Norm::RmsFixed:
    case Norm::LayerFixed: return {};
    case Norm::Rms:
    case Norm::LayerGain: return {.gain = true};
    case Norm::Layer: return {.gain = true, .bias = true};
  }
  return {};
}

constexpr WeightCut kWhole = WeightCut::Whole;
constexpr WeightCut kColumns = WeightCut::Columns;
constexpr WeightCut kRows = WeightCut::Rows;

void add_norm(std::vector<Weight>& weights, std::string_view name, Part part, Norm norm,
              std::int64_t width, WeightCut cut = kWhole) {
  const NormWeights trained = weights_of(norm);
  if (!trained.gain) return;
  weights.push_back({.name = name,
                     .part = part,
                     .use = WeightUse::Vector,
                     .out = width,
                     .bias = trained.bias,
                     .cut = cut});
}

Weight wide_matrix(std::string_view name, Part part, std::int64_t in, std::int64_t out,
                   WeightCut cut, bool bias = false) {
  return {.name = name, .part = part, .in = in, .out = out, .bias = bias, .cut = cut};
}
Weight matrix(std::string_view name, Part part, std::int64_t in, std::int64_t out, WeightCut cut,
              bool bias = false) {
  Weight weight = wide_matrix(name, part, in, out, cut, bias);
  weight.low_precision = true;
  return weight;
}

Weight vector(std::string_view name, Part part, std::int64_t out, WeightCut cut) {
  return {.name = name, .part = part, .use = WeightUse::Vector, .out = out, .cut = cut};
}

void add_indexer(std::vector<Weight>& weights, std::int64_t hidden, const Indexer& a) {
  if (a.heads == 0) return;
  weights.push_back(
      matrix("index_query", Part::SelfAttention, a.query_in, a.heads * a.head_dim, kWhole));
  weights.push_back(matrix("index_key", Part::SelfAttention, hidden, a.head_dim, kWhole));
  add_norm(weights, "index_query_norm", Part::SelfAttention, a.query_norm, a.head_dim);
  add_norm(weights, "index_key_norm", Part::SelfAttention, a.key_norm, a.head_dim);
  if (a.weighted) {
    weights.push_back(matrix("index_weight", Part::SelfAttention, hidden, a.heads, kWhole));
  }
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const SoftmaxAttention& a) {
  const std::int64_t query = a.heads * a.head_dim;
  const std::int64_t key = a.kv_heads * a.head_dim;
  const std::int64_t value = a.kv_heads * a.value_width();
  weights.push_back(matrix("query", Part::SelfAttention, hidden, query, kColumns, a.qkv_bias));
  if (a.output_gate) {
    weights.push_back(
        matrix("attention_gate", Part::SelfAttention, hidden, query, kColumns, a.qkv_bias));
  }
  if (a.head_gate)
    weights.push_back(matrix("head_gate", Part::SelfAttention, hidden, a.heads, kColumns));
  add_norm(weights, "query_norm", Part::SelfAttention, a.qk_norm,
           a.qk_norm_per_head ? a.head_dim : query);
  // Grouped-query attention has at least one key and value head on every rank.
  if (!a.shared_kv) {
    weights.push_back(matrix("key", Part::SelfAttention, hidden, key, kColumns, a.qkv_bias));
    weights.back().unit = a.head_dim;
    if (!a.value_is_key) {
      weights.push_back(matrix("value", Part::SelfAttention, hidden, value, kColumns, a.qkv_bias));
      weights.back().unit = a.value_width();
    }
    add_norm(weights, "key_norm", Part::SelfAttention, a.qk_norm,
             a.qk_norm_per_head ? a.head_dim : key);
    add_norm(weights, "value_norm", Part::SelfAttention, a.value_norm, a.value_width());
  }
  if (a.sinks) weights.push_back(vector("sinks", Part::SelfAttention, a.heads, kColumns));
  weights.push_back(matrix("attention_output", Part::SelfAttention, a.heads * a.value_width(),
                           hidden, kRows, a.output_bias));
  if (a.indexer) add_indexer(weights, hidden, *a.indexer);
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const LatentAttention& a) {
  const std::int64_t query = a.heads * (a.nope_dim + a.rope_dim);
  if (a.query_rank > 0) {
    weights.push_back(
        matrix("query_down", Part::SelfAttention, hidden, a.query_rank, kWhole, a.down_bias));
    add_norm(weights, "query_down_norm", Part::SelfAttention, a.latent_norm, a.query_rank);
    weights.push_back(matrix("query_up", Part::SelfAttention, a.query_rank, query, kColumns));
  } else {
    weights.push_back(matrix("query", Part::SelfAttention, hidden, query, kColumns));
  }
  weights.push_back(
      matrix("kv_down", Part::SelfAttention, hidden, a.kv_rank + a.rope_dim, kWhole, a.down_bias));
  add_norm(weights, "kv_down_norm", Part::SelfAttention, a.latent_norm, a.kv_rank);
  weights.push_back(matrix("kv_up", Part::SelfAttention, a.kv_rank,
                           a.heads * (a.nope_dim + a.value_dim), kColumns));
  weights.push_back(matrix("attention_output", Part::SelfAttention, a.heads * a.value_dim, hidden,
                           kRows, a.output_bias));
  if (a.head_gate)
    weights.push_back(matrix("head_gate", Part::SelfAttention, hidden, a.heads, kColumns));
  if (a.indexer) add_indexer(weights, hidden, *a.indexer);
}

// What presses tokens into one: keys that are values, weights for each channel, and where in the
// group a token is.
struct CompressorNames {
  std::string_view values, weights, place, norm;
};
void add_compressor(std::vector<Weight>& weights, std::int64_t hidden, std::int64_t width,
                    const CompressedAttention& a, const CompressorNames& names) {
  weights.push_back(matrix(names.values, Part::SelfAttention, hidden, a.overlap * width, kWhole));
  weights.push_back(matrix(names.weights, Part::SelfAttention, hidden, a.overlap * width, kWhole));
  weights.push_back(vector(names.place, Part::SelfAttention, a.ratio * a.overlap * width, kWhole));
  add_norm(weights, names.norm, Part::SelfAttention, Norm::Rms, width);
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden,
                   const CompressedAttention& a) {
  const std::int64_t width = a.heads * a.head_dim;
  const std::int64_t latents = a.output_groups * a.output_rank;
  weights.push_back(matrix("query_down", Part::SelfAttention, hidden, a.query_rank, kWhole));
  add_norm(weights, "query_down_norm", Part::SelfAttention, Norm::Rms, a.query_rank);
  weights.push_back(matrix("query_up", Part::SelfAttention, a.query_rank, width, kColumns));
  weights.push_back(matrix("key_value", Part::SelfAttention, hidden, a.head_dim, kWhole));
  add_norm(weights, "kv_norm", Part::SelfAttention, Norm::Rms, a.head_dim);
  weights.push_back(vector("sinks", Part::SelfAttention, a.heads, kColumns));
  weights.push_back(
      matrix("output_down", Part::SelfAttention, width / a.output_groups, latents, kColumns));
  weights.push_back(matrix("attention_output", Part::SelfAttention, latents, hidden, kRows));
  if (a.ratio > 0) {
    add_compressor(weights, hidden, a.head_dim, a,
                   {"pressed_kv", "pressed_weight", "pressed_place", "pressed_norm"});
  }
  if (!a.indexer) return;
  add_compressor(
      weights, hidden, a.indexer->head_dim, a,
      {"index_pressed_key", "index_pressed_weight", "index_pressed_place", "index_pressed_norm"});
  weights.push_back(matrix("index_query", Part::SelfAttention, a.query_rank,
                           a.indexer->heads * a.indexer->head_dim, kWhole));
  weights.push_back(matrix("index_weight", Part::SelfAttention, hidden, a.indexer->heads, kWhole));
}

// By way of a latent, or straight.
void add_by_way_of(std::vector<Weight>& weights, std::string_view down, std::string_view up,
                   std::int64_t hidden, std::int64_t rank, std::int64_t out, bool bias) {
  if (rank > 0) weights.push_back(matrix(down, Part::SelfAttention, hidden, rank, kWhole));
  weights.push_back(matrix(up, Part::SelfAttention, rank > 0 ? rank : hidden, out, kColumns, bias));
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const GatedDeltaNet& a) {
  const std::int64_t key = a.key_heads * a.key_dim;
  const std::int64_t value = a.value_heads * a.value_dim;
  const std::int64_t rates = a.channel_decay ? a.value_heads * a.key_dim : a.value_heads;
  weights.push_back(matrix("query", Part::SelfAttention, hidden, key, kColumns));
  weights.push_back(matrix("key", Part::SelfAttention, hidden, key, kColumns));
  weights.push_back(matrix("value", Part::SelfAttention, hidden, value, kColumns));
  if (a.gated) {
    add_by_way_of(weights, "gate_down", "attention_gate", hidden, a.gate_rank, value, a.gate_bias);
  }
  weights.push_back(matrix("beta", Part::SelfAttention, hidden, a.value_heads, kColumns));
  add_by_way_of(weights, "decay_down", "decay", hidden, a.decay_rank, rates, false);
  weights.push_back({.name = "convolution",
                     .part = Part::SelfAttention,
                     .use = WeightUse::Convolution,
                     .in = a.convolution,
                     .out = 2 * key + value,
                     .cut = kColumns});
  weights.push_back(vector("decay_bias", Part::SelfAttention, rates, kColumns));
  weights.push_back(vector("decay_rate", Part::SelfAttention, a.value_heads, kColumns));
  add_norm(weights, "output_norm", Part::SelfAttention, Norm::Rms, a.value_dim);
  weights.push_back(matrix("attention_output", Part::SelfAttention, value, hidden, kRows));
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const LightningAttention& a) {
  const std::int64_t width = a.heads * a.head_dim;
  weights.push_back(matrix("query", Part::SelfAttention, hidden, width, kColumns));
  weights.push_back(matrix("key", Part::SelfAttention, hidden, width, kColumns));
  weights.push_back(matrix("value", Part::SelfAttention, hidden, width, kColumns));
  weights.push_back(matrix("attention_gate", Part::SelfAttention, hidden, width, kColumns));
  add_norm(weights, "output_norm", Part::SelfAttention, Norm::Rms, width);
  weights.push_back(matrix("attention_output", Part::SelfAttention, width, hidden, kRows));
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const Mamba2& a) {
  const std::int64_t width = a.heads * a.head_dim;
  const std::int64_t convolved = width + 2 * a.groups * a.state;
  weights.push_back(matrix("mamba_in", Part::SelfAttention, hidden, width + convolved + a.heads,
                           kColumns, a.input_bias));
  weights.push_back({.name = "mamba_convolution",
                     .part = Part::SelfAttention,
                     .use = WeightUse::Convolution,
                     .in = a.convolution,
                     .out = convolved,
                     .bias = a.convolution_bias,
                     .cut = kColumns});
  weights.push_back(vector("decay_bias", Part::SelfAttention, a.heads, kColumns));
  weights.push_back(vector("decay_rate", Part::SelfAttention, a.heads, kColumns));
  weights.push_back(vector("mamba_skip", Part::SelfAttention, a.heads, kColumns));
  add_norm(weights, "mamba_norm", Part::SelfAttention, a.output_norm, width, kColumns);
  weights.push_back(matrix("mamba_out", Part::SelfAttention, width, hidden, kRows, a.output_bias));
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const Mamba1& a) {
  weights.push_back(
      matrix("mamba_in", Part::SelfAttention, hidden, 2 * a.width, kColumns, a.projection_bias));
  weights.push_back({.name = "mamba_convolution",
                     .part = Part::SelfAttention,
                     .use = WeightUse::Convolution,
                     .in = a.convolution,
                     .out = a.width,
                     .bias = a.convolution_bias,
                     .cut = kColumns});
  weights.push_back(
      matrix("mamba_select", Part::SelfAttention, a.width, a.rank + 2 * a.state, kRows));
  add_norm(weights, "step_norm", Part::SelfAttention, a.inner_norm, a.rank);
  add_norm(weights, "mamba_key_norm", Part::SelfAttention, a.inner_norm, a.state);
  add_norm(weights, "mamba_query_norm", Part::SelfAttention, a.inner_norm, a.state);
  weights.push_back(matrix("mamba_step", Part::SelfAttention, a.rank, a.width, kColumns, true));
  weights.push_back(vector("mamba_decay", Part::SelfAttention, a.width * a.state, kColumns));
  weights.push_back(vector("mamba_skip", Part::SelfAttention, a.width, kColumns));
  weights.push_back(
      matrix("mamba_out", Part::SelfAttention, a.width, hidden, kRows, a.projection_bias));
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const ShortConvolution& a) {
  weights.push_back(
      matrix("convolution_in", Part::SelfAttention, hidden, 3 * hidden, kColumns, a.bias));
  weights.push_back({.name = "short_convolution",
                     .part = Part::SelfAttention,
                     .use = WeightUse::Convolution,
                     .in = a.convolution,
                     .out = hidden,
                     .bias = a.bias,
                     .cut = kColumns});
  weights.push_back(matrix("convolution_out", Part::SelfAttention, hidden, hidden, kRows, a.bias));
}

void add_attention(std::vector<Weight>&, std::int64_t, const NoAttention&) {}

struct MixNames {
  std::string_view matrix, base, scale;
};
struct MlpNames {
  std::string_view gate, up, down;
};

void add_mlp(std::vector<Weight>& weights, std::int64_t hidden, const Mlp& mlp, Part part,
             MlpNames names, std::int64_t copies = 1, std::int64_t used = 1) {
  const std::size_t first = weights.size();
  if (mlp.gated) weights.push_back(matrix(names.gate, part, hidden, mlp.width, kColumns, mlp.bias));
  weights.push_back(matrix(names.up, part, hidden, mlp.width, kColumns, mlp.bias));
  weights.push_back(matrix(names.down, part, mlp.width, hidden, kRows, mlp.bias));
  for (std::size_t i = first; i < weights.size(); ++i) {
    weights[i].copies = copies;
    weights[i].used = used;
  }
}

void add_feed_forward(std::vector<Weight>& weights, std::int64_t hidden, const Mlp& mlp) {
  add_mlp(weights, hidden, mlp, Part::DenseFeedForward, {"gate", "up", "down"});
  if (mlp.activation == Activation::Xielu) {
    weights.push_back(vector("xielu", Part::DenseFeedForward, 2, kWhole));
  }
}

void add_feed_forward(std::vector<Weight>& weights, std::int64_t hidden,
                      const MixtureOfExperts& m) {
  weights.push_back(wide_matrix("router", Part::Router, hidden, m.experts, kWhole, m.router_bias));
  if (m.score_correction_trained) {
    weights.push_back(vector("score_correction", Part::Router, m.experts, kWhole));
  }
  if (m.latent > 0) {
    weights.push_back(
        matrix("latent_down", Part::SharedExperts, hidden, m.latent, kWhole, m.latent_bias));
  }
  add_mlp(weights, m.latent > 0 ? m.latent : hidden, m.expert, Part::RoutedExperts,
          {"expert_gate", "expert_up", "expert_down"}, m.experts, m.experts_per_token);
  if (m.latent > 0) {
    weights.push_back(
        matrix("latent_up", Part::SharedExperts, m.latent, hidden, kWhole, m.latent_bias));
  }
  if (m.shared) {
    add_mlp(weights, hidden, *m.shared, Part::SharedExperts,
            {"shared_gate", "shared_up", "shared_down"});
    if (m.shared_gate)
      weights.push_back(wide_matrix("shared_scale", Part::SharedExperts, hidden, 1, kWhole));
  }
}

void add_feed_forward(std::vector<Weight>&, std::int64_t, const NoFeedForward&) {}

Part part_of(Extra::Part part) {
  switch (part) {
    case Extra::Part::Embedding: return Part::Embedding;
    case Extra::Part::SelfAttention: return Part::SelfAttention;
    case Extra::Part::DenseFeedForward: return Part::DenseFeedForward;
    case Extra::Part::SharedExperts: return Part::SharedExperts;
    case Extra::Part::Router: return Part::Router;
    case Extra::Part::Norm: return Part::Norm;
    case Extra::Part::Head: return Part::Head;
  }
  return Part::Norm;
}

WeightUse use_of(Extra::Use use) {
  switch (use) {
    case Extra::Use::Matrix: return WeightUse::Matrix;
    case Extra::Use::Table: return WeightUse::Table;
    case Extra::Use::Vector: return WeightUse::Vector;
    case Extra::Use::Convolution: return WeightUse::Convolution;
  }
  return WeightUse::Vector;
}

void add_extras(std::vector<Weight>& weights, const std::vector<Extra>& extras) {
  for (const Extra& extra : extras) {
    weights.push_back({.name = extra.name,
                       .part = part_of(extra.part),
                       .use = use_of(extra.use),
                       .in = extra.in,
                       .out = extra.out,
                       .bias = extra.bias,
                       .low_precision = extra.use == Extra::Use::Matrix &&
                                        extra.part != Extra::Part::Router &&
                                        extra.part != Extra::Part::Head});
  }
}

// Of hyper-connections around one branch: what each stream gives it, takes from it, and how streams
// mix, all of it made of all streams together.
void add_streams(std::vector<Weight>& weights, const Model& model, const MixNames& names) {
  const std::int64_t n = model.streams;
  weights.push_back(matrix(names.matrix, Part::Norm, n * model.hidden, (2 + n) * n, kWhole));
  weights.push_back(vector(names.base, Part::Norm, (2 + n) * n, kWhole));
  weights.push_back(vector(names.scale, Part::Norm, 3, kWhole));
}

std::int64_t elements(const Weight& w) {
  return checked_add(w.tied ? 0 : checked_mul(w.in, w.out), w.bias ? w.out : 0);
}

Params& part_of(Parameters& sum, Part part) {
  switch (part) {
    case Part::Embedding: return sum.embedding;
    case Part::SelfAttention: return sum.attention;
    case Part::DenseFeedForward: return sum.feed_forward;
    case Part::RoutedExperts: return sum.routed_experts;
    case Part::SharedExperts: return sum.shared_experts;
    case Part::Router: return sum.router;
    case Part::Norm: return sum.norm;
    case Part::Head: return sum.head;
  }
  return sum.norm;
}

Parameters times(const Parameters& p, std::int64_t n) {
  return {.embedding = p.embedding * n,
          .attention = p.attention * n,
          .feed_forward = p.feed_forward * n,
          .routed_experts = p.routed_experts * n,
          .shared_experts = p.shared_experts * n,
          .router = p.router * n,
          .norm = p.norm * n,
          .head = p.head * n};
}

template <class Count>
Parameters parameters_of_layers(const Model& model, const std::vector<LayerKindId>& layers,
                                Count count) {
  Parameters sum;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const auto n =
        std::count(layers.begin(), layers.end(), LayerKindId(static_cast<std::int32_t>(kind)));
    if (n > 0) sum += times(count(layer_weights(model, model.kinds[kind])), n);
  }
  return sum;
}

template <class Count>
Parameters over_model(const Model& model, Count count) {
  Parameters sum = count(embedding_weights(model));
  sum += parameters_of_layers(model, model.layers, count);
  sum += count(head_weights(model));
  return sum;
}

}  // namespace

Params size_of(const Weight& weight) { return Params(elements(weight)) * weight.copies; }
Params active_of(const Weight& weight) { return Params(elements(weight)) * weight.used; }

bool has_experts(const Model& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), [](const LayerKind& kind) {
    return std::holds_alternative<MixtureOfExperts>(kind.feed_forward);
  });
}

std::vector<Weight> layer_weights(const Model& model, const LayerKind& kind) {
  std::vector<Weight> weights;
  weights.reserve(24);
  const std::int64_t hidden = model.hidden;
  add_norm(weights, "before_attention", Part::Norm, kind.before_attention, hidden);
  std::visit([&](const auto& attention) { add_attention(weights, hidden, attention); },
             kind.attention);
  if (kind.beside_attention) add_attention(weights, hidden, *kind.beside_attention);
  add_norm(weights, "after_attention", Part::Norm, kind.after_attention, hidden);
  add_norm(weights, "before_feed_forward", Part::Norm, kind.before_feed_forward, hidden);
  std::visit([&](const auto& branch) { add_feed_forward(weights, hidden, branch); },
             kind.feed_forward);
  add_norm(weights, "after_feed_forward", Part::Norm, kind.after_feed_forward, hidden);
  if (model.streams > 1) {
    add_streams(weights, model, {"attention_mix", "attention_mix_base", "attention_mix_scale"});
    add_streams(weights, model,
                {"feed_forward_mix", "feed_forward_mix_base", "feed_forward_mix_scale"});
  }
  if (const std::int64_t width = model.per_layer_width; width > 0) {
    weights.push_back(matrix("layer_input_gate", Part::Norm, hidden, width, kWhole));
    weights.push_back(matrix("layer_input_up", Part::Norm, width, hidden, kWhole));
    add_norm(weights, "layer_input_norm", Part::Norm, kind.before_attention, hidden);
  }
  add_extras(weights, kind.extras);
  return weights;
}

std::vector<Weight> embedding_weights(const Model& model) {
  std::vector<Weight> weights;
  weights.push_back({.name = "embedding",
                     .part = Part::Embedding,
                     .use = WeightUse::Table,
                     .in = model.vocabulary,
                     .out = model.embedding_width,
                     .cut = WeightCut::Vocabulary});
  if (model.embedding_width != model.hidden) {
    weights.push_back(
        wide_matrix("embedding_up", Part::Embedding, model.embedding_width, model.hidden, kWhole));
  }
  if (model.learned_positions > 0) {
    weights.push_back({.name = "positions",
                       .part = Part::Embedding,
                       .use = WeightUse::Table,
                       .in = model.learned_positions,
                       .out = model.hidden});
  }
  add_norm(weights, "embedding_norm", Part::Norm, model.embedding_norm, model.hidden);
  if (const std::int64_t width = model.per_layer_width; width > 0) {
    const std::int64_t all = checked_mul(std::ssize(model.layers), width);
    weights.push_back({.name = "layer_embedding",
                       .part = Part::Embedding,
                       .use = WeightUse::Table,
                       .in = model.per_layer_vocabulary,
                       .out = all});
    weights.push_back(matrix("layer_projection", Part::Norm, model.hidden, all, kWhole));
    add_norm(weights, "layer_projection_norm", Part::Norm, Norm::Rms, width);
  }
  add_extras(weights, model.embedding_extras);
  return weights;
}

std::vector<Weight> head_weights(const Model& model) {
  std::vector<Weight> weights;
  if (model.streams > 1) {
    weights.push_back(
        matrix("head_mix", Part::Norm, model.streams * model.hidden, model.streams, kWhole));
    weights.push_back(vector("head_mix_base", Part::Norm, model.streams, kWhole));
    weights.push_back(vector("head_mix_scale", Part::Norm, 1, kWhole));
  }
  add_norm(weights, "final_norm", Part::Norm, model.final_norm, model.hidden);
  add_extras(weights, model.head_extras);
  if (model.embedding_width != model.hidden) {
    weights.push_back(
        wide_matrix("embedding_down", Part::Head, model.hidden, model.embedding_width, kWhole));
  }
  Weight head = wide_matrix("head", Part::Head, model.embedding_width, model.vocabulary,
                            WeightCut::Vocabulary, model.head_bias);
  head.tied = model.tied;
  weights.push_back(head);
  return weights;
}

std::vector<Weight> mtp_weights(const Model& model) {
  std::vector<Weight> weights;
  add_norm(weights, "mtp_embedding_norm", Part::Norm, model.final_norm, model.hidden);
  add_norm(weights, "mtp_hidden_norm", Part::Norm, model.final_norm, model.hidden);
  weights.push_back(
      matrix("mtp_projection", Part::Embedding, 2 * model.hidden, model.hidden, kColumns));
  add_norm(weights, "mtp_final_norm", Part::Norm, model.final_norm, model.hidden);
  return weights;
}

Params Parameters::total() const {
  return embedding + attention + feed_forward + routed_experts + shared_experts + router + norm +
         head;
}

Parameters& Parameters::operator+=(const Parameters& o) {
  embedding += o.embedding;
  attention += o.attention;
  feed_forward += o.feed_forward;
  routed_experts += o.routed_experts;
  shared_experts += o.shared_experts;
  router += o.router;
  norm += o.norm;
  head += o.head;
  return *this;
}

Parameters parameters(const std::vector<Weight>& weights) {
  Parameters sum;
  for (const Weight& weight : weights) part_of(sum, weight.part) += size_of(weight);
  return sum;
}

Parameters active_parameters(const std::vector<Weight>& weights) {
  Parameters sum;
  for (const Weight& weight : weights) part_of(sum, weight.part) += active_of(weight);
  return sum;
}

Parameters parameters(const Model& model) {
  return over_model(model, [](const std::vector<Weight>& w) { return parameters(w); });
}

Parameters active_parameters(const Model& model) {
  return over_model(model, [](const std::vector<Weight>& w) { return active_parameters(w); });
}

Parameters mtp_parameters(const Model& model) {
  const auto stored = [](const std::vector<Weight>& w) { return parameters(w); };
  Parameters sum = parameters_of_layers(model, model.mtp, stored);
  sum += times(parameters(mtp_weights(model)), static_cast<std::int64_t>(model.mtp.size()));
  return sum;
}

}  // namespace trainwright
