// From the JSON of a family to its members.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trainwright/base/text.h"
#include "trainwright/model/family_members.h"

namespace trainwright::detail {
namespace {

template <class Value>
using Word = std::pair<std::string_view, Value>;

constexpr std::array kNormWords = {Word<Norm>{"none", Norm::None},
                                   Word<Norm>{"rms", Norm::Rms},
                                   Word<Norm>{"rms_fixed", Norm::RmsFixed},
                                   Word<Norm>{"layer", Norm::Layer},
                                   Word<Norm>{"layer_gain", Norm::LayerGain},
                                   Word<Norm>{"layer_fixed", Norm::LayerFixed}};
constexpr std::array kPlanWords = {
    Word<NormPlan>{"before", NormPlan::Before}, Word<NormPlan>{"after", NormPlan::After},
    Word<NormPlan>{"around", NormPlan::Around}, Word<NormPlan>{"shared", NormPlan::Shared},
    Word<NormPlan>{"after_residual", NormPlan::AfterResidual}};
constexpr std::array kAttentionWords = {
    Word<AttentionKind>{"softmax", AttentionKind::Softmax},
    Word<AttentionKind>{"latent", AttentionKind::Latent},
    Word<AttentionKind>{"compressed", AttentionKind::Compressed},
    Word<AttentionKind>{"delta_net", AttentionKind::DeltaNet},
    Word<AttentionKind>{"lightning", AttentionKind::Lightning},
    Word<AttentionKind>{"mamba2", AttentionKind::Mamba2},
    Word<AttentionKind>{"mamba", AttentionKind::Mamba},
    Word<AttentionKind>{"short_convolution", AttentionKind::ShortConvolution},
    Word<AttentionKind>{"none", AttentionKind::None}};
constexpr std::array kFeedForwardWords = {
    Word<FeedForwardKind>{"mlp", FeedForwardKind::Mlp},
    Word<FeedForwardKind>{"experts", FeedForwardKind::Experts},
    Word<FeedForwardKind>{"none", FeedForwardKind::None}};
constexpr std::array kPositionWords = {
    Word<Positions>{"none", Positions::None}, Word<Positions>{"rotary", Positions::Rotary},
    Word<Positions>{"learned", Positions::Learned}, Word<Positions>{"alibi", Positions::Alibi}};
constexpr std::array kScoreWords = {
    Word<Constants::Scores>{"of_chosen", Constants::Scores::OfChosen},
    Word<Constants::Scores>{"of_all", Constants::Scores::OfAll},
    Word<Constants::Scores>{"sigmoid", Constants::Scores::Sigmoid}};
constexpr std::array kGainWords = {
    Word<CodeStyle::Gain>{"after_cast", CodeStyle::Gain::AfterCast},
    Word<CodeStyle::Gain>{"before_cast", CodeStyle::Gain::BeforeCast},
    Word<CodeStyle::Gain>{"one_plus", CodeStyle::Gain::OnePlusBeforeCast},
    Word<CodeStyle::Gain>{"copied", CodeStyle::Gain::CopiedBeforeCast}};
constexpr std::array kGateWords = {
    Word<CodeStyle::Gate>{"plain", CodeStyle::Gate::Plain},
    Word<CodeStyle::Gate>{"clamped", CodeStyle::Gate::Clamped},
    Word<CodeStyle::Gate>{"clamped_sigmoid", CodeStyle::Gate::ClampedSigmoid}};
constexpr std::array kPartWords = {Word<Extra::Part>{"embedding", Extra::Part::Embedding},
                                   Word<Extra::Part>{"attention", Extra::Part::SelfAttention},
                                   Word<Extra::Part>{"feed_forward", Extra::Part::DenseFeedForward},
                                   Word<Extra::Part>{"shared_experts", Extra::Part::SharedExperts},
                                   Word<Extra::Part>{"router", Extra::Part::Router},
                                   Word<Extra::Part>{"norm", Extra::Part::Norm},
                                   Word<Extra::Part>{"head", Extra::Part::Head}};
constexpr std::array kUseWords = {Word<Extra::Use>{"matrix", Extra::Use::Matrix},
                                  Word<Extra::Use>{"table", Extra::Use::Table},
                                  Word<Extra::Use>{"vector", Extra::Use::Vector},
                                  Word<Extra::Use>{"convolution", Extra::Use::Convolution}};

// Reads the value of one member; every fault has its place.
class Members {
 public:
  Members(const std::string& origin, const std::string& path, Diagnostics& faults)
      : origin_(origin), path_(path), faults_(faults) {}

