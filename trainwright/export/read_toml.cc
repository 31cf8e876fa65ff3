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

}  // namespace

Result<Json> parse_toml(std::string_view text, std::string_view origin) {
  if (std::any_of(text.begin(), text.end(), is_control)) {
    return fail(std::string(origin), "it has control characters, which TOML does not allow");
  }
  const toml::parse_result read = toml::parse(text);
  if (read) return json_of(read.table());
  return fail(fmt::format("{}:{}", origin, read.error().source().begin.line),
              std::string(read.error().description()));
}

}  // namespace trainwright::detail
