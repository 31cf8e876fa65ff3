#pragma once
// Private to logs: one line, and numbers in it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trainwright/base/result.h"
#include "trainwright/base/units.h"

namespace trainwright::detail {

struct LogLine {
  std::string_view text;    // without colours
  std::int64_t number = 0;  // from 1
  bool ended = true;        // by a line break: otherwise its last number may be cut
};

// A number in a line: what was found, and whether there was anything at all.
struct LogNumber {
  std::optional<double> value;
  std::string_view text;   // as printed
  std::string_view after;  // the rest of the line
};
// The text after a key; nothing where the key is not in the line.
std::optional<std::string_view> after(std::string_view line, std::string_view key);
// What stands at the beginning of a text, after blanks, quotes and an equals sign: digits with
// thousands separated by commas, a point, an exponent. Without a value where that is no number from
// 0 on, or where the line ends there without having been ended.
LogNumber number_at(std::string_view text, const LogLine& line);
// The number after a key, if both are there.
std::optional<double> number_after(std::string_view key, const LogLine& line);
std::optional<std::int64_t> count_after(std::string_view key, const LogLine& line);
// "2.26 GiB", "0 bytes": at the beginning of a text.
std::optional<Bytes> size_at(std::string_view text, const LogLine& line);
std::optional<Bytes> size_after(std::string_view key, const LogLine& line);
// Of the job: "[rank3]:" of torchrun, "[Rank 3]", and srun's "3: " at the beginning.
std::optional<std::int64_t> rank_of(std::string_view line);
// Without the escape sequences that colour a terminal.
std::string without_colours(std::string_view line);

}  // namespace trainwright::detail
