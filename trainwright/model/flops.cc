#include <algorithm>
#include <cmath>
#include <variant>

#include "trainwright/base/check.h"
#include "trainwright/model/model.h"

namespace trainwright {
namespace {

// 1 + 2 + ... + n.
double triangle(double n) { return n * (n + 1) / 2; }

// Width of all key heads plus all value heads as the scores see them: FLOPs per pair are twice it.
double core_width(const SoftmaxAttention& a) {
  return real(a.heads) * (real(a.head_dim) + real(a.value_width()));
}
double core_width(const LatentAttention& a) {
  return real(a.heads) * real(a.nope_dim + a.rope_dim + a.value_dim);
}
double core_width(const CompressedAttention& a) { return real(a.heads) * 2 * real(a.head_dim); }
double core_width(const GatedDeltaNet&) { return 0; }
double core_width(const LightningAttention&) { return 0; }
double core_width(const Mamba2&) { return 0; }
double core_width(const Mamba1&) { return 0; }
double core_width(const ShortConvolution&) { return 0; }
double core_width(const NoAttention&) { return 0; }

// Products of an indexer per token: scores of all keys for every query, and their sum over heads
// where that is a product (not in modeling_deepseek_v4.py, modeling_minimax_m3_vl.py).
double scores_flops(const std::optional<Indexer>& indexer, double keys, bool summed) {
  if (!indexer) return 0;
  return 2 * real(indexer->heads) * (real(indexer->head_dim) + (summed ? 1 : 0)) * keys;
}

// Mean number of tokens of the chunk that a token is in.
double chunk_tokens(double chunk, double s) {
  const double whole = std::floor(s / chunk);
  const double rest = s - whole * chunk;
  return (whole * chunk * chunk + rest * rest) / s;
}

// Work on the recurrent state per token of a sequence of s.
double state_flops(const SoftmaxAttention&, double) { return 0; }
double state_flops(const CompressedAttention&, double) { return 0; }
// 6 per channel and number of the state: the step, its product with the value, the query's.
double state_flops(const Mamba1& a, double) { return 6 * real(a.width) * real(a.state); }
double state_flops(const ShortConvolution&, double) { return 0; }
double state_flops(const LatentAttention&, double) { return 0; }
double state_flops(const GatedDeltaNet& a, double) {
  return real(a.value_heads) * 6 * real(a.key_dim) * real(a.value_dim);
}
double state_flops(const LightningAttention& a, double) {
  return real(a.heads) * 4 * real(a.head_dim) * real(a.head_dim);
}
double state_flops(const Mamba2& a, double s) {
  const double width = real(a.heads) * real(a.head_dim);
  const double square = 2 * (real(a.groups) * real(a.state) + width);
  return square * chunk_tokens(real(a.chunk), s) + 4 * width * real(a.state);
}
double state_flops(const NoAttention&, double) { return 0; }

double causal_keys(Reach reach, double window, double s) {
  switch (reach) {
    case Reach::Full: return triangle(s) / s;
    case Reach::Sliding: {
      const double short_queries = std::min(s, window);
      return (triangle(short_queries) + (s - short_queries) * window) / s;
    }
    case Reach::Chunked: {
      const double chunks = static_cast<double>(static_cast<std::int64_t>(s / window));
      return (chunks * triangle(window) + triangle(s - chunks * window)) / s;
    }
  }
  return 0;
}

// Sum over the layers, each kind computed once.
template <class Of>
double over_layers(const Model& model, const std::vector<LayerKindId>& layers, Of of) {
  double sum = 0;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const auto n =
        std::count(layers.begin(), layers.end(), LayerKindId(static_cast<std::int32_t>(kind)));
    if (n > 0) sum += real(n) * of(model.kinds[kind]);
  }
  return sum;
}

double flops_of(const std::vector<Weight>& weights, bool wanted(const Weight&)) {
  double sum = 0;
  for (const Weight& weight : weights) {
    if (wanted(weight)) sum += forward_flops(weight).value();
  }
  return sum;
}

bool is_attention(const Weight& weight) { return weight.part == Part::SelfAttention; }
bool is_not_attention(const Weight& weight) { return !is_attention(weight); }
bool is_any(const Weight&) { return true; }
bool is_indexer(const Weight& weight) { return weight.name.starts_with("index_"); }
// Megatron leaves out the router and the gate of the shared experts.
bool is_in_megatron(const Weight& weight) {
  return weight.part != Part::Router && weight.name != "shared_scale";
}
bool is_fed_in_megatron(const Weight& weight) {
  return is_not_attention(weight) && is_in_megatron(weight);
}

// Megatron-LM core_v0.16.1 training.py mamba_layer_flops: twice the hidden size for the width
// whatever the heads are, 7 operations per number of the state, no convolution.
double megatron_mamba_flops(const Mamba2& a, double hidden) {
  const double width = 2 * hidden;
  const double made = 2 * width + 2 * real(a.groups) * real(a.state) + real(a.heads);
  return 2 * hidden * made + 7 * width * real(a.state) + 2 * width * hidden;
}

}  // namespace

