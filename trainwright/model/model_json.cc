// Words and JSON for a model and its counts.
#include <fmt/format.h>

#include <algorithm>
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
  return indexer ? fmt::format(", top {} by indexer {} x {}", indexer->topk, indexer->heads,
                               indexer->head_dim)
                 : std::string();
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

void add_indexer(Json& json, const std::optional<Indexer>& indexer) {
  if (!indexer) return;
  Json inner = Json::object();
  inner.add("heads", Json::of(indexer->heads)).add("head_dim", Json::of(indexer->head_dim));
  inner.add("topk", Json::of(indexer->topk)).add("query_in", Json::of(indexer->query_in));
  json.add("indexer", std::move(inner));
}

Json json_of(const SoftmaxAttention& a) {
  Json json = Json::object();
  json.add("kind", Json::of("softmax")).add("heads", Json::of(a.heads));
  json.add("kv_heads", Json::of(a.kv_heads)).add("head_dim", Json::of(a.head_dim));
  json.add("reach", Json::of(name_of(a.reach))).add("window", Json::of(a.window));
  json.add("qkv_bias", Json::of(a.qkv_bias)).add("output_bias", Json::of(a.output_bias));
  json.add("qk_norm", Json::of(name_of(a.qk_norm)));
  json.add("qk_norm_per_head", Json::of(a.qk_norm_per_head));
  json.add("output_gate", Json::of(a.output_gate)).add("sinks", Json::of(a.sinks));
  json.add("softcap", Json::of(a.softcap)).add("rotary", Json::of(a.rotary));
  // What few families have.
  if (a.value_dim > 0) json.add("value_dim", Json::of(a.value_dim));
  if (a.head_gate) json.add("head_gate", Json::of(true));
  if (!a.causal) json.add("causal", Json::of(false));
  if (a.shared_kv) json.add("shared_kv", Json::of(true));
  if (a.value_is_key) json.add("value_is_key", Json::of(true));
  add_indexer(json, a.indexer);
  return json;
}

Json json_of(const LatentAttention& a) {
  Json json = Json::object();
  json.add("kind", Json::of("latent")).add("heads", Json::of(a.heads));
  json.add("query_rank", Json::of(a.query_rank)).add("kv_rank", Json::of(a.kv_rank));
  json.add("rope_dim", Json::of(a.rope_dim)).add("nope_dim", Json::of(a.nope_dim));
  json.add("value_dim", Json::of(a.value_dim)).add("latent_norm", Json::of(name_of(a.latent_norm)));
  json.add("down_bias", Json::of(a.down_bias)).add("output_bias", Json::of(a.output_bias));
  if (!a.rotary) json.add("rotary", Json::of(false));
  if (a.head_gate) json.add("head_gate", Json::of(true));
  add_indexer(json, a.indexer);
  return json;
}

Json json_of(const CompressedAttention& a) {
  Json json = Json::object();
  json.add("kind", Json::of("compressed")).add("heads", Json::of(a.heads));
  json.add("head_dim", Json::of(a.head_dim)).add("query_rank", Json::of(a.query_rank));
  json.add("output_groups", Json::of(a.output_groups)).add("output_rank", Json::of(a.output_rank));
  json.add("window", Json::of(a.window)).add("ratio", Json::of(a.ratio));
  json.add("overlap", Json::of(a.overlap));
  add_indexer(json, a.indexer);
  return json;
}

Json json_of(const GatedDeltaNet& a) {
  Json json = Json::object();
  json.add("kind", Json::of("gated_deltanet")).add("key_heads", Json::of(a.key_heads));
  json.add("value_heads", Json::of(a.value_heads)).add("key_dim", Json::of(a.key_dim));
  json.add("value_dim", Json::of(a.value_dim)).add("convolution", Json::of(a.convolution));
  if (a.channel_decay) json.add("channel_decay", Json::of(true));
  if (a.decay_rank > 0) json.add("decay_rank", Json::of(a.decay_rank));
  if (a.gate_rank > 0) json.add("gate_rank", Json::of(a.gate_rank));
  if (!a.gated) json.add("gated", Json::of(false));
  return json;
}

Json json_of(const LightningAttention& a) {
  Json json = Json::object();
  json.add("kind", Json::of("lightning")).add("heads", Json::of(a.heads));
  json.add("head_dim", Json::of(a.head_dim)).add("block", Json::of(a.block));
  return json;
}

