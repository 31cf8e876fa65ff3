#define TOML_EXCEPTIONS 0
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "trainwright/export/read.h"

namespace trainwright::detail {
namespace {

Json json_of(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object.add(std::string(key.str()), json_of(value));
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& item : *array) list.push(json_of(item));
    return list;
  }
  if (const auto whole = node.value_exact<std::int64_t>()) return Json::of(*whole);
  if (const auto number = node.value_exact<double>()) return Json::of(*number);
  if (const auto truth = node.value_exact<bool>()) return Json::of(*truth);
  if (const auto text = node.value_exact<std::string>()) return Json::of(*text);
  return Json();  // dates and times, which no trainer asks for
}

// TOML allows no others (toml.io, v1.0.0, "Spec"); toml++ 3 asserts that there are none.
bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
}

// toml++ bounds how deep values nest, but not the tables that dotted keys and headers make, and
// walks them all by recursion.
constexpr int kMostBrackets = 32, kMostDots = 32;

// Behind a comment or a string that begins at `at`; one that has no end goes to the end of the
// text.
std::size_t behind(std::string_view text, std::size_t at) {
  const char first = text[at];
  if (first == '#') return std::min(text.find('\n', at), text.size());
  const std::string_view three = text.substr(at, 3);
  const bool lines = three == R"(""")" || three == "'''";
  const std::string_view quote = lines ? three : three.substr(0, 1);
  for (at += quote.size(); at < text.size(); ++at) {
    if (text.substr(at, quote.size()) == quote) return at + quote.size();
    if (!lines && text[at] == '\n') return at;
    if (first == '"' && text[at] == '\\') ++at;
  }
  return text.size();
}

// The line on which tables or arrays nest deeper than is read.
std::optional<std::ptrdiff_t> too_deep(std::string_view text) {
  int brackets = 0, dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    brackets += (c == '[' || c == '{') - (c == ']' || c == '}');
    dots = c == '.' ? dots + 1 : std::string_view("[]{}=,\n").find(c) != text.npos ? 0 : dots;
    if (brackets > kMostBrackets || dots > kMostDots)
      return std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
    at = c == '#' || c == '"' || c == '\'' ? behind(text, at) : at + 1;
  }
  return std::nullopt;
}

}  // namespace

Result<Json> parse_toml(std::string_view text, std::string_view origin) {
  if (std::any_of(text.begin(), text.end(), is_control)) {
    return fail(std::string(origin), "it has control characters, which TOML does not allow");
  }
  if (const auto line = too_deep(text)) {
    return fail(fmt::format("{}:{}", origin, *line),
                fmt::format("nests more than {} deep", kMostBrackets), "no trainer's settings do");
  }
  const toml::parse_result read = toml::parse(text);
  if (read) return json_of(read.table());
  return fail(fmt::format("{}:{}", origin, read.error().source().begin.line),
              std::string(read.error().description()));
}

}  // namespace trainwright::detail
