#include "trainwright/trainer/rule.h"

#include <fmt/format.h>

#include "trainwright/base/text.h"

namespace trainwright {

std::optional<Version> parse_version(std::string_view text) {
  constexpr std::int64_t kLargestPart = 1'000'000;
  const auto parts = split(text, '.');
  if (parts.size() > 3) return std::nullopt;
  int numbers[3] = {0, 0, 0};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto number = parse_integer(parts[i]);
    if (!number || *number < 0 || *number > kLargestPart) return std::nullopt;
    numbers[i] = static_cast<int>(*number);
  }
  return Version{numbers[0], numbers[1], numbers[2]};
}

std::string to_text(Version version) {
  if (version.patch_part == 0) {
    return fmt::format("{}.{}", version.major_part, version.minor_part);
  }
  return fmt::format("{}.{}.{}", version.major_part, version.minor_part, version.patch_part);
}

Verdict evaluate(const Rule& rule, const Facts& facts) {
  const auto applies = evaluate(rule.when, facts);
  if (!applies) return Verdict::Unknown;
  if (*applies == 0) return Verdict::NotApplicable;
  const auto holds = evaluate(rule.require, facts);
  if (!holds) return Verdict::Unknown;
  return *holds != 0 ? Verdict::Holds : Verdict::Violated;
}

namespace {

std::string value_text(Variable variable, const Facts& facts) {
  const auto value = facts.value(variable);
  if (!value) return "?";
  const auto kinds = symbols(variable);
  const bool is_kind = *value >= 0 && *value < static_cast<std::int64_t>(kinds.size());
  return is_kind ? std::string(kinds[static_cast<std::size_t>(*value)]) : fmt::to_string(*value);
}

}  // namespace

std::string explain(std::string_view text, const Facts& facts) {
  std::string filled;
  while (!text.empty()) {
    const auto open = text.find('{');
    const auto close = text.find('}', open);
    if (close == std::string_view::npos) break;
    filled += text.substr(0, open);
    const auto name = text.substr(open + 1, close - open - 1);
    const auto variable = variable_named(name);
    filled += variable ? value_text(*variable, facts) : fmt::format("{{{}}}", name);
    text.remove_prefix(close + 1);
  }
  filled += text;
  return filled;
}

}  // namespace trainwright