Json json_of(const Mamba2& a) {
  Json json = Json::object();
  json.add("kind", Json::of("mamba2")).add("heads", Json::of(a.heads));
  json.add("head_dim", Json::of(a.head_dim)).add("groups", Json::of(a.groups));
  json.add("state", Json::of(a.state)).add("convolution", Json::of(a.convolution));
  json.add("chunk", Json::of(a.chunk)).add("input_bias", Json::of(a.input_bias));
  json.add("output_bias", Json::of(a.output_bias));
  json.add("convolution_bias", Json::of(a.convolution_bias));
  json.add("output_norm", Json::of(name_of(a.output_norm)));
  return json;
}

Json json_of(const Mamba1& a) {
  Json json = Json::object();
  json.add("kind", Json::of("mamba")).add("width", Json::of(a.width));
  json.add("state", Json::of(a.state)).add("rank", Json::of(a.rank));
  json.add("convolution", Json::of(a.convolution));
  json.add("projection_bias", Json::of(a.projection_bias));
  json.add("convolution_bias", Json::of(a.convolution_bias));
  json.add("inner_norm", Json::of(name_of(a.inner_norm)));
  return json;
}

Json json_of(const ShortConvolution& a) {
  Json json = Json::object();
  json.add("kind", Json::of("short_convolution")).add("convolution", Json::of(a.convolution));
  json.add("bias", Json::of(a.bias));
  return json;
}

Json json_of(const NoAttention&) { return Json{}; }

Json json_of(const NoFeedForward&) { return Json{}; }

Json json_of(const Mlp& mlp) {
  Json json = Json::object();
  json.add("kind", Json::of(mlp.gated ? "gated" : "plain")).add("width", Json::of(mlp.width));
  json.add("bias", Json::of(mlp.bias)).add("activation", Json::of(name_of(mlp.activation)));
  return json;
}

Json json_of(const MixtureOfExperts& m) {
  Json json = Json::object();
  json.add("kind", Json::of("experts")).add("experts", Json::of(m.experts));
  json.add("experts_per_token", Json::of(m.experts_per_token)).add("expert", json_of(m.expert));
  if (m.latent > 0) json.add("latent", Json::of(m.latent));
  json.add("shared", m.shared ? json_of(*m.shared) : Json{});
  json.add("shared_gate", Json::of(m.shared_gate)).add("router_bias", Json::of(m.router_bias));
  json.add("score_correction_trained", Json::of(m.score_correction_trained));
  return json;
}

Json json_of(const std::vector<Extra>& extras) {
  Json json = Json::array();
  for (const Extra& extra : extras) {
    json.push(Json::object()
                  .add("name", Json::of(extra.name))
                  .add("in", Json::of(extra.in))
                  .add("out", Json::of(extra.out)));
  }
  return json;
}

Json json_of(const LayerKind& kind) {
  Json json = Json::object();
  json.add("attention", std::visit([](const auto& a) { return json_of(a); }, kind.attention));
  json.add("feed_forward", std::visit([](const auto& f) { return json_of(f); }, kind.feed_forward));
  if (kind.beside_attention) json.add("beside_attention", json_of(*kind.beside_attention));
  json.add("before_attention", Json::of(name_of(kind.before_attention)));
  json.add("after_attention", Json::of(name_of(kind.after_attention)));
  json.add("before_feed_forward", Json::of(name_of(kind.before_feed_forward)));
  json.add("after_feed_forward", Json::of(name_of(kind.after_feed_forward)));
  json.add("parallel", Json::of(kind.parallel));
  json.add("norm_after_residual", Json::of(kind.norm_after_residual));
  if (!kind.extras.empty()) json.add("extras", json_of(kind.extras));
  return json;
}

Json json_of(const std::vector<LayerKindId>& layers) {
  Json json = Json::array();
  for (LayerKindId id : layers) json.push(Json::of(id.index()));
  return json;
}

Json json_of(const TokenFlops& flops) {
  Json json = Json::object();
  json.add("projections", Json::of(flops.projections.value()));
  json.add("attention_core", Json::of(flops.attention_core.value()));
  json.add("feed_forward", Json::of(flops.feed_forward.value()));
  json.add("head", Json::of(flops.head.value()));
  json.add("mtp", Json::of(flops.mtp.value()));
  json.add("forward", Json::of(flops.forward().value()));
  json.add("backward", Json::of(flops.backward().value()));
  json.add("train", Json::of(flops.train().value()));
  return json;
}

