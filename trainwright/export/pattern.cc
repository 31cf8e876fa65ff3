#include "trainwright/export/pattern.h"

#include <algorithm>

#include "trainwright/base/text.h"

namespace trainwright {

bool is_environment(const Setting& setting) {
  return std::all_of(setting.key.begin(), setting.key.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

namespace detail {

std::vector<Setting> parse_settings(std::string_view text) {
  std::vector<Setting> settings;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    const bool option = word.starts_with("--");
    if (!option && !settings.empty() && settings.back().key.starts_with("--")) {
      settings.back().values.emplace_back(word);
      continue;
    }
    const std::size_t equals = option ? std::string_view::npos : word.find('=');
    Setting setting{.key = std::string(word.substr(0, equals)), .values = {}, .of = {}, .why = {}};
    if (equals != std::string_view::npos) setting.values.emplace_back(word.substr(equals + 1));
    settings.push_back(std::move(setting));
  }
  return settings;
}

namespace {

// A choice may be the last part of a value only: a|b.
std::optional<std::string> chosen(std::string_view value, const Filling& filling) {
  const auto words = split(value, '|');
  if (words.size() == 1) return std::string(value);
  if (!filling.place || *filling.place >= words.size()) return std::nullopt;
  return std::string(words[*filling.place]);
}

std::optional<std::string> scalar(std::string_view value, const Filling& filling) {
  const auto given = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
  };
  if (value == "N") return given(filling.number);
  if (value == "\"N\"") return '"' + filling.number + '"';
  if (value == "LETTERS") return given(filling.letters);
  if (value == "MODULES") return given(filling.modules);
  if (value == "PER_STAGE") return given(filling.per_stage);
  if (value == "[...]") {
    return filling.list.empty() ? std::nullopt : std::optional(list_text(filling.list));
  }
  return chosen(value, filling);
}

}  // namespace

std::optional<std::vector<Setting>> filled(std::string_view text, const Filling& filling) {
  std::vector<Setting> settings = parse_settings(text);
  for (Setting& setting : settings) {
    std::vector<std::string> values;
    for (const std::string& value : setting.values) {
      if (value == "...") {
        if (filling.list.empty()) return std::nullopt;
        values.insert(values.end(), filling.list.begin(), filling.list.end());
      } else if (auto one = scalar(value, filling)) {
        values.push_back(*std::move(one));
      } else {
        return std::nullopt;
      }
    }
    const bool alone = setting.values.empty();
    const bool option = setting.key.starts_with("--");
    if (alone && !filling.usual.empty()) values = {filling.usual};
    if (alone && filling.usual.empty() && !option && setting.key.find(':') == std::string::npos) {
      values = {"true"};
    }
    setting.values = std::move(values);
  }
  return settings;
}

namespace {

bool same(std::string_view pattern, std::string_view given) {
  if (pattern.size() >= 2 && pattern.front() == '"')
    pattern = pattern.substr(1, pattern.size() - 2);
  // A command line writes a plain list without its brackets.
  if (pattern.starts_with('[') && !given.starts_with('[')) {
    pattern = pattern.substr(1, pattern.size() - 2);
  }
  return pattern == given ||
         (lower_case(given) == pattern && (pattern == "true" || pattern == "false"));
}

bool take(std::string_view pattern, const std::string& given, Filling& filling) {
  if (pattern == "N" || pattern == "\"N\"")
    filling.number = given;
  else if (pattern == "LETTERS")
    filling.letters = given;
  else if (pattern == "MODULES")
    filling.modules = given;
  else if (pattern == "PER_STAGE")
    filling.per_stage = given;
  else if (pattern == "[...]")
    filling.list = list_items(given).value_or(std::vector<std::string>{});
  else if (pattern.find('|') != std::string_view::npos) {
    const auto words = split(pattern, '|');
    const auto at =
        std::find_if(words.rbegin(), words.rend(), [&](auto word) { return same(word, given); });
    if (at == words.rend()) return false;
    filling.place = static_cast<std::size_t>(words.rend() - at) - 1;
  } else {
    return same(pattern, given);
  }
  return true;
}

bool take_all(const Setting& pattern, const Setting& given, Filling& filling) {
  if (pattern.values.empty()) {
    if (given.values.size() > 1 ||
        (given.values.size() == 1 && lower_case(given.values[0]) == "false"))
      return false;
    if (!given.values.empty()) filling.number = given.values.front();
    return true;
  }
  if (pattern.values.front() == "...") {
    filling.list = given.values;
    return !given.values.empty();
  }
  if (pattern.values.size() != given.values.size()) return false;
  for (std::size_t i = 0; i < given.values.size(); ++i) {
    if (!take(pattern.values[i], given.values[i], filling)) return false;
  }
  return true;
}

}  // namespace

std::optional<Filling> found_in(std::string_view text, const std::vector<Setting>& given) {
  Filling filling;
  for (const Setting& pattern : parse_settings(text)) {
    // The last one counts, as it does for the trainers' parsers.
    const auto named = [&](const Setting& one) { return one.key == pattern.key; };
    const auto first = std::find_if(given.begin(), given.end(), named);
    const auto last = std::find_if(given.rbegin(), given.rend(), named);
    if (first != given.end() && first->of == kUnasked && !first->values.empty() &&
        first->values.front() == "ANY")
      continue;
    if (last == given.rend() || !take_all(pattern, *last, filling)) return std::nullopt;
    filling.said += last->of != kUnasked;
  }
  return filling;
}

const std::string* find_setting(const Trainer& trainer, std::string_view key) {
  for (const auto& [ours, theirs] : trainer.settings) {
    if (ours == key) return &theirs;
  }
  return nullptr;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::string digits(text);
  const auto is_digit = [&](std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  for (std::size_t at = digits.size(); at-- > 1;) {
    if (text[at] == '_' && is_digit(at - 1) && is_digit(at + 1)) digits.erase(at, 1);
  }
  return parse_integer(digits);
}

std::optional<std::vector<std::string>> list_items(std::string_view value) {
  if (value.size() < 2 || value.front() != '[' || value.back() != ']') return std::nullopt;
  value = value.substr(1, value.size() - 2);
  std::vector<std::string> items;
  std::string item;
  int depth = 0;
  for (const char c : value) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0) {
      items.push_back(std::exchange(item, {}));
    } else if (c != ' ' || depth > 0) {
      item += c;
    }
  }
  if (!item.empty() || !items.empty()) items.push_back(std::move(item));
  return items;
}

std::string list_text(const std::vector<std::string>& items) {
  return '[' + join(items, ",") + ']';
}

}  // namespace detail
}  // namespace trainwright
