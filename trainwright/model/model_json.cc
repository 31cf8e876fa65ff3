// Words and JSON for a model and its counts.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <variant>

#include "trainwright/base/text.h"
#include "trainwright/model/model.h"

namespace trainwright {
namespace {

std::string reach_text(const SoftmaxAttention& a) {
  if (a.reach == Reach::Full) return {};
  return fmt::format(", {} {}", name_of(a.reach), a.window);
}

std::string index_text(const std::optional<Indexer>& indexer) {
  if (!indexer) return {};
  if (indexer->heads == 0) return fmt::format(", top {} of an earlier layer", indexer->topk);
  return fmt::format(", top {} by indexer {} x {}", indexer->topk, indexer->heads,
                     indexer->head_dim);
}

std::string text_of(const SoftmaxAttention& a) {
  const std::string_view kind = a.kv_heads == a.heads ? "MHA" : a.kv_heads == 1 ? "MQA" : "GQA";
  const std::string heads = a.kv_heads == a.heads ? fmt::format("{}", a.heads)
                                                  : fmt::format("{}:{}", a.heads, a.kv_heads);
  return fmt::format("{} {} x {}{}{}{}{}", kind, heads, a.head_dim,
                     a.value_dim > 0 ? fmt::format(":{}", a.value_dim) : "", reach_text(a),
                     index_text(a.indexer), a.shared_kv ? ", shared keys and values" : "");
}

std::string text_of(const LatentAttention& a) {
  return fmt::format("MLA {} x ({} + {}), ranks {} and {}{}", a.heads, a.nope_dim, a.rope_dim,
                     a.query_rank, a.kv_rank, index_text(a.indexer));
}

std::string text_of(const CompressedAttention& a) {
  std::string text = fmt::format("MQA {} x {}, sliding {}", a.heads, a.head_dim, a.window);
  if (a.ratio > 0) text += fmt::format(" + {}:1 compressed", a.ratio);
  return text + index_text(a.indexer);
}

std::string text_of(const GatedDeltaNet& a) {
  return fmt::format("{} {}:{} x {}:{}", a.channel_decay ? "Kimi delta" : "gated DeltaNet",
                     a.value_heads, a.key_heads, a.value_dim, a.key_dim);
}

std::string text_of(const LightningAttention& a) {
  return fmt::format("lightning {} x {}", a.heads, a.head_dim);
}

std::string text_of(const Mamba2& a) {
  return fmt::format("Mamba-2 {}:{} x {}, state {}", a.heads, a.groups, a.head_dim, a.state);
}

std::string text_of(const Mamba1& a) { return fmt::format("Mamba {}, state {}", a.width, a.state); }

std::string text_of(const ShortConvolution& a) {
  return fmt::format("convolution of {}", a.convolution);
}

std::string text_of(const NoAttention&) { return "none"; }

std::string text_of(const NoFeedForward&) { return "none"; }

std::string text_of(const Mlp& mlp) {
  return fmt::format("{} {}", mlp.gated ? "gated" : "plain", mlp.width);
}

std::string text_of(const MixtureOfExperts& m) {
  std::string text =
      fmt::format("{} of {} x {}", m.experts_per_token, m.experts, text_of(m.expert));
  if (m.latent > 0) text += fmt::format(" on {}", m.latent);
  if (m.shared) text += fmt::format(" + shared {}", m.shared->width);
  return text;
}

// A member of an object. One without a value is left out: few families have it.
struct Member {
  template <class T>
  Member(std::string_view of, const T& is) : key(of), value(json(is)) {}
  template <class T>
  Member(std::string_view of, const std::optional<T>& is) : key(of) {
    if (is) value = json(*is);
  }

  static Json json(const Json& is) { return is; }
  static Json json(Norm is) { return Json::of(name_of(is)); }
  static Json json(Activation is) { return Json::of(name_of(is)); }
  static Json json(Reach is) { return Json::of(name_of(is)); }
  static Json json(const auto& is) { return Json::of(is); }

