// Conditions on columns, and texts with columns in them.
#include "trainwright/measured/fill.h"

#include <algorithm>

#include "trainwright/base/text.h"

namespace trainwright::detail {
namespace {

// "vocab + 1" of the columns; empty where the column is.
std::string worked_out(std::string_view sum, const MeasuredRun& run) {
  const auto parts = split(sum, ' ');
  std::string cell = column_text(run, parts.front()).value_or("");
  if (parts.size() != 3 || cell.empty()) return cell;
  const auto left = parse_integer(cell), right = parse_integer(parts[2]);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (!left || !right || *left > kMost || *right > kMost || *right < 1) return {};
  switch (parts[1].front()) {
    case '+': return std::to_string(*left + *right);
    case '-': return std::to_string(*left - *right);
    case '*': return *left > kMost / *right ? "" : std::to_string(*left * *right);
    case '/': return std::to_string(*left / *right);
    default: return {};
  }
}

// What stands between braces.
struct Hole {
  std::string value;
  bool optional = false;
};
Hole hole_of(std::string_view text, const MeasuredRun& run, std::string& missing) {
  const bool optional = text.ends_with('?');
  if (optional) text.remove_suffix(1);
  const std::size_t bar = text.find('|');
  Hole hole{worked_out(text.substr(0, bar), run), optional};
  if (!hole.value.empty() || optional) return hole;
  if (bar != std::string_view::npos) {
    // A value, or another column.
    const std::string_view other = text.substr(bar + 1);
    hole.value = column_text(run, other).value_or(std::string(other));
  } else if (missing.empty()) {
    missing = text.substr(0, text.find(' '));
  }
  return hole;
}

}  // namespace

bool matches(std::string_view cell, std::string_view pattern) {
  if (pattern.starts_with('!')) return !matches(cell, pattern.substr(1));
  if (pattern.starts_with('<') || pattern.starts_with('>')) {
    const auto number = parse_number(cell), bound = parse_number(pattern.substr(1));
    if (!number || !bound) return false;
    return pattern.front() == '<' ? *number < *bound : *number > *bound;
  }
  const bool any_before = pattern.starts_with('*');
  const bool any_after = pattern.size() > 1 && pattern.ends_with('*');
  if (any_before) pattern.remove_prefix(1);
  if (any_after) pattern.remove_suffix(1);
  if (any_before && any_after) return cell.find(pattern) != std::string_view::npos;
  if (any_before) return cell.ends_with(pattern);
  if (any_after) return cell.starts_with(pattern);
  return cell == pattern;
}

bool holds(const SourceRule& rule, const MeasuredRun& run, Learned learned) {
  if (rule.only && *rule.only != learned) return false;
  for (const Condition& condition : rule.when) {
    const std::string cell = column_text(run, condition.column).value_or("");
    bool any = false;
    for (const std::string& pattern : condition.patterns) any |= matches(cell, pattern);
    if (!any) return false;
  }
  return true;
}

void lay_over(Json& base, const Json& top) {
  if (!base.is_object() || !top.is_object()) {
    base = top;
    return;
  }
  for (const auto& [key, value] : top.members) {
    JsonMember* known = nullptr;
    for (JsonMember& member : base.members) {
      if (member.key == key) known = &member;
    }
    if (known == nullptr) {
      base.add(key, value);
    } else if (known->value.is_array() && value.is_array()) {
      for (const Json& item : value.items) known->value.push(item);
    } else {
      lay_over(known->value, value);
    }
  }
}

std::string filled(std::string_view text, const MeasuredRun& run, std::string& missing) {
  std::string done;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    const std::size_t close = text.find('}', std::min(open, text.size()));
    if (close == std::string_view::npos) break;
    done += text.substr(0, open);
    done += hole_of(text.substr(open + 1, close - open - 1), run, missing).value;
    text.remove_prefix(close + 1);
  }
  return done + std::string(text);
}

Json filled(const Json& json, const MeasuredRun& run, std::string& missing) {
  Json done = json;
  if (json.is_string()) {
    const std::string& text = json.string;
    const bool whole = text.starts_with('{') && text.find('}') + 1 == text.size();
    if (!whole) return Json::of(filled(text, run, missing));
    const Hole hole = hole_of(std::string_view(text).substr(1, text.size() - 2), run, missing);
    if (hole.value.empty()) return {};
    if (const auto number = parse_integer(hole.value)) return Json::of(*number);
    if (hole.value == "True" || hole.value == "False") return Json::of(hole.value == "True");
    return Json::of(hole.value);
  }
  for (Json& item : done.items) item = filled(item, run, missing);
  for (JsonMember& member : done.members) member.value = filled(member.value, run, missing);
  std::erase_if(done.members, [](const JsonMember& member) { return member.value.is_null(); });
  return done;
}

}  // namespace trainwright::detail
