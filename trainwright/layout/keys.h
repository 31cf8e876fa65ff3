#pragma once
// Public: the keys that the text of a layout and of a job is made of, one table each. Readers ask
// for no key that is not in its table and take bounds and names from it; `trainwright help` prints
// it. Not part of layout.h, because nobody else needs it.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "trainwright/base/json.h"

namespace trainwright {

struct EntryKey {
  enum class Takes {
    Number,        // a whole number within `range`
    Flag,          // stands alone
    FlagOrNumber,  // stands alone for 1, or has a number
    Name,          // one of `names`
    Names,         // some of `names`, joined by '+'
    Other,         // as `form` says
  };
  std::string_view name;  // lower case, with underscores
  Takes takes = Takes::Number;
  std::string_view meaning;
  std::string_view left_out;  // what holds without it
  std::string_view example;   // with the key: "tp=8"
  IntegerRange range = {};
  std::span<const std::string_view> names = {};
  std::string_view form = {};
};
std::span<const EntryKey> layout_keys();
std::span<const EntryKey> job_keys();
// "1 to 16,777,216", "one of ring and all-gather", ...
std::string values_text(const EntryKey& key);

}  // namespace trainwright