  std::string_view key;
  std::optional<Json> value;
};

Json object(std::initializer_list<Member> members) {
  Json json = Json::object();
  for (const Member& member : members) {
    if (member.value) json.add(std::string(member.key), *member.value);
  }
  return json;
}

template <class T>
std::optional<T> unless(const T& usual, const T& value) {
  return value == usual ? std::nullopt : std::optional(value);
}
std::optional<std::int64_t> if_any(std::int64_t count) { return unless<std::int64_t>(0, count); }

std::optional<Json> json_of(const std::optional<Indexer>& indexer) {
  if (!indexer) return std::nullopt;
  return object({{"heads", indexer->heads},
                 {"head_dim", indexer->head_dim},
                 {"topk", indexer->topk},
                 {"query_in", indexer->query_in}});
}

Json json_of(const SoftmaxAttention& a) {
  return object({{"kind", "softmax"},
                 {"heads", a.heads},
                 {"kv_heads", a.kv_heads},
                 {"head_dim", a.head_dim},
                 {"reach", a.reach},
                 {"window", a.window},
                 {"qkv_bias", a.qkv_bias},
                 {"output_bias", a.output_bias},
                 {"qk_norm", a.qk_norm},
                 {"qk_norm_per_head", a.qk_norm_per_head},
                 {"output_gate", a.output_gate},
                 {"sinks", a.sinks},
                 {"softcap", a.softcap},
                 {"rotary", a.rotary},
                 {"value_dim", if_any(a.value_dim)},
                 {"head_gate", unless(false, a.head_gate)},
                 {"causal", unless(true, a.causal)},
                 {"shared_kv", unless(false, a.shared_kv)},
                 {"value_is_key", unless(false, a.value_is_key)},
                 {"indexer", json_of(a.indexer)}});
}

Json json_of(const LatentAttention& a) {
  return object({{"kind", "latent"},
                 {"heads", a.heads},
                 {"query_rank", a.query_rank},
                 {"kv_rank", a.kv_rank},
                 {"rope_dim", a.rope_dim},
                 {"nope_dim", a.nope_dim},
                 {"value_dim", a.value_dim},
                 {"latent_norm", a.latent_norm},
                 {"down_bias", a.down_bias},
                 {"output_bias", a.output_bias},
                 {"rotary", unless(true, a.rotary)},
                 {"head_gate", unless(false, a.head_gate)},
                 {"indexer", json_of(a.indexer)}});
}

Json json_of(const CompressedAttention& a) {
  return object({{"kind", "compressed"},
                 {"heads", a.heads},
                 {"head_dim", a.head_dim},
                 {"query_rank", a.query_rank},
                 {"output_groups", a.output_groups},
                 {"output_rank", a.output_rank},
                 {"window", a.window},
                 {"ratio", a.ratio},
                 {"overlap", a.overlap},
                 {"indexer", json_of(a.indexer)}});
}

Json json_of(const GatedDeltaNet& a) {
  return object({{"kind", "gated_deltanet"},
                 {"key_heads", a.key_heads},
                 {"value_heads", a.value_heads},
                 {"key_dim", a.key_dim},
                 {"value_dim", a.value_dim},
                 {"convolution", a.convolution},
                 {"channel_decay", unless(false, a.channel_decay)},
                 {"decay_rank", if_any(a.decay_rank)},
                 {"gate_rank", if_any(a.gate_rank)},
                 {"gated", unless(true, a.gated)}});
}

Json json_of(const LightningAttention& a) {
  return object(
      {{"kind", "lightning"}, {"heads", a.heads}, {"head_dim", a.head_dim}, {"block", a.block}});
}

Json json_of(const Mamba2& a) {
  return object({{"kind", "mamba2"},
                 {"heads", a.heads},
                 {"head_dim", a.head_dim},
                 {"groups", a.groups},
                 {"state", a.state},
                 {"convolution", a.convolution},
                 {"chunk", a.chunk},
                 {"input_bias", a.input_bias},
                 {"output_bias", a.output_bias},
                 {"convolution_bias", a.convolution_bias},
                 {"output_norm", a.output_norm}});
}

Json json_of(const Mamba1& a) {
  return object({{"kind", "mamba"},
                 {"width", a.width},
                 {"state", a.state},
                 {"rank", a.rank},
                 {"convolution", a.convolution},
                 {"projection_bias", a.projection_bias},
                 {"convolution_bias", a.convolution_bias},
                 {"inner_norm", a.inner_norm}});
}

Json json_of(const ShortConvolution& a) {
  return object({{"kind", "short_convolution"}, {"convolution", a.convolution}, {"bias", a.bias}});
}

Json json_of(const NoAttention&) { return Json{}; }

Json json_of(const NoFeedForward&) { return Json{}; }

Json json_of(const Mlp& mlp) {
  return object({{"kind", mlp.gated ? "gated" : "plain"},
                 {"width", mlp.width},
                 {"bias", mlp.bias},
                 {"activation", mlp.activation}});
}

Json json_of(const MixtureOfExperts& m) {
  return object({{"kind", "experts"},
                 {"experts", m.experts},
                 {"experts_per_token", m.experts_per_token},
                 {"expert", json_of(m.expert)},
                 {"latent", if_any(m.latent)},
                 {"shared", m.shared ? json_of(*m.shared) : Json{}},
                 {"shared_gate", m.shared_gate},
                 {"router_bias", m.router_bias},
                 {"score_correction_trained", m.score_correction_trained}});
}

std::optional<Json> json_of(const std::vector<Extra>& extras) {
  if (extras.empty()) return std::nullopt;
  Json json = Json::array();
  for (const Extra& extra : extras) {
    json.push(object({{"name", extra.name}, {"in", extra.in}, {"out", extra.out}}));
  }
  return json;
}

Json json_of(const LayerKind& kind) {
  const auto of = [](const auto& part) { return json_of(part); };
  return object(
      {{"attention", std::visit(of, kind.attention)},
       {"feed_forward", std::visit(of, kind.feed_forward)},
       {"beside_attention",
        kind.beside_attention ? std::optional(json_of(*kind.beside_attention)) : std::nullopt},
       {"before_attention", kind.before_attention},
       {"after_attention", kind.after_attention},
       {"before_feed_forward", kind.before_feed_forward},
       {"after_feed_forward", kind.after_feed_forward},
       {"parallel", kind.parallel},
       {"norm_after_residual", kind.norm_after_residual},
       {"extras", json_of(kind.extras)}});
}

Json json_of(const std::vector<LayerKindId>& layers) {
  Json json = Json::array();
  for (LayerKindId id : layers) json.push(Json::of(id.index()));
  return json;
}

Json json_of(const TokenFlops& flops) {
  return object({{"projections", flops.projections.value()},
                 {"attention_core", flops.attention_core.value()},
                 {"feed_forward", flops.feed_forward.value()},
                 {"head", flops.head.value()},
                 {"mtp", flops.mtp.value()},
                 {"forward", flops.forward().value()},
                 {"backward", flops.backward().value()},
                 {"train", flops.train().value()}});
}

Json kinds_report(const Model& model) {
  Json kinds = Json::array();
  for (std::size_t i = 0; i < model.kinds.size(); ++i) {
    const auto id = LayerKindId(static_cast<std::int32_t>(i));
    const auto count = std::count(model.layers.begin(), model.layers.end(), id);
    const std::vector<Weight> weights = layer_weights(model, model.kinds[i]);
    kinds.push(object({{"layers", static_cast<std::int64_t>(count)},
                       {"attention", describe_mixing(model.kinds[i])},
                       {"feed_forward", describe(model.kinds[i].feed_forward)},
                       {"parameters_per_layer", parameters(weights).total().value()},
                       {"active_per_layer", active_parameters(weights).total().value()}}));
  }
  return kinds;
}

}  // namespace

std::string_view name_of(Norm norm) {
  switch (norm) {
    case Norm::None: return "none";
    case Norm::Rms: return "rms";
    case Norm::RmsFixed: return "rms_fixed";
    case Norm::Layer: return "layer";
    case Norm::LayerGain: return "layer_gain";
    case Norm::LayerFixed: return "layer_fixed";
  }
  return {};
}

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::Silu: return "silu";
    case Activation::Gelu: return "gelu";
    case Activation::GeluTanh: return "gelu_tanh";
    case Activation::QuickGelu: return "quick_gelu";
    case Activation::Relu: return "relu";
    case Activation::SquaredRelu: return "squared_relu";
    case Activation::Xielu: return "xielu";
  }
  return {};
}

