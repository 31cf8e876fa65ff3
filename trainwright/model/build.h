#pragma once
// Private: from a family and a config's fields to a Model.
#include <optional>

#include "trainwright/model/config_fields.h"

namespace trainwright::detail {

// Reads every field of the family, reports all faults to the diagnostics of `fields`, and gives
// the model. The model is only meaningful when no fault was reported.
Model build_model(const Family& entry, const std::string& data_directory, ConfigFields& fields,
                  Diagnostics& diagnostics);

// The words of a pattern, one for each layer; none where the pattern says nothing. `layers`: 0
// where the words themselves say how many there are.
std::vector<std::string> words_of(const LayerPattern& pattern, const Family& family,
                                  std::int64_t layers, ConfigFields& fields);

struct LayerWords {
  std::vector<std::string> attention, feed_forward, rotary;
};
// The layers: fills kinds, layers and mtp.
void build_layers(const Family& family, const LayerWords& words, ConfigFields& fields, Model& model,
                  Diagnostics& diagnostics);

// A family with the members that layers of that word have otherwise.
Family with_word(const Family& family, std::string_view word, Diagnostics& diagnostics);

Attention read_attention(const Family& family, ConfigFields& fields, const Model& model,
                         bool rotary);
Mamba2 read_mamba2(const Family& family, ConfigFields& fields, std::int64_t hidden);
Activation read_activation(const Family& family, ConfigFields& fields);
std::vector<Extra> read_extras(const std::vector<ExtraField>& extras, ConfigFields& fields);

struct Heads {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
};
// And what formulas call by these names.
Heads read_heads(const Family& family, ConfigFields& fields, Model& model);

// Bounds that keep every later product within 64 bits; far beyond any model built.
inline constexpr IntegerRange kVocabularyRange{1, std::int64_t{1} << 31};
inline constexpr IntegerRange kHiddenRange{1, std::int64_t{1} << 24};
inline constexpr IntegerRange kLayersRange{1, std::int64_t{1} << 16};
inline constexpr IntegerRange kHeadsRange{1, std::int64_t{1} << 20};
inline constexpr IntegerRange kHeadDimRange{1, std::int64_t{1} << 20};
inline constexpr IntegerRange kWidthRange{1, std::int64_t{1} << 31};
inline constexpr IntegerRange kExpertsRange{1, std::int64_t{1} << 20};
inline constexpr IntegerRange kTokensRange{0, std::int64_t{1} << 40};
inline constexpr IntegerRange kTapsRange{1, 1 << 16};

// The field's value; a fault if it is null and the class cannot derive it. After a fault it is the
// class default, or the least allowed number, so that reading goes on and finds more.
std::int64_t required(ConfigFields& fields, const IntegerField& field, IntegerRange range);
// A width; `derived` if it is null and null is the class default.
std::int64_t width_or(ConfigFields& fields, const IntegerField& field, std::int64_t derived);

// What exports hand on, of a config of that family.
Constants read_constants(const Json& config, const Family& family);

}  // namespace trainwright::detail