Flops forward_flops(const Weight& weight) {
  switch (weight.use) {
    case WeightUse::Matrix:
    case WeightUse::Convolution:
      return Flops(2 * real(weight.in) * real(weight.out) * real(weight.used));
    case WeightUse::Table:
    case WeightUse::Vector: return Flops(0);
  }
  return Flops(0);
}

namespace {

// A chosen few of the keys weigh like a window of as many.
double chosen_keys(Reach reach, double window, const std::optional<Indexer>& indexer, double s) {
  if (!indexer || indexer->topk <= 0) return causal_keys(reach, window, s);
  const double topk = real(indexer->topk);
  if (reach == Reach::Full) return causal_keys(Reach::Sliding, topk, s);
  return std::min(causal_keys(reach, window, s), causal_keys(Reach::Sliding, topk, s));
}

// Mean number of finished groups of tokens before a token.
double pressed_keys(const CompressedAttention& a, double s) {
  if (a.ratio <= 0) return 0;
  const double groups = std::floor(s / real(a.ratio));
  const double rest = s - groups * real(a.ratio);
  return (real(a.ratio) * triangle(groups - 1) + (rest + 1) * groups) / s;
}

double keys_of(const SoftmaxAttention& a, double s, AttentionPairs pairs) {
  if (pairs == AttentionPairs::Full || !a.causal) return s;
  return chosen_keys(a.reach, real(a.window), a.indexer, s);
}
double keys_of(const LatentAttention& a, double s, AttentionPairs pairs) {
  return pairs == AttentionPairs::Full ? s : chosen_keys(Reach::Full, 0, a.indexer, s);
}
double keys_of(const CompressedAttention& a, double s, AttentionPairs pairs) {
  if (pairs == AttentionPairs::Full) return s + (a.ratio > 0 ? std::floor(s / real(a.ratio)) : 0);
  const double pressed = pressed_keys(a, s);
  return causal_keys(Reach::Sliding, real(a.window), s) +
         (a.indexer ? std::min(pressed, real(a.indexer->topk)) : pressed);
}
template <class Other>
double keys_of(const Other&, double, AttentionPairs) {
  return 0;
}

double scored_keys(const SoftmaxAttention& a, double s, AttentionPairs pairs) {
  return pairs == AttentionPairs::Full || !a.causal ? s : triangle(s) / s;
}
double scored_keys(const LatentAttention&, double s, AttentionPairs pairs) {
  return pairs == AttentionPairs::Full ? s : triangle(s) / s;
}
double scored_keys(const CompressedAttention& a, double s, AttentionPairs pairs) {
  return pairs == AttentionPairs::Full ? std::floor(s / real(std::max<std::int64_t>(1, a.ratio)))
                                       : pressed_keys(a, s);
}
template <class WithIndexer>
  requires requires(const WithIndexer& a) { a.indexer; }
double scoring_flops(const WithIndexer& a, double s, AttentionPairs pairs) {
  constexpr bool kPressed = std::is_same_v<WithIndexer, CompressedAttention>;
  const bool summed = !kPressed && a.indexer && a.indexer->weighted;
  return scores_flops(a.indexer, a.indexer ? scored_keys(a, s, pairs) : 0, summed);
}
template <class Other>
  requires(!requires(const Other& a) { a.indexer; })
double scoring_flops(const Other&, double, AttentionPairs) {
  return 0;
}

}  // namespace