std::string_view name_of(Positions positions) {
  switch (positions) {
    case Positions::None: return "none";
    case Positions::Rotary: return "rotary";
    case Positions::Learned: return "learned";
    case Positions::Alibi: return "alibi";
  }
  return {};
}

std::string_view name_of(Reach reach) {
  switch (reach) {
    case Reach::Full: return "full";
    case Reach::Sliding: return "sliding";
    case Reach::Chunked: return "chunked";
  }
  return {};
}

std::string_view name_of(Part part) {
  switch (part) {
    case Part::Embedding: return "embedding";
    case Part::SelfAttention: return "attention";
    case Part::DenseFeedForward: return "feed_forward";
    case Part::RoutedExperts: return "routed_experts";
    case Part::SharedExperts: return "shared_experts";
    case Part::Router: return "router";
    case Part::Norm: return "norm";
    case Part::Head: return "head";
  }
  return {};
}

std::string describe(const Attention& attention) {
  return std::visit([](const auto& a) { return text_of(a); }, attention);
}

std::string describe_mixing(const LayerKind& kind) {
  const std::string attention = describe(kind.attention);
  return kind.beside_attention ? fmt::format("{} + {}", attention, text_of(*kind.beside_attention))
                               : attention;
}

std::string describe(const FeedForward& feed_forward) {
  return std::visit([](const auto& f) { return text_of(f); }, feed_forward);
}

