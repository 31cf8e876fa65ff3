#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/json.h"
#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"

namespace trainwright {

std::string json_place(std::string_view origin, const Json& at, std::string_view path) {
  std::string place(origin);
  if (at.line > 0) place += fmt::format(":{}", at.line);
  if (!path.empty()) place += fmt::format(" {}", path);
  return place;
}

namespace {

// A field is looked for among all; more than the largest object of ours has by far.
constexpr std::size_t kMostFields = 10'000;

const Json& readable(const Json& object) {
  static const Json none = Json::object();
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): no caller has a temporary
  return object.members.size() > kMostFields ? none : object;
}

}  // namespace

JsonFields::JsonFields(const Json& object, std::string origin, std::string path,
                       Diagnostics& diagnostics)
    : object_(readable(object)),
      origin_(std::move(origin)),
      path_(std::move(path)),
      diagnostics_(diagnostics) {
  if (&object_ != &object) {
    diagnostics_.push_back({json_place(origin_, object, path_),
                            fmt::format("has more than {} fields", with_thousands(kMostFields)),
                            {}});
  } else if (!object.is_object()) {
    fault("", fmt::format("expected an object, found {}", name_of(object.kind)));
  }
}

std::string JsonFields::path(std::string_view key) const {
  return key.empty() ? path_ : fmt::format("{}/{}", path_, key);
}

std::string JsonFields::place(std::string_view key) const {
  const Json* member = object_.find(key);
  return json_place(origin_, member == nullptr ? object_ : *member, path(key));
}

void JsonFields::fault(std::string_view key, std::string what, std::string hint) {
  diagnostics_.push_back({place(key), std::move(what), std::move(hint)});
}

void JsonFields::ignore(std::string_view key) {
  if (object_.members.empty()) return;
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
}

const Json* JsonFields::raw(std::string_view key) {
  ignore(key);
  const Json* member = object_.find(key);
  return member == nullptr || member->is_null() ? nullptr : member;
}

const Json* JsonFields::required(std::string_view key) {
  const Json* member = raw(key);
  if (member == nullptr) {
    // A misspelt neighbour is the likeliest cause.
    fault("", fmt::format("the field '{}' is missing", key),
          did_you_mean(key, unknown(), "add it"));
  }
  return member;
}

const Json* JsonFields::wanted(std::string_view key, bool matches(const Json&),
                               std::string_view kind) {
  const Json* member = raw(key);
  if (member == nullptr) return nullptr;
  if (matches(*member)) return member;
  fault(key, fmt::format("expected {}, found {}", kind, name_of(member->kind)));
  return nullptr;
}

std::optional<std::int64_t> JsonFields::optional_integer(std::string_view key, IntegerRange range) {
  const Json* member =
      wanted(key, [](const Json& json) { return json.is_integer(); }, "a whole number");
  if (member == nullptr) return std::nullopt;
  if (member->integer < range.least || member->integer > range.most) {
    fault(key, fmt::format("{} is out of range", member->integer),
          range.most == INT64_MAX ? fmt::format("at least {}", range.least)
                                  : fmt::format("between {} and {}", range.least, range.most));
    return std::nullopt;
  }
  return member->integer;
}

std::optional<double> JsonFields::optional_number(std::string_view key) {
  const Json* member = wanted(key, [](const Json& json) { return json.is_number(); }, "a number");
  return member == nullptr ? std::nullopt : std::optional(member->number);
}

std::optional<bool> JsonFields::optional_bool(std::string_view key) {
  const Json* member =
      wanted(key, [](const Json& json) { return json.is_bool(); }, "true or false");
  return member == nullptr ? std::nullopt : std::optional(member->boolean);
}

bool JsonFields::is_printable(std::string_view key, std::string_view text) {
  const std::string hidden = hidden_fault(text);
  if (!hidden.empty()) fault(key, "the text " + hidden, std::string(kHiddenHint));
  return hidden.empty();
}

std::optional<std::string> JsonFields::optional_string(std::string_view key) {
  auto text = optional_text(key);
  return text && is_printable(key, *text) ? std::move(text) : std::nullopt;
}

std::optional<std::string> JsonFields::optional_text(std::string_view key) {
  const Json* member = wanted(key, [](const Json& json) { return json.is_string(); }, "a string");
  return member == nullptr ? std::nullopt : std::optional(member->string);
}

std::vector<std::string> JsonFields::optional_strings(std::string_view key) {
  std::vector<std::string> strings;
  const Json* member = wanted(key, [](const Json& json) { return json.is_array(); }, "an array");
  if (member == nullptr) return strings;
  for (const Json& item : member->items) {
    if (!item.is_string()) {
      fault(key, fmt::format("expected strings only, found {}", name_of(item.kind)));
    } else if (is_printable(key, item.string)) {
      strings.push_back(item.string);
    }
  }
  return strings;
}

std::int64_t JsonFields::integer(std::string_view key, IntegerRange range) {
  return required(key) == nullptr ? 0 : optional_integer(key, range).value_or(0);
}
double JsonFields::number(std::string_view key) {
  return required(key) == nullptr ? 0 : optional_number(key).value_or(0);
}
bool JsonFields::boolean(std::string_view key) {
  return required(key) == nullptr ? false : optional_bool(key).value_or(false);
}
std::string JsonFields::string(std::string_view key) {
  return required(key) == nullptr ? "" : optional_string(key).value_or("");
}
const Json* JsonFields::object(std::string_view key) {
  if (required(key) == nullptr) return nullptr;
  return wanted(key, [](const Json& json) { return json.is_object(); }, "an object");
}
const Json* JsonFields::array(std::string_view key) {
  if (required(key) == nullptr) return nullptr;
  return wanted(key, [](const Json& json) { return json.is_array(); }, "an array");
}

std::vector<std::string> JsonFields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.members) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) names.push_back(name);
  }
  return names;
}

void JsonFields::finish() {
  const std::vector<std::string> names = unknown();
  for (std::size_t i = 0; i < std::min(names.size(), kMostUnknown); ++i) {
    fault(names[i], fmt::format("unknown field '{}'", names[i]),
          did_you_mean(names[i], known_, fmt::format("known fields are {}", join(known_, ", "))));
  }
  if (names.size() > kMostUnknown) {
    const auto more = static_cast<std::int64_t>(names.size() - kMostUnknown);
    fault("", fmt::format("has {} more unknown fields", with_thousands(more)));
  }
}

}  // namespace trainwright
