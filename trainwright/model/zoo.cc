#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/text.h"
#include "trainwright/model/model.h"

namespace trainwright {
namespace {

namespace fs = std::filesystem;

Result<ZooEntry> read_entry(const fs::path& file) {
  const Json json = TW_TRY(read_json_file(file.string()));
  if (!json.is_object()) {
    return fail(json_place(file.string(), json, ""), "expected an object");
  }
  Diagnostics faults;
  JsonFields fields(json, file.string(), "", faults);
  ZooEntry entry;
  const std::string name = fields.string("name");
  entry.source = fields.string("source");
  if (const Json* published = fields.raw("published"); published && published->is_object()) {
    JsonFields inner(*published, file.string(), "/published", faults);
    entry.published.total = inner.optional_number("total").value_or(0);
    entry.published.active = inner.optional_number("active").value_or(0);
    entry.published.source = inner.string("source");
    inner.ignore("note");
    inner.finish();
  } else if (published) {
    fields.fault("published", "expected an object");
  }
  if (!name.empty() && name != file.stem().string()) {
    fields.fault("name", fmt::format("'{}' is not the name of the file", name));
  }
  const Json* config = fields.object("config");
  fields.ignore("note");
  fields.finish();
  if (config != nullptr) {
    auto model = model_from_json(*config, file.string());
    if (model) {
      entry.model = *std::move(model);
    } else {
      for (Diagnostic& fault : model.error().diagnostics) faults.push_back(std::move(fault));
    }
  }
  if (!faults.empty()) return fail(std::move(faults));
  entry.model.name = name;
  return entry;
}

fs::path models_of(const std::string& data_directory) {
  return fs::path(data_directory) / "models";
}

}  // namespace

std::vector<std::string> zoo_names(const std::string& data_directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(models_of(data_directory), ignored)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<ZooEntry>> load_zoo(const std::string& data_directory) {
  std::vector<ZooEntry> zoo;
  Diagnostics faults;
  for (const std::string& name : zoo_names(data_directory)) {
    auto entry = read_entry(models_of(data_directory) / (name + ".json"));
    if (entry) {
      zoo.push_back(*std::move(entry));
    } else {
      for (Diagnostic& fault : entry.error().diagnostics) faults.push_back(std::move(fault));
    }
  }
  if (!faults.empty()) return fail(std::move(faults));
  return zoo;
}

Result<Model> find_model(const std::string& name_or_path, const std::string& data_directory) {
  std::error_code ignored;
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json") ||
      fs::exists(name_or_path, ignored)) {
    return read_model(name_or_path);
  }
  const std::vector<std::string> names = zoo_names(data_directory);
  const std::string wanted = lower_case(name_or_path);
  for (const std::string& name : names) {
    if (lower_case(name) != wanted) continue;
    return TW_TRY(read_entry(models_of(data_directory) / (name + ".json"))).model;
  }
  return fail(name_or_path, "there is no model of this name and no such file",
              did_you_mean(name_or_path, names,
                           "a name that `trainwright list models` shows, or a path to a "
                           "config.json"));
}

}  // namespace trainwright
