#pragma once
// Private: from a family's entry and a config's fields to a Model.
#include <optional>

#include "trainwright/model/config_fields.h"

namespace trainwright::detail {

// Reads every field of the family, reports all faults to the diagnostics of `fields`, and gives
// the model. The model is only meaningful when no fault was reported.
Model build_model(const Family& entry, ConfigFields& fields, Diagnostics& diagnostics);

// The layers: fills kinds, layers and mtp.
struct LayerNumbers {
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t width = 0;
  Activation activation = Activation::Silu;
};
void build_layers(const Family& family, const LayerNumbers& numbers, ConfigFields& fields,
                  Model& model);

// Of models whose layers are one branch each.
enum class HybridLayer { Mamba, Attention, FeedForward, Experts };
// Listed by name, else as letters of a pattern, else what the class takes; never empty.
std::vector<HybridLayer> read_hybrid_layers(ConfigFields& fields);
// A fault if the prediction modules are not one layer of attention and experts.
void check_hybrid_mtp(ConfigFields& fields);
Mamba2 read_mamba(const Family& family, const LayerNumbers& layer, ConfigFields& fields);
// Leaves that branch of a layer, with the norm before it.
void keep_branch(LayerKind& kind, HybridLayer layer);

// Bounds that keep every later product within 64 bits; far beyond any model built.
inline constexpr IntegerRange kVocabularyRange{1, std::int64_t{1} << 31};
inline constexpr IntegerRange kHiddenRange{1, std::int64_t{1} << 24};
inline constexpr IntegerRange kLayersRange{1, std::int64_t{1} << 16};
inline constexpr IntegerRange kHeadsRange{1, std::int64_t{1} << 20};
inline constexpr IntegerRange kHeadDimRange{1, std::int64_t{1} << 20};
inline constexpr IntegerRange kWidthRange{1, std::int64_t{1} << 31};
inline constexpr IntegerRange kExpertsRange{1, std::int64_t{1} << 20};
inline constexpr IntegerRange kTokensRange{0, std::int64_t{1} << 40};

// The field's value; a fault if it is null and the class cannot derive it. After a fault it is the
// class default, or the least allowed number, so that reading goes on and finds more.
std::int64_t required(ConfigFields& fields, const IntegerField& field, IntegerRange range);
// A width; `derived` if it is null and null is the class default.
std::int64_t width_or(ConfigFields& fields, const IntegerField& field, std::int64_t derived);

// What exports hand on, of a config of that model_type.
Constants read_constants(const Json& config, std::string_view family);

}  // namespace trainwright::detail
