#include "trainwright/model/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "trainwright/base/text.h"

namespace trainwright::detail {
namespace {

constexpr std::array<std::pair<std::string_view, Activation>, 15> kActivations{{
    {"silu", Activation::Silu},
    {"swish", Activation::Silu},
    {"gelu", Activation::Gelu},
    {"gelu_python", Activation::Gelu},
    {"gelu_new", Activation::GeluTanh},
    {"gelu_fast", Activation::GeluTanh},
    {"gelu_accurate", Activation::GeluTanh},
    {"gelu_pytorch_tanh", Activation::GeluTanh},
    {"gelu_python_tanh", Activation::GeluTanh},
    {"quick_gelu", Activation::QuickGelu},
    {"relu", Activation::Relu},
    {"relu2", Activation::SquaredRelu},
    {"relu_squared", Activation::SquaredRelu},
    {"squared_relu", Activation::SquaredRelu},
    {"xielu", Activation::Xielu},
}};

// The field says so.
std::vector<std::string> known_activations() {
  std::vector<std::string> known;
  for (const auto& entry : kActivations) known.emplace_back(entry.first);
  return known;
}

void read_embedding(const Family& family, ConfigFields& fields, Model& model) {
  model.positions = fields.boolean(family.alibi) ? Positions::Alibi : family.positions;
  if (model.positions == Positions::Learned) {
    if (model.sequence_most < 1) {
      fields.fault(family.sequence.names, "a model with learned positions needs a length");
    }
    model.learned_positions = model.sequence_most + family.positions_extra;
  }
  model.embedding_width =
      fields.integer(family.embedding_width, kHiddenRange).value_or(model.hidden);
  model.embedding_norm = family.embedding_norm;
  model.tied = fields.boolean(family.tied);
  model.head_bias = fields.boolean(family.head_bias);
  model.logit_softcap = fields.is_number(family.logit_softcap);
  const Norm norm = fields.boolean(family.norm_affine) ? family.norm : Norm::LayerFixed;
  model.final_norm = fields.boolean(family.final_norm_removed) ? Norm::None : norm;
  model.streams = required(fields, family.streams, {1, 64});
  model.per_layer_width =
      fields.integer(family.per_layer_width, {0, kHiddenRange.most}).value_or(0);
  if (model.per_layer_width > 0) {
    model.per_layer_vocabulary =
        fields.integer(family.per_layer_vocabulary, kVocabularyRange).value_or(model.vocabulary);
  }
  model.embedding_extras = read_extras(family.embedding_extras, fields);
  model.head_extras = read_extras(family.head_extras, fields);
}

// The biggest model whose counts stay whole in a double: 2^53, 5.8 million times GPT-2 XL.
constexpr double kParametersMost = 9007199254740992.0;

double rough_size(const std::vector<Weight>& weights) {
  double sum = 0;
  for (const Weight& weight : weights) {
    sum += static_cast<double>(weight.copies) * static_cast<double>(weight.out) *
           (static_cast<double>(weight.in) + (weight.bias ? 1 : 0));
  }
  return sum;
}

// Checked in floating point, because the exact count would overflow.
void check_total(const Model& model, ConfigFields& fields) {
  double total = rough_size(embedding_weights(model)) + rough_size(head_weights(model));
  std::vector<double> by_kind;
  for (const LayerKind& kind : model.kinds)
    by_kind.push_back(rough_size(layer_weights(model, kind)));
  for (LayerKindId id : model.layers) total += by_kind[id.at()];
  for (LayerKindId id : model.mtp) total += by_kind[id.at()] + rough_size(mtp_weights(model));
  if (total <= kParametersMost) return;
  fields.fault("", fmt::format("these sizes make {} parameters", significant(total, 3)),
               "at most 9e15 are counted; is a size wrong by orders of magnitude?");
}

}  // namespace

std::int64_t required(ConfigFields& fields, const IntegerField& field, IntegerRange range) {
  if (const auto value = fields.integer(field, range)) return *value;
  fields.fault_unless_reported(field.names, "a number is needed here");
  if (field.absent != kNull) return field.absent;
  return range.least > 0 ? range.least : 1;
}

std::int64_t width_or(ConfigFields& fields, const IntegerField& field, std::int64_t derived) {
  if (field.absent != kNull) return required(fields, field, kWidthRange);
  return fields.integer(field, kWidthRange).value_or(derived);
}

Activation read_activation(const Family& family, ConfigFields& fields) {
  const std::string name = fields.string(family.activation);
  for (const auto& [known, activation] : kActivations) {
    if (known == name) return activation;
  }
  const std::vector<std::string> known = known_activations();
  fields.fault(family.activation.names,
               fmt::format("the activation '{}' is not known", name.substr(0, 60)),
               did_you_mean(name, known, "known: " + enumerate(known, "or")));
  return Activation::Silu;
}

namespace {

// The family as this config has it.
Family settled(const Family& entry, ConfigFields& fields, Diagnostics& diagnostics) {
  Family family = entry.decided != nullptr ? entry.decided(entry, fields) : entry;
  for (const When& when : entry.when) {
    const auto holds = [&](const Condition& condition) { return fields.holds(condition); };
    if (!std::all_of(when.conditions.begin(), when.conditions.end(), holds)) continue;
    apply_members(family, when.then, entry.origin, "/when", diagnostics);
  }
  return family;
}

LayerWords read_words(const Family& family, ConfigFields& fields) {
  LayerWords words;
  std::int64_t layers = 0;
  if (family.layer_pattern.counts) {
    words.attention = words_of(family.layer_pattern, family, 0, fields);
    if (words.attention.empty()) words.attention.emplace_back();
    layers = std::ssize(words.attention);
    const auto said = fields.integer(family.layers, kLayersRange);
    if (said && *said != layers) {
      fields.fault(family.layers.names,
                   fmt::format("is {}, but {} layers are listed", *said, layers));
    }
  } else {
    layers = required(fields, family.layers, kLayersRange);
    fields.remember("layers", layers);
    words.attention = words_of(family.layer_pattern, family, layers, fields);
    if (words.attention.empty()) words.attention.resize(static_cast<std::size_t>(layers));
  }
  fields.remember("layers", layers);
  words.feed_forward = words_of(family.feed_forward_pattern, family, layers, fields);
  words.rotary = words_of(family.rotary_pattern, family, layers, fields);
  return words;
}

// Parts whose kept bytes tests/oracle/test_kept_storages.py does not compare with layers that run.
void note_uncompared(Model& model) {
  std::set<std::string> parts;
  for (const LayerKind& kind : model.kinds) {
    if (std::holds_alternative<Mamba1>(kind.attention)) parts.insert("Mamba's scan");
    const auto* delta = std::get_if<GatedDeltaNet>(&kind.attention);
    if (delta != nullptr && delta->channel_decay) parts.insert("Kimi delta attention");
    const auto* softmax = std::get_if<SoftmaxAttention>(&kind.attention);
    if (softmax != nullptr && softmax->shared_kv) parts.insert("shared keys and values");
  }
  if (model.per_layer_width > 0) parts.insert("per-layer embeddings");
  if (parts.empty()) return;
  model.notes.push_back(fmt::format(
      "kept bytes of {} follow its code as it is written, not compared with layers that run",
      enumerate(std::vector<std::string>(parts.begin(), parts.end()))));
}

}  // namespace

Model build_model(const Family& entry, const std::string& data_directory, ConfigFields& fields,
                  Diagnostics& diagnostics) {
  const Family family = settled(entry, fields, diagnostics);
  Model model;
  model.family = family.model_type;
  model.style = family.style;
  model.style.scores_divided = fields.boolean({"norm_topk_prob", family.norms_scores});
  model.vocabulary = required(fields, family.vocabulary, kVocabularyRange);
  model.hidden = required(fields, family.hidden, kHiddenRange);
  model.sequence_most = fields.integer(family.sequence, kTokensRange).value_or(0);
  fields.remember("hidden", model.hidden);
  fields.remember("vocabulary", model.vocabulary);
  const LayerWords words = read_words(family, fields);
  read_heads(family, fields, model);
  fields.remember("width", width_or(fields, family.width, 4 * model.hidden));
  model.dropout_hidden = fields.probability(family.dropout_hidden);
  model.dropout_attention = fields.probability(family.dropout_attention);

  read_embedding(family, fields, model);
  build_layers(family, words, fields, model, diagnostics);
  for (const AssumedField& field : family.assumed) {
    if (auto note = fields.assumption(field)) model.notes.push_back(std::move(*note));
  }
  if (!family.note.empty()) model.notes.push_back(family.note);
  note_uncompared(model);
  fields.ignore(family.ignored);
  // What is not read in this config may be in another of the family.
  for (const std::string& name : field_names(entry)) fields.ignore(name);
  fields.finish(entry, data_directory);
  if (diagnostics.empty()) check_total(model, fields);
  return model;
}

}  // namespace trainwright::detail