Json kinds_report(const Model& model) {
  Json kinds = Json::array();
  for (std::size_t i = 0; i < model.kinds.size(); ++i) {
    const auto id = LayerKindId(static_cast<std::int32_t>(i));
    const auto count = std::count(model.layers.begin(), model.layers.end(), id);
    const std::vector<Weight> weights = layer_weights(model, model.kinds[i]);
    Json kind = Json::object();
    kind.add("layers", Json::of(static_cast<std::int64_t>(count)));
    kind.add("attention", Json::of(describe_mixing(model.kinds[i])));
    kind.add("feed_forward", Json::of(describe(model.kinds[i].feed_forward)));
    kind.add("parameters_per_layer", Json::of(parameters(weights).total().value()));
    kind.add("active_per_layer", Json::of(active_parameters(weights).total().value()));
    kinds.push(std::move(kind));
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
  Json json = Json::object();
  json.add("name", Json::of(model.name)).add("family", Json::of(model.family));
  json.add("vocabulary", Json::of(model.vocabulary)).add("hidden", Json::of(model.hidden));
  json.add("sequence_most", Json::of(model.sequence_most));
  json.add("positions", Json::of(name_of(model.positions)));
  json.add("learned_positions", Json::of(model.learned_positions));
  json.add("embedding_width", Json::of(model.embedding_width));
  json.add("embedding_norm", Json::of(name_of(model.embedding_norm)));
  json.add("final_norm", Json::of(name_of(model.final_norm)));
  json.add("tied", Json::of(model.tied)).add("head_bias", Json::of(model.head_bias));
  json.add("logit_softcap", Json::of(model.logit_softcap));
  if (model.streams > 1) json.add("streams", Json::of(model.streams));
  if (model.per_layer_width > 0) {
    json.add("per_layer_width", Json::of(model.per_layer_width));
    json.add("per_layer_vocabulary", Json::of(model.per_layer_vocabulary));
  }
  if (!model.embedding_extras.empty()) {
    json.add("embedding_extras", json_of(model.embedding_extras));
  }
  if (!model.head_extras.empty()) json.add("head_extras", json_of(model.head_extras));
  json.add("dropout_hidden", Json::of(model.dropout_hidden));
  json.add("dropout_attention", Json::of(model.dropout_attention));
  Json kinds = Json::array();
  for (const LayerKind& kind : model.kinds) kinds.push(json_of(kind));
  json.add("kinds", std::move(kinds));
  json.add("layers", json_of(model.layers)).add("mtp", json_of(model.mtp));
  Json notes = Json::array();
  for (const std::string& note : model.notes) notes.push(Json::of(note));
  json.add("notes", std::move(notes));
  return json;
}

Json to_json(const Parameters& p) {
  Json json = Json::object();
  json.add("embedding", Json::of(p.embedding.value()))
      .add("attention", Json::of(p.attention.value()));
  json.add("feed_forward", Json::of(p.feed_forward.value()));
  json.add("routed_experts", Json::of(p.routed_experts.value()));
  json.add("shared_experts", Json::of(p.shared_experts.value()));
  json.add("router", Json::of(p.router.value())).add("norm", Json::of(p.norm.value()));
  json.add("head", Json::of(p.head.value())).add("total", Json::of(p.total().value()));
  return json;
}

Json model_report(const Model& model, Tokens sequence) {
  const Parameters stored = parameters(model);
  const Parameters active = active_parameters(model);
  const Parameters mtp = mtp_parameters(model);
  Json counts = Json::object();
  counts.add("total", Json::of(stored.total().value()));
  counts.add("active", Json::of(active.total().value()));
  counts.add("mtp", Json::of(mtp.total().value()));
  counts.add("parts", to_json(stored)).add("active_parts", to_json(active));
  counts.add("kinds", kinds_report(model));

  Json flops = Json::object();
  flops.add("sequence", Json::of(sequence.value()));
  flops.add("full", json_of(token_flops(model, sequence, AttentionPairs::Full)));
  flops.add("causal", json_of(token_flops(model, sequence, AttentionPairs::Causal)));
  flops.add("palm", Json::of(palm_token_flops(model, sequence).value()));
  flops.add("megatron", Json::of(megatron_token_flops(model, sequence, model.vocabulary).value()));

  Json json = Json::object();
  json.add("model", to_json(model));
  json.add("parameters", std::move(counts)).add("flops_per_token", std::move(flops));
  return json;
}

}  // namespace trainwright
