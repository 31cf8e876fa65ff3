#define TOML_EXCEPTIONS 0
#include <fmt/format.h>
#include <toml++/toml.h>

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

}  // namespace

Result<Json> parse_toml(std::string_view text, std::string_view origin) {
  const toml::parse_result read = toml::parse(text);
  if (read) return json_of(read.table());
  return fail(fmt::format("{}:{}", origin, read.error().source().begin.line),
              std::string(read.error().description()));
}

}  // namespace trainwright::detail
