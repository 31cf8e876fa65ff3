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

void add_norm(std::vector<Weight>& weights, std::string_view name, Part part, Norm norm,
              std::int64_t width) {
  const NormWeights trained = weights_of(norm);
  if (!trained.gain) return;
  weights.push_back(
      {.name = name, .part = part, .use = WeightUse::Vector, .out = width, .bias = trained.bias});
}

Weight matrix(std::string_view name, Part part, std::int64_t in, std::int64_t out,
              bool bias = false) {
  return {.name = name, .part = part, .in = in, .out = out, .bias = bias};
}

Weight vector(std::string_view name, Part part, std::int64_t out) {
  return {.name = name, .part = part, .use = WeightUse::Vector, .out = out};
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const SoftmaxAttention& a) {
  const std::int64_t query = a.heads * a.head_dim;
  const std::int64_t key = a.kv_heads * a.head_dim;
  weights.push_back(matrix("query", Part::SelfAttention, hidden, query, a.qkv_bias));
  if (a.output_gate) {
    weights.push_back(matrix("attention_gate", Part::SelfAttention, hidden, query, a.qkv_bias));
  }
  weights.push_back(matrix("key", Part::SelfAttention, hidden, key, a.qkv_bias));
  weights.push_back(matrix("value", Part::SelfAttention, hidden, key, a.qkv_bias));
  add_norm(weights, "query_norm", Part::SelfAttention, a.qk_norm,
           a.qk_norm_per_head ? a.head_dim : query);
  add_norm(weights, "key_norm", Part::SelfAttention, a.qk_norm,
           a.qk_norm_per_head ? a.head_dim : key);
  if (a.sinks) weights.push_back(vector("sinks", Part::SelfAttention, a.heads));
  weights.push_back(matrix("attention_output", Part::SelfAttention, query, hidden, a.output_bias));
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const LatentAttention& a) {
  const std::int64_t query = a.heads * (a.nope_dim + a.rope_dim);
  if (a.query_rank > 0) {
    weights.push_back(matrix("query_down", Part::SelfAttention, hidden, a.query_rank, a.down_bias));
    add_norm(weights, "query_down_norm", Part::SelfAttention, a.latent_norm, a.query_rank);
    weights.push_back(matrix("query_up", Part::SelfAttention, a.query_rank, query));
  } else {
    weights.push_back(matrix("query", Part::SelfAttention, hidden, query));
  }
  weights.push_back(
      matrix("kv_down", Part::SelfAttention, hidden, a.kv_rank + a.rope_dim, a.down_bias));
  add_norm(weights, "kv_down_norm", Part::SelfAttention, a.latent_norm, a.kv_rank);
  weights.push_back(
      matrix("kv_up", Part::SelfAttention, a.kv_rank, a.heads * (a.nope_dim + a.value_dim)));
  weights.push_back(matrix("attention_output", Part::SelfAttention, a.heads * a.value_dim, hidden,
                           a.output_bias));
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const GatedDeltaNet& a) {
  const std::int64_t key = a.key_heads * a.key_dim;
  const std::int64_t value = a.value_heads * a.value_dim;
  weights.push_back(matrix("query", Part::SelfAttention, hidden, key));
  weights.push_back(matrix("key", Part::SelfAttention, hidden, key));
  weights.push_back(matrix("value", Part::SelfAttention, hidden, value));
  weights.push_back(matrix("attention_gate", Part::SelfAttention, hidden, value));
  weights.push_back(matrix("beta", Part::SelfAttention, hidden, a.value_heads));
  weights.push_back(matrix("decay", Part::SelfAttention, hidden, a.value_heads));
  weights.push_back({.name = "convolution",
                     .part = Part::SelfAttention,
                     .use = WeightUse::Convolution,
                     .in = a.convolution,
                     .out = 2 * key + value});
  weights.push_back(vector("decay_bias", Part::SelfAttention, a.value_heads));
  weights.push_back(vector("decay_rate", Part::SelfAttention, a.value_heads));
  add_norm(weights, "output_norm", Part::SelfAttention, Norm::Rms, a.value_dim);
  weights.push_back(matrix("attention_output", Part::SelfAttention, value, hidden));
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const LightningAttention& a) {
  const std::int64_t width = a.heads * a.head_dim;
  weights.push_back(matrix("query", Part::SelfAttention, hidden, width));
  weights.push_back(matrix("key", Part::SelfAttention, hidden, width));
  weights.push_back(matrix("value", Part::SelfAttention, hidden, width));
  weights.push_back(matrix("attention_gate", Part::SelfAttention, hidden, width));
  add_norm(weights, "output_norm", Part::SelfAttention, Norm::Rms, width);
  weights.push_back(matrix("attention_output", Part::SelfAttention, width, hidden));
}

