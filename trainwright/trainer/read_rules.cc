// The rules of a file: expressions checked when read, texts checked for their {variables}.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/trainer/reading.h"

namespace trainwright {
namespace {

constexpr std::size_t kMostRules = 500;

Expression expression_in(JsonFields& fields, std::string_view key, const std::string& text,
                         Diagnostics& faults) {
  if (text.empty()) return {};
  auto parsed = parse_expression(text, fields.place(key));
  if (parsed) return *std::move(parsed);
  for (auto& fault : parsed.error().diagnostics) faults.push_back(std::move(fault));
  return {};
}

// Every {name} of a reason or hint must be a variable, or explain could not fill it in.
std::string text_in(JsonFields& fields, std::string_view key) {
  std::string text = fields.string(key);
  for (std::size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open)) {
    const std::size_t close = text.find('}', open);
    if (close == std::string::npos) {
      fields.fault(key, "an opening brace without a closing one");
      break;
    }
    const std::string name = text.substr(open + 1, close - open - 1);
    if (!variable_named(name)) {
      fields.fault(key, fmt::format("'{{{}}}' is not a variable", name),
                   "braces hold the name of a variable, as in {tp}");
    }
    open = close;
  }
  return text;
}

std::optional<Version> version_in(JsonFields& fields, std::string_view key) {
  const auto text = fields.optional_string(key);
  if (!text) return std::nullopt;
  const auto version = parse_version(*text);
  if (!version) fields.fault(key, fmt::format("'{}' is not a version", *text), "for instance 0.12");
  return version;
}

Severity severity_in(JsonFields& fields) {
  const auto text = fields.optional_string("severity");
  if (!text || *text == "forbidden") return Severity::Forbidden;
  if (*text != "advice") {
    fields.fault("severity", fmt::format("unknown severity '{}'", *text), "forbidden or advice");
  }
  return Severity::Advice;
}

RuleEntry read_rule(const Json& json, const std::string& origin, const std::string& path,
                    Diagnostics& faults) {
  RuleEntry entry;
  JsonFields fields(json, origin, path, faults);
  if (!json.is_object()) return entry;
  Rule& rule = entry.rule;
  rule.id = fields.string("id");
  rule.when = expression_in(fields, "when", fields.optional_string("when").value_or(""), faults);
  const std::string require = fields.string("require");
  rule.require = expression_in(fields, "require", require, faults);
  if (fields.raw("require") != nullptr && trim(require).empty()) {
    fields.fault("require", "a rule requires something");
  }
  rule.severity = severity_in(fields);
  rule.reason = text_in(fields, "reason");
  rule.hint = text_in(fields, "hint");
  rule.source = fields.string("source");
  rule.since = version_in(fields, "since");
  rule.until = version_in(fields, "until");
  entry.trainers = fields.optional_strings("trainers");
  fields.finish();
  return entry;
}

}  // namespace

std::vector<RuleEntry> read_rules(JsonFields& fields, Diagnostics& faults) {
  std::vector<RuleEntry> entries;
  const Json* array = fields.raw("rules");
  if (array == nullptr) return entries;
  if (!array->is_array() || array->items.size() > kMostRules) {
    fields.fault("rules", fmt::format("expected an array of at most {} rules", kMostRules));
    return entries;
  }
  std::vector<std::string> seen;
  for (std::size_t i = 0; i < array->items.size(); ++i) {
    const std::string path = fmt::format("{}/{}", fields.path("rules"), i);
    auto entry = read_rule(array->items[i], fields.origin(), path, faults);
    if (std::find(seen.begin(), seen.end(), entry.rule.id) != seen.end()) {
      faults.push_back({json_place(fields.origin(), array->items[i], path),
                        fmt::format("a second rule '{}'", entry.rule.id), "give it another id"});
    }
    seen.push_back(entry.rule.id);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace trainwright