Json to_json(const Model& model) {
  Json kinds = Json::array();
  for (const LayerKind& kind : model.kinds) kinds.push(json_of(kind));
  Json notes = Json::array();
  for (const std::string& note : model.notes) notes.push(Json::of(note));
  const bool by_layer = model.per_layer_width > 0;
  return object({{"name", model.name},
                 {"family", model.family},
                 {"vocabulary", model.vocabulary},
                 {"hidden", model.hidden},
                 {"sequence_most", model.sequence_most},
                 {"positions", name_of(model.positions)},
                 {"learned_positions", model.learned_positions},
                 {"embedding_width", model.embedding_width},
                 {"embedding_norm", model.embedding_norm},
                 {"final_norm", model.final_norm},
                 {"tied", model.tied},
                 {"head_bias", model.head_bias},
                 {"logit_softcap", model.logit_softcap},
                 {"streams", unless<std::int64_t>(1, model.streams)},
                 {"per_layer_width", if_any(model.per_layer_width)},
                 {"per_layer_vocabulary", if_any(by_layer ? model.per_layer_vocabulary : 0)},
                 {"embedding_extras", json_of(model.embedding_extras)},
                 {"head_extras", json_of(model.head_extras)},
                 {"dropout_hidden", model.dropout_hidden},
                 {"dropout_attention", model.dropout_attention},
                 {"kinds", kinds},
                 {"layers", json_of(model.layers)},
                 {"mtp", json_of(model.mtp)},
                 {"notes", notes}});
}

Json to_json(const Parameters& p) {
  return object({{"embedding", p.embedding.value()},
                 {"attention", p.attention.value()},
                 {"feed_forward", p.feed_forward.value()},
                 {"routed_experts", p.routed_experts.value()},
                 {"shared_experts", p.shared_experts.value()},
                 {"router", p.router.value()},
                 {"norm", p.norm.value()},
                 {"head", p.head.value()},
                 {"total", p.total().value()}});
}

Json model_report(const Model& model, Tokens sequence) {
  const Parameters stored = parameters(model);
  const Parameters active = active_parameters(model);
  return object(
      {{"model", to_json(model)},
       {"parameters", object({{"total", stored.total().value()},
                              {"active", active.total().value()},
                              {"mtp", mtp_parameters(model).total().value()},
                              {"parts", to_json(stored)},
                              {"active_parts", to_json(active)},
                              {"kinds", kinds_report(model)}})},
       {"flops_per_token",
        object({{"sequence", sequence.value()},
                {"full", json_of(token_flops(model, sequence, AttentionPairs::Full))},
                {"causal", json_of(token_flops(model, sequence, AttentionPairs::Causal))},
                {"palm", palm_token_flops(model, sequence).value()},
                {"megatron", megatron_token_flops(model, sequence, model.vocabulary).value()}})}});
}

}  // namespace trainwright
