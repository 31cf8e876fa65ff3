// data/sources/*.json.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/names.h"
#include "trainwright/base/text.h"
#include "trainwright/measured/cuts.h"
#include "trainwright/measured/fill.h"
#include "trainwright/measured/times.h"

namespace trainwright {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShapesFile = "shapes";

// A word of a closed list; the first one where it is not there.
std::size_t one_of(JsonFields& fields, std::string_view key, const std::vector<std::string>& words,
                   bool required = true) {
  const auto text = required ? std::optional(fields.string(key)) : fields.optional_string(key);
  if (!text || text->empty()) return 0;
  const auto found = std::find(words.begin(), words.end(), *text);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  fields.fault(key, fmt::format("'{}' is not known", *text),
               did_you_mean(*text, words, "one of " + enumerate(words, "or")));
  return 0;
}

// "a" is ["a"].
std::vector<std::string> patterns_of(const Json& json, JsonFields& fields) {
  std::vector<std::string> patterns;
  if (json.is_string()) patterns.push_back(json.string);
  for (const Json& item : json.items) {
    if (item.is_string()) patterns.push_back(item.string);
  }
  if (patterns.empty()) fields.fault("when", "a column has a pattern or a list of patterns");
  return patterns;
}

std::vector<Condition> conditions_in(JsonFields& fields) {
  std::vector<Condition> conditions;
  const Json* when = fields.raw("when");
  if (when == nullptr) return conditions;
  for (const auto& [column, patterns] : when->members) {
    if (!column_text({}, column)) {
      fields.fault("when", fmt::format("there is no column '{}'", column),
                   did_you_mean(column, column_names()));
    }
    conditions.push_back({column, patterns_of(patterns, fields)});
  }
  return conditions;
}

ReadingRule reading_of(JsonFields& fields) {
  ReadingRule rule;
  std::vector<std::string> kinds, places;
  for (int i = 0; i <= static_cast<int>(MemoryKind::Unstated); ++i) {
    kinds.emplace_back(name_of(static_cast<MemoryKind>(i)));
  }
  for (int i = 0; i <= static_cast<int>(ReadAt::PipelineRank); ++i) {
    places.emplace_back(name_of(static_cast<ReadAt>(i)));
  }
  rule.kind = static_cast<MemoryKind>(one_of(fields, "kind", kinds));
  rule.at = static_cast<ReadAt>(one_of(fields, "at", places, false));
  rule.index = fields.optional_string("index").value_or("0");
  rule.value = fields.optional_string("value").value_or("");
  rule.each = fields.optional_string("each").value_or("");
  rule.ranks = fields.optional_string("ranks").value_or("");
  const std::vector<std::string> units = {"B", "GB", "GiB"};
  rule.unit = units[one_of(fields, "unit", units, false)];
  rule.decimals =
      static_cast<int>(fields.optional_integer("decimals", {.least = 0, .most = 12}).value_or(0));
  fields.finish();
  return rule;
}

void check_known(JsonFields& fields, std::string_view key, const std::string& name,
                 const std::vector<std::string>& names) {
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  fields.fault(key, fmt::format("'{}' is not known", name), "one of " + enumerate(names, "or"));
}

class SourceReader {
 public:
  SourceReader(std::string data_directory, Diagnostics& faults)
      : data_(std::move(data_directory)), faults_(faults) {
    shapes_ = json_of(data_ + "/sources/" + std::string(kShapesFile) + ".json");
  }

  std::pair<std::string, Source> read(const std::string& path) {
    const Json json = json_of(path);
    JsonFields fields(json, path, "", faults_);
    const std::string name = fields.string("source");
    fields.optional_string("about");
    Source source;
    source.rows = fields.optional_string("rows").value_or("");
    if (const Json* list = fields.array("rules")) {
      for (std::size_t i = 0; i < list->items.size(); ++i) {
        JsonFields at(list->items[i], path, fmt::format("/rules/{}", i), faults_);
        source.rules.push_back(rule_of(at));
      }
    }
    fields.finish();
    return {name, std::move(source)};
  }

