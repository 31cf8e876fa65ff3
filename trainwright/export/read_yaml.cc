#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <unordered_set>

#include "trainwright/base/text.h"
#include "trainwright/export/read.h"

namespace trainwright::detail {
namespace {

constexpr int kMostDepth = 50;
constexpr std::size_t kMostNodes = 100'000;  // aliases can name one node many times

// Text in quotes has the tag "!"; without, it may be a number or a truth.
Json scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  const std::string lower = lower_case(text);
  if (node.Tag() == "!") return Json::of(text);
  if (lower == "true" || lower == "yes" || lower == "on") return Json::of(true);
  if (lower == "false" || lower == "no" || lower == "off") return Json::of(false);
  if (const auto whole = parse_integer(text)) return Json::of(*whole);
  if (const auto number = parse_number(text)) return Json::of(*number);
  return Json::of(text);
}

Json value_of(const YAML::Node& node, int depth, std::size_t& nodes);

Json json_of(const YAML::Node& node, int depth, std::size_t& nodes) {
  Json json = value_of(node, depth, nodes);
  json.line = node.Mark().line + 1;
  return json;
}

Json value_of(const YAML::Node& node, int depth, std::size_t& nodes) {
  if (depth > kMostDepth || ++nodes > kMostNodes)
    throw YAML::Exception(node.Mark(), "too deep or too large");
  if (node.IsScalar()) return scalar(node);
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const auto& item : node) list.push(json_of(item, depth + 1, nodes));
    return list;
  }
  if (!node.IsMap()) return Json();
  Json object = Json::object();
  std::unordered_set<std::string> keys;
  for (const auto& member : node) {
    const YAML::Node& key = member.first;
    if (!key.IsScalar()) throw YAML::Exception(key.Mark(), "a key must be plain text");
    if (!keys.insert(key.Scalar()).second) throw YAML::Exception(key.Mark(), "a key stands twice");
    object.add(key.Scalar(), json_of(member.second, depth + 1, nodes));
  }
  return object;
}

}  // namespace

Result<Json> parse_yaml(std::string_view text, std::string_view origin) {
  try {
    std::size_t nodes = 0;
    return json_of(YAML::Load(std::string(text)), 0, nodes);
  } catch (const YAML::Exception& fault) {
    return fail(fmt::format("{}:{}", origin, fault.mark.line + 1), fault.msg);
  }
}

}  // namespace trainwright::detail
