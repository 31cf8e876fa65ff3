// The layers: attention and feed-forward of each, and the norms around them.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "trainwright/base/text.h"
#include "trainwright/model/build.h"

namespace trainwright::detail {
namespace {

Mlp read_mlp(const Family& family, ConfigFields& fields, const Model& model) {
  const std::int64_t width = width_or(fields, family.width, 4 * model.hidden);
  fields.remember("width", width);
  return {.width = width_or(fields, family.dense_width, width),
          .gated = fields.boolean(family.gated),
          .bias = fields.boolean(family.mlp_bias),
          .activation = read_activation(family, fields)};
}

void add_note(Model& model, std::string note) {
  if (std::find(model.notes.begin(), model.notes.end(), note) != model.notes.end()) return;
  model.notes.push_back(std::move(note));
}

void read_shared(const Family& family, ConfigFields& fields, const Mlp& dense,
                 MixtureOfExperts& experts) {
  Mlp shared = dense;
  shared.bias = family.shared_bias && dense.bias;
  const std::int64_t count =
      fields.integer(family.shared_experts, {0, kExpertsRange.most}).value_or(0);
  shared.width = checked_mul(count, experts.expert.width);
  const IntegerField& width = family.shared_width;
  if (!width.names.empty() || !width.derived.empty()) {
    shared.width = width.absent == kNull ? fields.integer(width, {0, kWidthRange.most}).value_or(0)
                                         : required(fields, width, {0, kWidthRange.most});
  }
  if (shared.width > 0) experts.shared = shared;
}

FeedForward read_experts(const Family& family, ConfigFields& fields, Model& model,
                         const Mlp& dense) {
  MixtureOfExperts experts;
  experts.experts = required(fields, family.experts, {family.experts_least, kExpertsRange.most});
  fields.remember("experts", experts.experts);
  const auto per_token = fields.integer(family.experts_per_token, kExpertsRange);
  experts.experts_per_token = per_token.value_or(0);
  if (!per_token) {
    add_note(model,
             fmt::format("{} is absent and has no default: active parameters and FLOPs count no "
                         "routed expert",
                         family.experts_per_token.names));
  }
  if (experts.experts > 0 && experts.experts_per_token > experts.experts) {
    fields.fault(family.experts_per_token.names,
                 fmt::format("{} experts per token, but there are only {}",
                             experts.experts_per_token, experts.experts));
  }
  const std::int64_t width = width_or(fields, family.width, 4 * model.hidden);
  experts.expert = {.width = width_or(fields, family.expert_width, width),
                    .gated = dense.gated,
                    .bias = family.expert_bias,
                    .activation = dense.activation};
  experts.latent = fields.integer(family.expert_latent, kHiddenRange).value_or(0);
  experts.latent_bias = experts.latent > 0 && dense.bias;
  experts.shared_gate = family.shared_gate;
  experts.router_bias = family.router_bias;
  experts.score_correction_trained = family.score_correction_trained;
  read_shared(family, fields, dense, experts);
  if (experts.experts == 0) return dense;
  return experts;
}

FeedForward read_feed_forward(const Family& family, ConfigFields& fields, Model& model) {
  if (family.feed_forward == FeedForwardKind::None) return NoFeedForward{};
  const Mlp dense = read_mlp(family, fields, model);
  if (family.feed_forward == FeedForwardKind::Mlp) return dense;
  return read_experts(family, fields, model, dense);
}

// A layer with its norms in place and its branches still empty.
LayerKind norms_of(const Family& family, ConfigFields& fields) {
  const Norm norm = fields.boolean(family.norm_affine) ? family.norm : Norm::LayerFixed;
  LayerKind kind;
  kind.parallel = fields.boolean(family.parallel);
  switch (family.norm_plan) {
    case NormPlan::Before: kind.before_attention = kind.before_feed_forward = norm; break;
    case NormPlan::After: kind.after_attention = kind.after_feed_forward = norm; break;
    case NormPlan::Around:
      kind.before_attention = kind.before_feed_forward = norm;
      kind.after_attention = kind.after_feed_forward = norm;
      break;
    case NormPlan::Shared: kind.before_attention = norm; break;
    case NormPlan::AfterResidual:
      kind.after_attention = kind.after_feed_forward = norm;
      kind.norm_after_residual = true;
      break;
  }
  return kind;
}

LayerKind read_kind(const Family& family, ConfigFields& fields, Model& model, bool rotary) {
  LayerKind kind = norms_of(family, fields);
  kind.attention = read_attention(family, fields, model, rotary);
  kind.feed_forward = read_feed_forward(family, fields, model);
  if (family.mamba_beside) kind.beside_attention = read_mamba2(family, fields, model.hidden);
  if (std::holds_alternative<NoAttention>(kind.attention)) {
    kind.before_attention = kind.after_attention = Norm::None;
  }
  if (std::holds_alternative<NoFeedForward>(kind.feed_forward)) {
    kind.before_feed_forward = kind.after_feed_forward = Norm::None;
  }
  kind.extras = read_extras(family.extras, fields);
  return kind;
}

LayerKindId kind_id(Model& model, LayerKind kind) {
  auto at = std::find(model.kinds.begin(), model.kinds.end(), kind);
  if (at == model.kinds.end()) at = model.kinds.insert(at, std::move(kind));
  return LayerKindId(static_cast<std::int32_t>(at - model.kinds.begin()));
}

std::string word_at(const std::vector<std::string>& words, std::int64_t i) {
  return words.empty() ? std::string() : words[static_cast<std::size_t>(i)];
}

// Layers of the same words are alike, unless the config has lists of numbers.
class Layers {
 public:
  Layers(const Family& family, const LayerWords& words, ConfigFields& fields, Model& model,
         Diagnostics& diagnostics)
      : family_(family), words_(words), fields_(fields), model_(model), diagnostics_(diagnostics) {}