double keys_per_query(const Attention& attention, Tokens sequence, AttentionPairs pairs) {
  TW_CHECK(sequence > Tokens(0), "a sequence has at least one token");
  const double s = real(sequence.value());
  return std::visit([&](const auto& a) { return keys_of(a, s, pairs); }, attention);
}

Flops index_flops(const Attention& attention, Tokens sequence, AttentionPairs pairs) {
  const double s = real(sequence.value());
  return std::visit([&](const auto& a) { return Flops(scoring_flops(a, s, pairs)); }, attention);
}

Flops attention_core_flops(const Attention& attention, Tokens sequence, AttentionPairs pairs) {
  const double keys = keys_per_query(attention, sequence, pairs);
  const double s = real(sequence.value());
  return std::visit(
      [&](const auto& a) {
        return Flops(2 * core_width(a) * keys + state_flops(a, s) + scoring_flops(a, s, pairs));
      },
      attention);
}

Flops attention_core_flops(const LayerKind& kind, Tokens sequence, AttentionPairs pairs) {
  const Flops beside = kind.beside_attention
                           ? attention_core_flops(*kind.beside_attention, sequence, pairs)
                           : Flops(0);
  return attention_core_flops(kind.attention, sequence, pairs) + beside;
}

Flops TokenFlops::forward() const {
  return projections + attention_core + feed_forward + head + mtp;
}

TokenFlops token_flops(const Model& model, Tokens sequence, AttentionPairs pairs) {
  const auto core = [&](const LayerKind& kind) {
    return attention_core_flops(kind, sequence, pairs).value();
  };
  TokenFlops flops;
  flops.projections = Flops(over_layers(model, model.layers, [&](const LayerKind& kind) {
    return flops_of(layer_weights(model, kind), is_attention);
  }));
  flops.attention_core = Flops(over_layers(model, model.layers, core));
  const double n = real(model.streams);
  const double mixed = n > 1 ? 4 * n * n * real(model.hidden) : 0;  // two branches
  flops.feed_forward = Flops(over_layers(model, model.layers, [&](const LayerKind& kind) {
    return flops_of(layer_weights(model, kind), is_not_attention) + mixed;
  }));
  const auto indexed = [&](const LayerKind& kind) {
    return flops_of(layer_weights(model, kind), is_indexer) +
           index_flops(kind.attention, sequence, pairs).value();
  };
  flops.without_gradient =
      Flops(over_layers(model, model.layers, indexed) + over_layers(model, model.mtp, indexed));
  const double head = flops_of(head_weights(model), is_any);
  flops.head = Flops(head + flops_of(embedding_weights(model), is_any));
  const double module = flops_of(mtp_weights(model), is_any) + head;
  flops.mtp = Flops(over_layers(model, model.mtp, [&](const LayerKind& kind) {
    return flops_of(layer_weights(model, kind), is_any) + core(kind) + module;
  }));
  return flops;
}

Flops palm_token_flops(const Model& model, Tokens sequence) {
  const double n = real(active_parameters(model).total().value());
  const double core = over_layers(model, model.layers, [&](const LayerKind& kind) {
    return attention_core_flops(kind, sequence, AttentionPairs::Full).value();
  });
  return Flops(6 * n + 3 * core);
}

Flops megatron_token_flops(const Model& model, Tokens sequence, std::int64_t padded_vocabulary,
                           AttentionPairs pairs) {
  const double share = pairs == AttentionPairs::Full ? 1 : 0.5;
  const double layers = over_layers(model, model.layers, [&](const LayerKind& kind) {
    if (const auto* mamba = std::get_if<Mamba2>(&kind.attention)) {
      const double fed = flops_of(layer_weights(model, kind), is_fed_in_megatron);
      return megatron_mamba_flops(*mamba, real(model.hidden)) + fed;
    }
    const double core =
        attention_core_flops(kind.attention, sequence, AttentionPairs::Full).value();
    return flops_of(layer_weights(model, kind), is_in_megatron) + share * core;
  });
  const double logits = 2 * real(model.hidden) * real(padded_vocabulary);
  return Flops(3 * (layers + logits));
}

double utilization(Flops work, Seconds time, FlopsPerSecond peak) { return (work / peak) / time; }

}  // namespace trainwright
