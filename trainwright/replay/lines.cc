#include "trainwright/replay/lines.h"

#include <fmt/format.h>

#include <charconv>

namespace trainwright::detail {

bool read_numbers(std::string_view line, std::vector<std::int64_t>& numbers) {
  numbers.clear();
  const char* at = line.data();
  const char* end = at + line.size();
  const auto skip_spaces = [&] {
    while (at != end && *at == ' ') ++at;
  };
  if (at == end || *at++ != '[') return false;
  skip_spaces();
  if (at != end && *at == ']') return at + 1 == end;
  for (;;) {
    std::int64_t number = 0;
    const auto [next, fault] = std::from_chars(at, end, number);
    if (fault != std::errc()) return false;
    numbers.push_back(number);
    at = next;
    skip_spaces();
    if (at == end) return false;
    const char separator = *at++;
    if (separator == ']') break;
    if (separator != ',') return false;
    skip_spaces();
  }
  skip_spaces();
  return at == end;
}

void LineFaults::add(std::string what, std::string hint) {
  if (full()) return;
  diagnostics.push_back({fmt::format("{}:{}", origin, line), std::move(what), std::move(hint)});
}

std::optional<Json> json_of_line(std::string_view line, LineFaults& faults) {
  auto json = parse_json(line, faults.origin);
  if (json) return *std::move(json);
  for (const Diagnostic& fault : json.error().diagnostics) faults.add(fault.what, fault.hint);
  return std::nullopt;
}

}  // namespace trainwright::detail