  void fault(const Json& at, std::string_view key, std::string what, std::string hint = {}) {
    faults_.push_back({json_place(origin_, at, fmt::format("{}/{}", path_, key)), std::move(what),
                       std::move(hint)});
  }

  template <class Value, std::size_t N>
  void word(const Json& json, std::string_view key, const std::array<Word<Value>, N>& words,
            Value& value) {
    std::vector<std::string> known;
    for (const auto& [name, meant] : words) {
      if (json.is_string() && json.string == name) {
        value = meant;
        return;
      }
      known.emplace_back(name);
    }
    fault(json, key, "is not one of the words that are known here", enumerate(known, "or"));
  }

  void read(const Json& json, std::string_view key, IntegerField& field) {
    if (json.is_null()) {
      field = {};
    } else if (json.is_integer()) {
      field = {field.names, json.integer, {}};
    } else if (json.is_string()) {
      field = {json.string, kNull, {}};
    } else if (json.is_object()) {
      JsonFields fields(json, origin_, fmt::format("{}/{}", path_, key), faults_);
      const auto names = fields.optional_string("field");
      const auto absent = fields.optional_integer("absent");
      field = {names.value_or(field.names), absent.value_or(kNull),
               fields.optional_string("derived").value_or("")};
      fields.finish();
    } else {
      fault(json, key, "expected a number, a field's name, null or an object");
    }
  }

  void read(const Json& json, std::string_view key, BoolField& field) {
    if (json.is_null()) {
      field = {};
    } else if (json.is_bool()) {
      field.absent = json.boolean;
    } else if (json.is_string()) {
      field = {json.string, false};
    } else if (json.is_object()) {
      JsonFields fields(json, origin_, fmt::format("{}/{}", path_, key), faults_);
      field.names = fields.optional_string("field").value_or("");
      field.absent = fields.optional_bool("absent").value_or(false);
      fields.finish();
    } else {
      fault(json, key, "expected true, false, a field's name, null or an object");
    }
  }

  void read(const Json& json, std::string_view key, ProbabilityField& field) {
    field = {json.is_string() ? json.string : std::string(), json.is_number() ? json.number : 0};
    if (!json.is_string() && !json.is_number() && !json.is_null()) {
      fault(json, key, "expected a field's name, a number or null");
    }
  }

  void read(const Json& json, std::string_view key, StringField& field) {
    if (json.is_string()) {
      field.absent = json.string;
    } else if (json.is_object()) {
      JsonFields fields(json, origin_, fmt::format("{}/{}", path_, key), faults_);
      field.names = fields.optional_string("field").value_or("");
      field.absent = fields.optional_string("absent").value_or("");
      fields.finish();
    } else {
      fault(json, key, "expected a string or an object");
    }
  }

  void read(const Json& json, std::string_view key, bool& value) {
    value = json.boolean;
    if (!json.is_bool()) fault(json, key, "expected true or false");
  }
  void read(const Json& json, std::string_view key, std::int64_t& value) {
    value = json.integer;
    if (!json.is_integer()) fault(json, key, "expected a whole number");
  }
  // Also a list of names.
  void read(const Json& json, std::string_view key, std::string& value) {
    value = json.string;
    for (const Json& item : json.items) value += (value.empty() ? "" : "|") + item.string;
    if (!json.is_string() && !json.is_array() && !json.is_null()) {
      fault(json, key, "expected a string or a list of strings");
    }
  }

  void read(const Json& json, std::string_view key, LayerPattern& pattern);
  void read(const Json& json, std::string_view key, std::vector<ExtraField>& extras);
  void read(const Json& json, std::string_view key, CodeStyle& style);
  void read(const Json& json, std::string_view key, std::vector<LayerWord>& types);
  void read(const Json& json, std::string_view key, std::vector<When>& when);
  void read(const Json& json, std::string_view key, std::vector<AssumedField>& assumed);

 private:
  std::string inside(std::string_view key) const { return fmt::format("{}/{}", path_, key); }

