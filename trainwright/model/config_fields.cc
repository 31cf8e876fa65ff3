#include "trainwright/model/config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"
#include "trainwright/model/formula.h"
#include "trainwright/model/layer_pattern.h"

namespace trainwright::detail {
namespace {

// "attn_config.kv_n_heads" -> "attn_config/kv_n_heads", as places are written.
std::string as_path(std::string_view name) {
  std::string path(name);
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

std::string_view first_of(std::string_view names) { return names.substr(0, names.find('|')); }

// The value as a person would type it, for comparing with an assumption and for messages.
std::string shown(const Json& value) {
  switch (value.kind) {
    case Json::Kind::Null: return "null";
    case Json::Kind::Bool: return value.boolean ? "true" : "false";
    case Json::Kind::Integer: return fmt::format("{}", value.integer);
    case Json::Kind::Number: return fmt::format("{}", value.number);
    case Json::Kind::String: return value.string.substr(0, 60);
    case Json::Kind::Array: {
      std::string text;
      for (const Json& item : value.items) {
        if (text.size() > 60) break;
        text += (text.empty() ? "" : ",") + shown(item);
      }
      return "[" + text + "]";
    }
    case Json::Kind::Object: return "an object";
  }
  return {};
}

std::string range_hint(IntegerRange range) {
  if (range.least == INT64_MIN) return fmt::format("at most {}", range.most);
  if (range.most == INT64_MAX) return fmt::format("at least {}", range.least);
  return fmt::format("between {} and {}", range.least, range.most);
}

}  // namespace

ConfigFields::ConfigFields(const Json& config, std::string origin, std::string path,
                           Diagnostics& diagnostics)
    : config_(config),
      origin_(std::move(origin)),
      path_(std::move(path)),
      diagnostics_(diagnostics) {}

std::string ConfigFields::place(std::string_view name, const Json& at) const {
  return json_place(origin_, at, path_ + "/" + as_path(name));
}

const Json* ConfigFields::find_one(std::string_view name) {
  known_.emplace(name);
  const Json* at = &config_;
  std::size_t begin = 0;
  while (true) {
    const std::size_t dot = name.find('.', begin);
    at = at->find(name.substr(begin, dot - begin));
    if (at == nullptr || dot == std::string_view::npos) return at;
    containers_.emplace(name.substr(0, dot));
    if (!at->is_object()) return nullptr;
    begin = dot + 1;
  }
}

// "per_layer_config": {"05": {"head_dim": 512}}, as transformers 5.23 writes layers of other
// shapes.
const Json* ConfigFields::find_of_layer(std::string_view names) {
  const Json* layers = find_one("per_layer_config");
  if (layers == nullptr || !layers->is_object() || layers->members.empty()) return nullptr;
  has_read_list_ = true;
  for (const auto& [layer, own] : layers->members) {
    if (!layer_ || parse_integer(layer) != static_cast<std::int64_t>(*layer_)) continue;
    for (const std::string_view name : split(names, '|')) {
      if (const Json* at = own.find(name)) return at;
    }
  }
  return nullptr;
}

const Json* ConfigFields::find(std::string_view names) {
  if (names.empty()) return nullptr;
  if (const Json* own = find_of_layer(names)) return own;
  const Json* found = nullptr;
  std::string_view found_as;
  for (std::string_view name : split(names, '|')) {
    const Json* value = find_one(name);
    if (value == nullptr || (value->is_null() && found != nullptr)) continue;
    if (found == nullptr || found->is_null()) {
      found = value;
      found_as = name;
    } else if (shown(*found) != shown(*value)) {
      report(*value, {place(name, *value),
                      fmt::format("is {}, but '{}', another name of the same field, is {}",
                                  shown(*value), found_as, shown(*found)),
                      "keep one of them"});
    }
  }
  return found;
}

ConfigFields::Spot ConfigFields::spot_of(std::string_view names) {
  if (names.empty()) return {&config_, json_place(origin_, config_, path_)};
  for (std::string_view name : split(names, '|')) {
    if (const Json* at = find_one(name)) return {at, place(name, *at)};
  }
  return {&config_, place(first_of(names), config_)};
}

void ConfigFields::report(const Json& at, Diagnostic diagnostic) {
  // A field may be read for several purposes; one fault is enough.
  if (std::find(diagnostics_.begin(), diagnostics_.end(), diagnostic) != diagnostics_.end()) return;
  const auto before = std::upper_bound(lines_.begin(), lines_.end(), at.line) - lines_.begin();
  lines_.insert(lines_.begin() + before, at.line);
  diagnostics_.insert(diagnostics_.begin() + before, std::move(diagnostic));
}

void ConfigFields::fault(std::string_view names, std::string what, std::string hint) {
  const Spot spot = spot_of(names);
  report(*spot.at, {spot.where, std::move(what), std::move(hint)});
}

void ConfigFields::fault_unless_reported(std::string_view names, std::string what) {
  const Spot spot = spot_of(names);
  for (const Diagnostic& diagnostic : diagnostics_) {
    if (diagnostic.where == spot.where) return;
  }
  report(*spot.at, {spot.where, std::move(what), {}});
}

std::optional<std::int64_t> ConfigFields::integer(const IntegerField& field, IntegerRange range) {
  const Json* value = find(field.names);
  if (value == nullptr) {
    return field.absent == kNull ? derived(field, range) : std::optional(field.absent);
  }
  if (value->is_array() && !value->items.empty()) {
    has_read_list_ = true;
    value = &value->items[std::min(layer_.value_or(0), value->items.size() - 1)];
  }
  if (value->is_null()) return derived(field, range);
  // 1024.0, as Python writes what was divided.
  if (value->kind == Json::Kind::Number && std::floor(value->number) == value->number &&
      std::abs(value->number) < 1e15) {
    const auto whole = static_cast<std::int64_t>(value->number);
    if (whole >= range.least && whole <= range.most) return whole;
  }
  if (!value->is_integer()) {
    fault(field.names, fmt::format("expected a whole number, found {}", name_of(value->kind)));
    return std::nullopt;
  }
  if (value->integer < range.least || value->integer > range.most) {
    fault(field.names, fmt::format("{} is out of range", value->integer), range_hint(range));
    return std::nullopt;
  }
  return value->integer;
}

std::optional<std::int64_t> ConfigFields::derived(const IntegerField& field, IntegerRange range) {
  if (field.derived.empty()) return std::nullopt;
  const NumberOf number_of = [&](std::string_view name) -> std::optional<std::int64_t> {
    for (const auto& [known, value] : remembered_) {
      if (known == name) return value;
    }
    const Json* value = find_one(name);
    if (value == nullptr || !value->is_integer()) return std::nullopt;
    return value->integer;
  };
  const auto value = evaluate(field.derived, number_of);
  if (!value) return std::nullopt;
  if (*value < range.least || *value > range.most) {
    fault(field.names, fmt::format("{} = {} is out of range", field.derived, *value),
          range_hint(range));
    return std::nullopt;
  }
  return value;
}

void ConfigFields::remember(std::string_view name, std::int64_t value) {
  for (auto& [known, at] : remembered_) {
    if (known == name) {
      at = value;
      return;
    }
  }
  remembered_.emplace_back(name, value);
}

bool ConfigFields::holds(const Condition& condition) {
  const Json* value = find(condition.names);
  const Json& at = value == nullptr ? condition.absent : *value;
  return (shown(at) == shown(condition.is)) != condition.negated;
}

bool ConfigFields::boolean(const BoolField& field) {
  const Json* value = find(field.names);
  if (value == nullptr) return field.absent;
  if (value->is_null()) return false;
  if (!value->is_bool()) {
    fault(field.names, fmt::format("expected true or false, found {}", name_of(value->kind)));
    return field.absent;
  }
  return value->boolean;
}

std::string ConfigFields::string(const StringField& field) {
  const Json* value = find(field.names);
  if (value == nullptr || value->is_null()) return std::string(field.absent);
  if (!value->is_string()) {
    fault(field.names, fmt::format("expected a string, found {}", name_of(value->kind)));
    return std::string(field.absent);
  }
  if (const std::string hidden = hidden_fault(value->string); !hidden.empty()) {
    fault(field.names, "the text " + hidden, std::string(kHiddenHint));
    return std::string(field.absent);
  }
  return value->string;
}

double ConfigFields::probability(const ProbabilityField& field) {
  const Json* value = find(field.names);
  if (value == nullptr) return field.absent;
  if (value->is_null()) return 0;
  if (!value->is_number()) {
    fault(field.names, fmt::format("expected a number, found {}", name_of(value->kind)));
    return 0;
  }
  if (!(value->number >= 0 && value->number <= 1)) {
    fault(field.names, fmt::format("{} is not a probability", shown(*value)), "between 0 and 1");
    return 0;
  }
  return value->number;
}

bool ConfigFields::is_number(std::string_view names) {
  const Json* value = find(names);
  return value != nullptr && value->is_number();
}

bool ConfigFields::is_list(std::string_view names) {
  const Json* value = find(names);
  return value != nullptr && value->is_array();
}

bool ConfigFields::is_set(std::string_view names) {
  const Json* value = find(names);
  return value != nullptr && !value->is_null();
}

std::optional<ConfigFields::Frequency> ConfigFields::frequency(std::string_view name,
                                                               std::int64_t layers) {
  if (!is_set(name)) return std::nullopt;
  const Json& value = *find(name);
  const auto most = static_cast<std::size_t>(layers);
  std::optional<std::int64_t> number;
  std::optional<std::vector<std::int64_t>> listed;
  if (value.is_integer()) number = value.integer;
  if (value.is_string()) {
    number = parse_integer(value.string);
    listed = parse_layer_pattern(value.string, most);
  }
  if (value.is_array()) listed = integers(name, value.items.size());
  if (number && *number >= 1) return Frequency{*number, {}};
  if (listed && listed->size() == most &&
      std::all_of(listed->begin(), listed->end(),
                  [](std::int64_t layer) { return layer == 0 || layer == 1; })) {
    return Frequency{0, *std::move(listed)};
  }
  fault(name, fmt::format("expected a number or 0 and 1 for each of {} layers", layers),
        "like 2, [1, 0, 1, 0] or \"[0]*1+[1]*3\"");
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> ConfigFields::integers(std::string_view name,
                                                                std::size_t most) {
  const Json* value = find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_array() || value->items.size() > most ||
      !std::all_of(value->items.begin(), value->items.end(),
                   [](const Json& item) { return item.is_integer(); })) {
    fault(name, fmt::format("expected a list of at most {} whole numbers", most));
    return std::nullopt;
  }
  std::vector<std::int64_t> result;
  for (const Json& item : value->items) result.push_back(item.integer);
  return result;
}

std::optional<std::vector<std::int64_t>> ConfigFields::pair(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || !value->is_string()) return integers(name, 2);
  std::string_view text = trim(value->string);
  if (text.starts_with('(') && text.ends_with(')')) text = text.substr(1, text.size() - 2);
  std::vector<std::int64_t> result;
  for (const std::string_view part : split(text, ',')) {
    const auto number = parse_integer(trim(part));
    if (!number || result.size() == 2) {
      fault(name, "expected two whole numbers", "like 127,0");
      return std::nullopt;
    }
    result.push_back(*number);
  }
  return result;
}

std::optional<std::vector<std::string>> ConfigFields::words(std::string_view name,
                                                            std::size_t most) {
  const Json* value = find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_array() || value->items.size() > most ||
      !std::all_of(value->items.begin(), value->items.end(),
                   [](const Json& item) { return item.is_string() || item.is_integer(); })) {
    fault(name, fmt::format("expected a list of at most {} words or whole numbers", most));
    return std::nullopt;
  }
  std::vector<std::string> result;
  for (const Json& item : value->items) {
    result.push_back(item.is_string() ? item.string : std::to_string(item.integer));
  }
  return result;
}

