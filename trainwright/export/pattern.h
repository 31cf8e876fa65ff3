#pragma once
// Private: the words of a setting and what fills their placeholders.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/export/export.h"

namespace trainwright::detail {

struct Filling {
  std::string number = {};
  std::optional<std::size_t> place = {};  // of a|b|c
  std::vector<std::string> list = {};
  std::string letters = {}, modules = {}, per_stage = {};
  // What a setting without a value gets; nothing for an option that stands alone.
  std::string usual = {};
  std::size_t said = 0;  // of a pattern found: how many of its settings somebody has written
};
// The settings with their placeholders as they stand: "--x a|b" is {"--x", {"a|b"}}.
std::vector<Setting> parse_settings(std::string_view text);
// Nothing if a placeholder has no filling.
std::optional<std::vector<Setting>> filled(std::string_view text, const Filling& filling);

// The way back: what the placeholders of all its settings stand for in `given`, or nothing if one
// of them is not there or says something else. What is done unasked stands first in `given`, so
// that a setting left out says what the trainer makes of it; ANY there is a setting that decides
// nothing.
std::optional<Filling> found_in(std::string_view text, const std::vector<Setting>& given);
inline constexpr std::string_view kUnasked = "unasked";  // what such settings are `of`

// Of "key" or "key.value" in the trainer's settings; nullptr if it has none.
const std::string* find_setting(const Trainer& trainer, std::string_view key);

// A whole number as YAML and Python write it: 500_000 is 500000.
std::optional<std::int64_t> whole_number(std::string_view text);

// "[a,[b,c]]" -> {"a", "[b,c]"}; nullopt for what is no list.
std::optional<std::vector<std::string>> list_items(std::string_view value);
std::string list_text(const std::vector<std::string>& items);

}  // namespace trainwright::detail
