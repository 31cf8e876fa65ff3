#include "trainwright/model/build.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "trainwright/base/text.h"

namespace trainwright::detail {
namespace {

constexpr std::array<std::pair<std::string_view, Activation>, 14> kActivations{{
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
}};

Activation read_activation(const Family& family, ConfigFields& fields) {
  const std::string name = fields.string(family.activation);
  for (const auto& [known, activation] : kActivations) {
    if (known == name) return activation;
  }
  std::vector<std::string> known;
  for (const auto& entry : kActivations) known.emplace_back(entry.first);
  fields.fault(family.activation.names,
               fmt::format("the activation '{}' is not known", name.substr(0, 60)),
               did_you_mean(name, known, "known: " + enumerate(known, "or")));
  return Activation::Silu;
}

std::int64_t read_kv_heads(const Family& family, ConfigFields& fields, std::int64_t heads) {
  const std::int64_t set = fields.integer(family.kv_heads, kHeadsRange).value_or(heads);
  std::int64_t kv_heads = set;
  if (family.kv_plan == KvPlan::Falcon) {
    const bool grouped = fields.boolean({"new_decoder_architecture", false});
    const bool shared = fields.boolean({"multi_query", true});
    kv_heads = grouped ? set : shared ? 1 : heads;
  }
  if (heads % kv_heads != 0 && !family.latent) {
    fields.fault(family.kv_heads.names,
                 fmt::format("{} key-value heads do not divide {} query heads", kv_heads, heads));
  }
  return kv_heads;
}

std::int64_t read_head_dim(const Family& family, ConfigFields& fields, std::int64_t hidden,
                           std::int64_t heads, Model& model) {
  if (const auto set = fields.integer(family.head_dim, kHeadDimRange)) return *set;
  const std::int64_t derived = hidden / heads;
  if (family.latent) return derived > 0 ? derived : 1;
  if (derived == 0) {
    fields.fault(family.heads.names,
                 fmt::format("{} heads are more than the hidden size {}", heads, hidden));
    return 1;
  }
  if (hidden % heads != 0 && family.head_dim.names.empty()) {
    fields.fault(family.heads.names,
                 fmt::format("the hidden size {} is not a multiple of {} heads", hidden, heads));
  } else if (hidden % heads != 0) {
    model.notes.push_back(
        fmt::format("head_dim is absent: {} / {} rounded down to {}", hidden, heads, derived));
  }
  return derived;
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
  const bool removed =
      fields.boolean(family.final_norm_removed) ||
      (family.norm_plan == NormPlan::Opt && !fields.boolean({"do_layer_norm_before", true}));
  model.final_norm = removed ? Norm::None : norm;
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

Model build_model(const Family& entry, ConfigFields& fields, Diagnostics& diagnostics) {
  const Family family = entry.decided != nullptr ? entry.decided(entry, fields) : entry;
  Model model;
  model.family = family.model_type;
  model.vocabulary = required(fields, family.vocabulary, kVocabularyRange);
  model.hidden = required(fields, family.hidden, kHiddenRange);
  model.sequence_most = fields.integer(family.sequence, kTokensRange).value_or(0);

  LayerNumbers numbers;
  numbers.hidden = model.hidden;
  numbers.layers = required(fields, family.layers, kLayersRange);
  numbers.heads = required(fields, family.heads, kHeadsRange);
  numbers.kv_heads = read_kv_heads(family, fields, numbers.heads);
  numbers.head_dim = read_head_dim(family, fields, model.hidden, numbers.heads, model);
  numbers.width = width_or(fields, family.width, 4 * model.hidden);
  numbers.activation = read_activation(family, fields);
  model.dropout_hidden = fields.probability(family.dropout_hidden);
  model.dropout_attention = fields.probability(family.dropout_attention);

  read_embedding(family, fields, model);
  build_layers(family, numbers, fields, model);
  for (const AssumedField& field : family.assumed) {
    if (auto note = fields.assumption(field)) model.notes.push_back(std::move(*note));
  }
  fields.ignore(family.ignored);
  fields.finish(entry);
  if (diagnostics.empty()) check_total(model, fields);
  return model;
}

}  // namespace trainwright::detail