std::optional<std::string> ConfigFields::assumption(const AssumedField& field) {
  for (std::string_view name : split(field.names, '|')) {
    const Json* value = find_one(name);
    if (value == nullptr || value->is_null()) continue;
    const auto allowed = split(field.assumed, '|');
    if (std::find(allowed.begin(), allowed.end(), shown(*value)) != allowed.end()) continue;
    if (field.otherwise == AssumedField::Otherwise::Fault) {
      fault(name, fmt::format("is {}: {}", shown(*value), field.why),
            fmt::format("only {} is supported", field.assumed));
      return std::nullopt;
    }
    return fmt::format("{} is {}, but is taken as {}: {}", name, shown(*value), field.assumed,
                       field.why);
  }
  return std::nullopt;
}

void ConfigFields::ignore(std::string_view names) {
  for (std::string_view name : split(names, '|')) find_one(name);
}

void ConfigFields::unknown(const std::string& name, const Json& value, const Family& family) {
  if (++unknown_ > kMostUnknown) return;
  const std::vector<std::string> own = field_names(family);
  std::vector<std::string> readers;
  if (families_.empty()) families_ = all_families(data_directory_).value_or(std::vector<Family>());
  for (const Family& other : families_) {
    const auto names = field_names(other);
    if (std::binary_search(names.begin(), names.end(), name)) readers.push_back(other.model_type);
  }
  std::string hint = did_you_mean(name, own);
  if (!readers.empty()) {
    readers.resize(std::min<std::size_t>(readers.size(), 4));
    hint = fmt::format("it is read by {}; does model_type fit?", enumerate(readers));
  } else if (hint.empty()) {
    hint = "it may change the shape; remove it if it does not";
  }
  report(value,
         {place(name, value), fmt::format("{} has no field '{}'", family.model_type, name), hint});
}

void ConfigFields::finish_object(const Json& object, const std::string& prefix,
                                 const Family& family) {
  for (const auto& [key, value] : object.members) {
    const std::string name = prefix + key;
    if (known_.contains(name) || is_ignored_field(key) || value.is_null()) continue;
    if (containers_.contains(name)) {
      if (value.is_object()) {
        finish_object(value, name + ".", family);
      } else {
        fault(name, fmt::format("expected an object, found {}", name_of(value.kind)));
      }
      continue;
    }
    unknown(name, value, family);
  }
}

void ConfigFields::finish(const Family& family, const std::string& data_directory) {
  data_directory_ = data_directory;
  finish_object(config_, "", family);
  if (unknown_ <= kMostUnknown) return;
  const auto more = static_cast<std::int64_t>(unknown_ - kMostUnknown);
  diagnostics_.push_back(
      {json_place(origin_, config_, path_),
       fmt::format("has {} more fields that {} has not", with_thousands(more), family.model_type),
       ""});
}

}  // namespace trainwright::detail