void add_attention(std::vector<Weight>& weights, std::int64_t hidden, const Mamba2& a) {
  const std::int64_t width = a.heads * a.head_dim;
  const std::int64_t convolved = width + 2 * a.groups * a.state;
  weights.push_back(
      matrix("mamba_in", Part::SelfAttention, hidden, width + convolved + a.heads, a.input_bias));
  weights.push_back({.name = "mamba_convolution",
                     .part = Part::SelfAttention,
                     .use = WeightUse::Convolution,
                     .in = a.convolution,
                     .out = convolved,
                     .bias = a.convolution_bias});
  weights.push_back(vector("decay_bias", Part::SelfAttention, a.heads));
  weights.push_back(vector("decay_rate", Part::SelfAttention, a.heads));
  weights.push_back(vector("mamba_skip", Part::SelfAttention, a.heads));
  add_norm(weights, "mamba_norm", Part::SelfAttention, a.output_norm, width);
  weights.push_back(matrix("mamba_out", Part::SelfAttention, width, hidden, a.output_bias));
}

void add_attention(std::vector<Weight>&, std::int64_t, const NoAttention&) {}

struct MlpNames {
  std::string_view gate, up, down;
};

void add_mlp(std::vector<Weight>& weights, std::int64_t hidden, const Mlp& mlp, Part part,
             MlpNames names, std::int64_t copies = 1, std::int64_t used = 1) {
  const std::size_t first = weights.size();
  if (mlp.gated) weights.push_back(matrix(names.gate, part, hidden, mlp.width, mlp.bias));
  weights.push_back(matrix(names.up, part, hidden, mlp.width, mlp.bias));
  weights.push_back(matrix(names.down, part, mlp.width, hidden, mlp.bias));
  for (std::size_t i = first; i < weights.size(); ++i) {
    weights[i].copies = copies;
    weights[i].used = used;
  }
}

void add_feed_forward(std::vector<Weight>& weights, std::int64_t hidden, const Mlp& mlp) {
  add_mlp(weights, hidden, mlp, Part::DenseFeedForward, {"gate", "up", "down"});
}

void add_feed_forward(std::vector<Weight>& weights, std::int64_t hidden,
                      const MixtureOfExperts& m) {
  weights.push_back(matrix("router", Part::Router, hidden, m.experts, m.router_bias));
  if (m.score_correction_trained) {
    weights.push_back(vector("score_correction", Part::Router, m.experts));
  }
  if (m.latent > 0) {
    weights.push_back(matrix("latent_down", Part::SharedExperts, hidden, m.latent, m.latent_bias));
  }
  add_mlp(weights, m.latent > 0 ? m.latent : hidden, m.expert, Part::RoutedExperts,
          {"expert_gate", "expert_up", "expert_down"}, m.experts, m.experts_per_token);
  if (m.latent > 0) {
    weights.push_back(matrix("latent_up", Part::SharedExperts, m.latent, hidden, m.latent_bias));
  }
  if (m.shared) {
    add_mlp(weights, hidden, *m.shared, Part::SharedExperts,
            {"shared_gate", "shared_up", "shared_down"});
    if (m.shared_gate) weights.push_back(matrix("shared_scale", Part::SharedExperts, hidden, 1));
  }
}

void add_feed_forward(std::vector<Weight>&, std::int64_t, const NoFeedForward&) {}

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
  return weights;
}

std::vector<Weight> embedding_weights(const Model& model) {
  std::vector<Weight> weights;
  weights.push_back({.name = "embedding",
                     .part = Part::Embedding,
                     .use = WeightUse::Table,
                     .in = model.vocabulary,
                     .out = model.embedding_width});
  if (model.embedding_width != model.hidden) {
    weights.push_back(matrix("embedding_up", Part::Embedding, model.embedding_width, model.hidden));
  }
  if (model.learned_positions > 0) {
    weights.push_back({.name = "positions",
                       .part = Part::Embedding,
                       .use = WeightUse::Table,
                       .in = model.learned_positions,
                       .out = model.hidden});
  }
  add_norm(weights, "embedding_norm", Part::Norm, model.embedding_norm, model.hidden);
  return weights;
}

std::vector<Weight> head_weights(const Model& model) {
  std::vector<Weight> weights;
  add_norm(weights, "final_norm", Part::Norm, model.final_norm, model.hidden);
  if (model.embedding_width != model.hidden) {
    weights.push_back(matrix("embedding_down", Part::Head, model.hidden, model.embedding_width));
  }
  Weight head =
      matrix("head", Part::Head, model.embedding_width, model.vocabulary, model.head_bias);
  head.tied = model.tied;
  weights.push_back(head);
  return weights;
}

std::vector<Weight> mtp_weights(const Model& model) {
  std::vector<Weight> weights;
  add_norm(weights, "mtp_embedding_norm", Part::Norm, model.final_norm, model.hidden);
  add_norm(weights, "mtp_hidden_norm", Part::Norm, model.final_norm, model.hidden);
  weights.push_back(matrix("mtp_projection", Part::Embedding, 2 * model.hidden, model.hidden));
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