  LayerKindId at(std::int64_t i) {
    const std::string attention = word_at(words_.attention, i);
    const std::string feed_forward = word_at(words_.feed_forward, i);
    const std::string rotary = word_at(words_.rotary, i);
    const std::string words = attention + "|" + feed_forward + "|" + rotary;
    if (const auto found = known_.find(words); found != known_.end()) return found->second;
    fields_.begin_layer(i);
    Family& of =
        families_.try_emplace(attention + "|" + feed_forward, made(attention, feed_forward))
            .first->second;
    const LayerKindId id = kind_id(model_, read_kind(of, fields_, model_, rotary != "none"));
    if (!fields_.has_read_list()) known_.emplace(words, id);
    return id;
  }

 private:
  Family made(std::string_view attention, std::string_view feed_forward) {
    return with_word(with_word(family_, attention, diagnostics_), feed_forward, diagnostics_);
  }

  const Family& family_;
  const LayerWords& words_;
  ConfigFields& fields_;
  Model& model_;
  Diagnostics& diagnostics_;
  std::map<std::string, LayerKindId> known_;
  std::map<std::string, Family> families_;
};

// Of a prediction module: as the last layer of the main model, or as the family says.
LayerKindId module_of(const Family& family, ConfigFields& fields, Model& model,
                      Diagnostics& diagnostics) {
  if (!family.mtp_members) return model.layers.back();
  Family of = family;
  apply_members(of, *family.mtp_members, family.origin, "/mtp", diagnostics);
  return kind_id(model, read_kind(of, fields, model, true));
}

}  // namespace

Family with_word(const Family& family, std::string_view word, Diagnostics& diagnostics) {
  Family of = family;
  for (const LayerWord& type : family.types) {
    if (type.word != word) continue;
    apply_members(of, type.members, family.origin, fmt::format("/types/{}", word), diagnostics);
  }
  return of;
}

std::vector<Extra> read_extras(const std::vector<ExtraField>& extras, ConfigFields& fields) {
  std::vector<Extra> read;
  for (const ExtraField& extra : extras) {
    Extra one{.name = extra.name,
              .part = extra.part,
              .use = extra.use,
              .in = required(fields, extra.in, kWidthRange),
              .out = fields.integer(extra.out, {0, kWidthRange.most}).value_or(0),
              .bias = extra.bias};
    if (one.out > 0) read.push_back(std::move(one));
  }
  return read;
}

void build_layers(const Family& family, const LayerWords& words, ConfigFields& fields, Model& model,
                  Diagnostics& diagnostics) {
  const std::int64_t count = words.attention.empty() ? required(fields, family.layers, kLayersRange)
                                                     : std::ssize(words.attention);
  Layers layers(family, words, fields, model, diagnostics);
  for (std::int64_t i = 0; i < count; ++i) model.layers.push_back(layers.at(i));
  const std::int64_t mtp = fields.integer(family.mtp_layers, {0, 1024}).value_or(0);
  if (mtp == 0) return;
  const LayerKindId module = module_of(family, fields, model, diagnostics);
  model.mtp.assign(static_cast<std::size_t>(mtp), module);
}

}  // namespace trainwright::detail
