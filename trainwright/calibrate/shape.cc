// Models from a table's columns, through the same configs as everyone else's.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/calibrate/draft.h"

namespace trainwright::detail {
namespace {

// The first number a shape lacks, or nothing.
std::string_view missing(const Shape& shape) {
  const std::pair<const std::optional<std::int64_t>&, std::string_view> needed[] = {
      {shape.layers, "layers"}, {shape.hidden, "hidden"},    {shape.ffn, "ffn_hidden"},
      {shape.heads, "heads"},   {shape.vocabulary, "vocab"},
  };
  for (const auto& [number, name] : needed) {
    if (!number) return name;
  }
  return {};
}

ModelOrReason from_config(const Json& config, const Shape& shape) {
  auto model = model_from_json(config, shape.name);
  if (!model) {
    const Diagnostic& fault = model.error().diagnostics.front();
    return skip(fmt::format("no such model: {} {}", fault.where, fault.what));
  }
  model->name = shape.name;
  model->dropout_hidden = model->dropout_attention = 0;
  return *std::move(model);
}

}  // namespace

Shape shape_of(const MeasuredRun& run) {
  return {.name = run.model_name,
          .layers = run.layers,
          .hidden = run.hidden,
          .ffn = run.ffn_hidden,
          .heads = run.heads,
          .kv_heads = run.kv_heads,
          .head_dim = run.head_dim,
          .vocabulary = run.vocab,
          .positions = run.seq_len.value_or(0)};
}

ModelOrReason gpt_model(const Shape& shape) {
  if (const auto name = missing(shape); !name.empty()) {
    return skip(fmt::format("the source does not say: {}", name));
  }
  Json config = Json::object();
  config.add("model_type", Json::of("gpt2"))
      .add("vocab_size", Json::of(*shape.vocabulary))
      .add("n_positions", Json::of(std::max<std::int64_t>(1, shape.positions)))
      .add("n_embd", Json::of(*shape.hidden))
      .add("n_layer", Json::of(*shape.layers))
      .add("n_head", Json::of(*shape.heads))
      .add("n_inner", Json::of(*shape.ffn))
      .add("activation_function", Json::of("gelu_new"))
      .add("tie_word_embeddings", Json::of(shape.tied));
  auto model = from_config(config, shape);
  if (!model) return model;
  auto* attention = std::get_if<SoftmaxAttention>(&model->kinds.front().attention);
  const std::int64_t groups = shape.kv_heads.value_or(*shape.heads);
  if (attention == nullptr || groups < 1 || *shape.heads % groups != 0) {
    return skip(fmt::format("{} key-value heads beside {} heads", groups, *shape.heads));
  }
  attention->kv_heads = groups;
  return model;
}

ModelOrReason llama_model(const Shape& shape) {
  if (const auto name = missing(shape); !name.empty()) {
    return skip(fmt::format("the source does not say: {}", name));
  }
  Json config = Json::object();
  config.add("model_type", Json::of("llama"))
      .add("vocab_size", Json::of(*shape.vocabulary))
      .add("hidden_size", Json::of(*shape.hidden))
      .add("intermediate_size", Json::of(*shape.ffn))
      .add("num_hidden_layers", Json::of(*shape.layers))
      .add("num_attention_heads", Json::of(*shape.heads))
      .add("num_key_value_heads", Json::of(shape.kv_heads.value_or(*shape.heads)))
      .add("hidden_act", Json::of("silu"))
      .add("max_position_embeddings", Json::of(std::max<std::int64_t>(1, shape.positions)))
      .add("attention_bias", Json::of(false))
      .add("mlp_bias", Json::of(false))
      .add("tie_word_embeddings", Json::of(shape.tied));
  if (shape.head_dim) config.add("head_dim", Json::of(*shape.head_dim));
  return from_config(config, shape);
}

ModelOrReason trimmed(const Knowledge& knowledge, std::string_view name, std::int64_t layers,
                      std::int64_t dense) {
  const auto entry = std::find_if(knowledge.models.begin(), knowledge.models.end(),
                                  [&](const ZooEntry& other) { return other.model.name == name; });
  if (entry == knowledge.models.end()) return skip(fmt::format("no model '{}' is known", name));
  Model model = entry->model;
  if (layers < dense || layers > static_cast<std::int64_t>(model.layers.size())) {
    return skip(fmt::format("{} cannot be cut to {} layers", name, layers));
  }
  const LayerKindId first = model.layers.front();
  const LayerKindId last = model.layers.back();
  model.layers.assign(static_cast<std::size_t>(layers), last);
  std::fill_n(model.layers.begin(), dense, first);
  model.mtp.clear();
  model.name = fmt::format("{}-l{}", name, layers);
  return model;
}

}  // namespace trainwright::detail
