#include "trainwright/logs/lines.h"

#include <array>
#include <cmath>

#include "trainwright/base/text.h"

namespace trainwright::detail {
namespace {

constexpr double kMost = 1e15;  // beyond any count, rate or size of a log

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view without_blanks(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t'\"=");
  return at == std::string_view::npos ? std::string_view{} : text.substr(at);
}

// Where the number that a text begins with ends.
std::size_t length_of_number(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    const bool next_is_digit = at + 1 < text.size() && is_digit(text[at + 1]);
    const bool separates = c == ',' && next_is_digit;
    const bool exponent = (c == 'e' || c == 'E') && at > 0 &&
                          (next_is_digit || (at + 2 < text.size() && is_digit(text[at + 2]) &&
                                             (text[at + 1] == '-' || text[at + 1] == '+')));
    const bool sign =
        (c == '-' || c == '+') && (at == 0 || text[at - 1] == 'e' || text[at - 1] == 'E');
    if (!is_digit(c) && c != '.' && !separates && !exponent && !sign) break;
    ++at;
  }
  while (at > 0 && text[at - 1] == '.') --at;  // the end of a sentence
  return at;
}

std::string without_commas(std::string_view text) {
  std::string bare;
  for (const char c : text) {
    if (c != ',') bare += c;
  }
  return bare;
}

}  // namespace

std::optional<std::string_view> after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  return line.substr(at + key.size());
}

LogNumber number_at(std::string_view text, const LogLine& line) {
  const std::string_view from = without_blanks(text);
  const std::size_t length = length_of_number(from);
  LogNumber found;
  found.text = length > 0 ? from.substr(0, length) : from.substr(0, from.find_first_of(" |,"));
  found.after = from.substr(length);
  const bool cut = found.after.empty() && !line.ended;
  if (length == 0 || cut) return found;
  const auto value = parse_number(without_commas(found.text));
  if (value && *value >= 0 && *value <= kMost) found.value = value;
  return found;
}

std::optional<double> number_after(std::string_view key, const LogLine& line) {
  const auto rest = after(line.text, key);
  return rest ? number_at(*rest, line).value : std::nullopt;
}

std::optional<std::int64_t> count_after(std::string_view key, const LogLine& line) {
  const auto number = number_after(key, line);
  if (!number || *number != std::floor(*number)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::optional<Bytes> size_at(std::string_view text, const LogLine& line) {
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits{{
      {"TiB", 1024.0 * 1024 * 1024 * 1024},
      {"GiB", 1024.0 * 1024 * 1024},
      {"MiB", 1024.0 * 1024},
      {"KiB", 1024.0},
      {"bytes", 1.0},
  }};
  const LogNumber number = number_at(text, line);
  if (!number.value) return std::nullopt;
  const std::string_view unit = without_blanks(number.after);
  for (const auto& [name, bytes] : kUnits) {
    if (unit.starts_with(name) && *number.value * bytes <= kMost) {
      return Bytes(std::llround(*number.value * bytes));
    }
  }
  return std::nullopt;
}

std::optional<Bytes> size_after(std::string_view key, const LogLine& line) {
  const auto rest = after(line.text, key);
  return rest ? size_at(*rest, line) : std::nullopt;
}

std::optional<std::int64_t> rank_of(std::string_view line) {
  const LogLine whole{line, 0, true};
  for (const std::string_view key : {"[rank", "[Rank "}) {
    const auto rest = after(line, key);
    if (!rest || rest->empty() || !is_digit(rest->front())) continue;
    if (number_at(*rest, whole).after.starts_with(']')) return count_after(key, whole);
  }
  const std::string_view label = trim(line.substr(0, line.find(": ")));
  if (label.size() < line.size() && !label.empty() && label.size() <= 7) {
    if (const auto rank = parse_integer(label); rank && *rank >= 0) return rank;
  }
  return std::nullopt;
}

std::string without_colours(std::string_view line) {
  std::string plain;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\x1b' && at + 1 < line.size() && line[at + 1] == '[') {
      at += 2;
      while (at < line.size() && (line[at] < '@' || line[at] > '~')) ++at;
      continue;
    }
    plain += line[at];
  }
  return plain;
}

}  // namespace trainwright::detail