 private:
  Json json_of(const std::string& path) {
    auto json = read_json_file(path);
    if (json) return *std::move(json);
    const Diagnostics& found = json.error().diagnostics;
    faults_.insert(faults_.end(), found.begin(), found.end());
    return Json::object();
  }

  SourceRule rule_of(JsonFields& fields) {
    SourceRule rule;
    rule.when = conditions_in(fields);
    if (const auto learned = fields.optional_bool("learned")) {
      rule.only = *learned ? Learned::Taken : Learned::Left;
    }
    for (const auto& [key, field] : {std::pair("skip", &rule.skip),
                                     {"on", &rule.on},
                                     {"cut", &rule.cut},
                                     {"broken", &rule.broken},
                                     {"time_broken", &rule.time_broken},
                                     {"no_memory", &rule.no_memory},
                                     {"pool", &rule.pool},
                                     {"stack", &rule.stack},
                                     {"tuned", &rule.tuned},
                                     {"undetermined", &rule.undetermined},
                                     {"note", &rule.note},
                                     {"correction", &rule.correction}}) {
      *field = fields.optional_string(key).value_or("");
    }
    for (const auto& [key, field] : {std::pair("columns", &rule.columns),
                                     {"model", &rule.model},
                                     {"trainer", &rule.trainer},
                                     {"layout", &rule.layout},
                                     {"job", &rule.job}}) {
      if (const Json* object = fields.raw(key)) *field = *object;
    }
    check_known(fields, "cut", rule.cut, detail::cut_names());
    rule.fresh_model = rule.model.find("shape") != nullptr || rule.model.find("zoo") != nullptr;
    settle_model(rule.model, fields);
    if (const Json* order = fields.raw("order")) rule.order = *order;
    if (const Json* flops = fields.raw("flops")) rule.flops = flops_of(*flops, fields);
    if (const Json* readings = fields.raw("readings")) {
      for (std::size_t i = 0; i < readings->items.size(); ++i) {
        JsonFields at(readings->items[i], fields.origin(),
                      fmt::format("{}/{}", fields.path("readings"), i), faults_);
        rule.readings.push_back(reading_of(at));
      }
    }
    fields.finish();
    return rule;
  }

  FlopsRule flops_of(const Json& json, JsonFields& of) {
    JsonFields fields(json, of.origin(), of.path("flops"), faults_);
    FlopsRule rule;
    rule.by = fields.string("by");
    check_known(fields, "by", rule.by, detail::flops_names());
    rule.peak = fields.optional_number("peak").value_or(0);
    fields.finish();
    return rule;
  }

  // "shape" and "zoo" become the config that they name, below the fields beside them.
  void settle_model(Json& model, JsonFields& fields) {
    Json base = Json::object();
    if (const Json* shape = model.find("shape"); shape != nullptr && shape->is_string()) {
      const Json* known = shapes_.find(shape->string);
      if (known == nullptr) fields.fault("model", fmt::format("no shape '{}'", shape->string));
      if (known != nullptr) base = *known;
    }
    if (const Json* zoo = model.find("zoo"); zoo != nullptr && zoo->is_string()) {
      const Json entry = json_of(fmt::format("{}/models/{}.json", data_, zoo->string));
      if (const Json* config = entry.find("config")) base = *config;
    }
    std::erase_if(model.members, [](const JsonMember& member) {
      return member.key == "shape" || member.key == "zoo";
    });
    detail::lay_over(base, model);
    model = std::move(base);
  }

  std::string data_;
  Json shapes_;
  Diagnostics& faults_;
};

}  // namespace

Result<Sources> load_sources(const std::string& data_directory) {
  const fs::path folder = fs::path(data_directory) / "sources";
  std::vector<std::string> paths;
  std::error_code fault;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault)) {
    if (at->path().extension() == ".json" && at->path().stem() != kShapesFile) {
      paths.push_back(at->path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  Diagnostics faults;
  SourceReader reader(data_directory, faults);
  Sources sources;
  for (const std::string& path : paths) sources.insert(reader.read(path));
  if (!faults.empty()) return fail(std::move(faults));
  return sources;
}

}  // namespace trainwright