  const std::string& origin_;
  const std::string& path_;
  Diagnostics& faults_;
};

void Members::read(const Json& json, std::string_view key, LayerPattern& pattern) {
  pattern = {};
  if (json.is_null()) return;
  const std::string path = inside(key);
  Members inner(origin_, path, faults_);
  for (const auto& [name, value] : json.members) {
    bool known = false;
    for (const auto& [own, at] : pattern_numbers()) {
      if (own == name) inner.read(value, name, pattern.*at), known = true;
    }
    for (const auto& [own, at] : pattern_texts()) {
      if (own == name) inner.read(value, name, pattern.*at), known = true;
    }
    if (name == "counts") {
      inner.read(value, name, pattern.counts);
    } else if (name == "longer") {
      inner.read(value, name, pattern.longer);
    } else if (name == "one_based") {
      inner.read(value, name, pattern.one_based);
    } else if (name == "flag") {
      inner.read(value, name, pattern.flag);
    } else if (name == "cycle") {
      for (const Json& item : value.items) pattern.cycle.push_back(item.string);
    } else if (name == "words") {
      for (const auto& [theirs, ours] : value.members) {
        pattern.words.emplace_back(theirs, ours.string);
      }
    } else if (!known) {
      inner.fault(value, name, "is no member of a pattern");
    }
  }
}

void Members::read(const Json& json, std::string_view key, std::vector<ExtraField>& extras) {
  extras.clear();
  const std::string path = inside(key);
  for (const Json& item : json.items) {
    ExtraField extra;
    Members inner(origin_, path, faults_);
    for (const auto& [name, value] : item.members) {
      const auto size = [&](IntegerField& field) {
        field = value.is_string() ? IntegerField{{}, kNull, value.string}
                                  : IntegerField{{}, value.integer, {}};
      };
      if (name == "name") {
        inner.read(value, name, extra.name);
      } else if (name == "part") {
        inner.word(value, name, kPartWords, extra.part);
      } else if (name == "use") {
        inner.word(value, name, kUseWords, extra.use);
      } else if (name == "bias") {
        inner.read(value, name, extra.bias);
      } else if (name == "in") {
        size(extra.in);
      } else if (name == "out") {
        size(extra.out);
      } else {
        inner.fault(value, name, "is no member of a weight");
      }
    }
    extras.push_back(std::move(extra));
  }
}

void Members::read(const Json& json, std::string_view key, CodeStyle& style) {
  const std::string path = inside(key);
  Members inner(origin_, path, faults_);
  for (const auto& [name, value] : json.members) {
    bool known = name == "gain" || name == "gate";
    if (name == "gain") inner.word(value, name, kGainWords, style.gain);
    if (name == "gate") inner.word(value, name, kGateWords, style.gate);
    for (const auto& [own, at] : style_members()) {
      if (own == name) inner.read(value, name, style.*at), known = true;
    }
    if (!known) inner.fault(value, name, "is no member of a style");
  }
}

// Words that are there already get these members instead.
void Members::read(const Json& json, std::string_view key, std::vector<LayerWord>& types) {
  if (!json.is_object()) return fault(json, key, "expected an object");
  for (const auto& [word, members] : json.members) {
    const auto at = std::find_if(types.begin(), types.end(),
                                 [&](const LayerWord& type) { return type.word == word; });
    if (at == types.end()) {
      types.push_back({word, members});
    } else {
      at->members = members;
    }
  }
}

void Members::read(const Json& json, std::string_view key, std::vector<When>& when) {
  when.clear();
  for (const Json& item : json.items) {
    const Json* conditions = item.find("if");
    const Json* then = item.find("then");
    if (conditions == nullptr || then == nullptr || item.members.size() != 2) {
      return fault(item, key, "expected objects of 'if' and 'then'");
    }
    When one{.conditions = {}, .then = *then};
    for (const auto& [names, wanted] : conditions->members) {
      Condition condition{.names = names, .absent = {}, .is = wanted};
      if (wanted.is_object()) {
        const Json* absent = wanted.find("absent");
        const Json* is = wanted.find("is");
        const Json* differs = wanted.find("not");
        condition.absent = absent == nullptr ? Json{} : *absent;
        condition.negated = differs != nullptr;
        condition.is = is != nullptr ? *is : differs != nullptr ? *differs : Json{};
      }
      one.conditions.push_back(std::move(condition));
    }
    when.push_back(std::move(one));
  }
}

void Members::read(const Json& json, std::string_view key, std::vector<AssumedField>& assumed) {
  assumed.clear();
  for (const Json& item : json.items) {
    JsonFields fields(item, origin_, inside(key), faults_);
    AssumedField one{.names = fields.string("field"),
                     .assumed = fields.string("as"),
                     .why = fields.string("why")};
    if (fields.optional_bool("fault").value_or(false)) {
      one.otherwise = AssumedField::Otherwise::Fault;
    }
    fields.finish();
    assumed.push_back(std::move(one));
  }
}

template <class Table>
bool read_among(Members& members, Family& family, const Table& table, std::string_view key,
                const Json& value) {
  for (const auto& [name, at] : table) {
    if (name != key) continue;
    members.read(value, key, family.*at);
    return true;
  }
  return false;
}

bool read_norm(Members& members, Family& family, std::string_view key, const Json& value) {
  for (const auto& [name, at] : norm_members()) {
    if (name != key) continue;
    members.word(value, key, kNormWords, family.*at);
    return true;
  }
  return false;
}

bool read_one(Members& members, Family& family, std::string_view key, const Json& value) {
  if (key == "activation") return members.read(value, key, family.activation), true;
  if (key == "dropout_hidden") return members.read(value, key, family.dropout_hidden), true;
  if (key == "dropout_attention") return members.read(value, key, family.dropout_attention), true;
  if (key == "positions") return members.word(value, key, kPositionWords, family.positions), true;
  if (key == "norms") return members.word(value, key, kPlanWords, family.norm_plan), true;
  if (key == "attention") return members.word(value, key, kAttentionWords, family.attention), true;
  if (key == "feed_forward") {
    return members.word(value, key, kFeedForwardWords, family.feed_forward), true;
  }
  if (key == "scores") return members.word(value, key, kScoreWords, family.scores), true;
  if (key == "score_scale") {
    family.score_scale = value.number;
    return true;
  }
  if (key == "types") return members.read(value, key, family.types), true;
  if (key == "when") return members.read(value, key, family.when), true;
  if (key == "assumed") return members.read(value, key, family.assumed), true;
  if (key == "ignored") return members.read(value, key, family.ignored), true;
  if (key == "also_ignored") {
    std::string more;
    members.read(value, key, more);
    family.ignored += (family.ignored.empty() ? "" : "|") + more;
    return true;
  }
  if (key == "style") return members.read(value, key, family.style), true;
  if (key == "mtp") {
    family.mtp_members = value;
    return true;
  }
  return read_norm(members, family, key, value);
}

std::vector<std::string> member_names() {
  std::vector<std::string> names = {"activation", "positions",    "norms",
                                    "attention",  "feed_forward", "types",
                                    "when",       "assumed",      "ignored"};
  for (const auto& [name, at] : integer_members()) names.emplace_back(name);
  for (const auto& [name, at] : switch_members()) names.emplace_back(name);
  for (const auto& [name, at] : flag_members()) names.emplace_back(name);
  for (const auto& [name, at] : norm_members()) names.emplace_back(name);
  return names;
}

}  // namespace

void apply_members(Family& family, const Json& json, const std::string& origin,
                   const std::string& path, Diagnostics& faults) {
  Members members(origin, path, faults);
  if (!json.is_object()) return members.fault(json, "", "expected an object of a family's members");
  for (const auto& [key, value] : json.members) {
    if (key == "like" || key == "same_as" || key == "about" || key == "source") continue;
    const bool known = read_among(members, family, integer_members(), key, value) ||
                       read_among(members, family, switch_members(), key, value) ||
                       read_among(members, family, flag_members(), key, value) ||
                       read_among(members, family, number_members(), key, value) ||
                       read_among(members, family, text_members(), key, value) ||
                       read_among(members, family, pattern_members(), key, value) ||
                       read_among(members, family, extra_members(), key, value) ||
                       read_one(members, family, key, value);
    if (!known) {
      members.fault(value, key, "is no member of a family", did_you_mean(key, member_names()));
    }
  }
}

}  // namespace trainwright::detail
