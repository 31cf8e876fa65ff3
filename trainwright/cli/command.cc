#include "trainwright/cli/command.h"

#include <algorithm>
#include <cmath>

#include "trainwright/base/check.h"
#include "trainwright/base/count.h"
#include "trainwright/base/digits.h"
#include "trainwright/base/text.h"

namespace trainwright::cli {

std::string bare_name(const std::string& name) {
  const std::string first(split(name, ',').front());
  return first.substr(std::min(first.find_first_not_of('-'), first.size()));
}

std::optional<std::string> Invocation::text(const std::string& name) const {
  const auto found = values.find(name);
  if (found == values.end() || found->second.empty()) return std::nullopt;
  return found->second.front();
}

std::vector<std::string> Invocation::texts(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? std::vector<std::string>{} : found->second;
}

std::optional<std::int64_t> Invocation::integer(const std::string& name) const {
  const auto value = text(name);
  return value ? parse_count(*value) : std::nullopt;
}

std::optional<double> Invocation::number(const std::string& name) const {
  const auto value = text(name);
  return value ? parse_number(*value) : std::nullopt;
}

std::optional<double> Invocation::share(const std::string& name) const {
  const auto value = text(name);
  return value ? parse_share(*value) : std::nullopt;
}

std::optional<double> parse_share(std::string_view text) {
  if (!text.ends_with('%')) return parse_number(text);
  const auto percent = parse_number(trim(text.substr(0, text.size() - 1)));
  return percent ? std::optional(*percent / 100) : std::nullopt;
}

Json in_nine_digits(Json json) {
  if (json.kind == Json::Kind::Number && json.number != std::trunc(json.number)) {
    json.number = in_nine_decimal_digits(json.number);
  }
  for (Json& item : json.items) item = in_nine_digits(std::move(item));
  for (auto& [key, value] : json.members) value = in_nine_digits(std::move(value));
  return json;
}

Json with_schema(const DataDirectory& data, const Json& document) {
  TW_CHECK(document.is_object(), "an answer that is no object");
  Json whole = Json::object();
  whole.add("schema", Json::of(kSchema))
      .add("made_by", Json::object()
                          .add("version", Json::of(TRAINWRIGHT_VERSION))
                          .add("data", Json::of(data.hash())));
  for (const auto& [key, value] : document.members) whole.add(key, in_nine_digits(value));
  return whole;
}

std::string document_text(const DataDirectory& data, const Json& document) {
  return to_text(with_schema(data, document));
}

Json to_json(const Diagnostics& diagnostics) {
  Json list = Json::array();
  for (const Diagnostic& diagnostic : diagnostics) {
    Json entry = Json::object();
    entry.add("where", Json::of(diagnostic.where))
        .add("what", Json::of(diagnostic.what))
        .add("hint", Json::of(diagnostic.hint));
    list.push(std::move(entry));
  }
  return list;
}

std::vector<Argument> common_arguments() {
  return {{"--json", Argument::Kind::Flag, "print JSON instead of text"},
          {"--data", Argument::Kind::Text, "directory of models, clusters, trainers", false, "DIR"},
          {"--width", Argument::Kind::Integer, "characters per line of output", false, "N"}};
}

}  // namespace trainwright::cli
