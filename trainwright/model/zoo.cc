#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"
#include "trainwright/model/published.h"

namespace trainwright {
namespace {

namespace fs = std::filesystem;

struct CountedName {
  std::string_view name;
  Counted counted;
};
constexpr CountedName kCounted[] = {
    {"all", Counted::All},
    {"without_mtp", Counted::WithoutMtp},
    {"without_embedding", Counted::WithoutEmbedding},
    {"without_input_embedding", Counted::WithoutInputEmbedding},
    {"without_output", Counted::WithoutOutput},
    {"tied_twice", Counted::TiedTwice},
};

Counted read_counted(JsonFields& fields, std::string_view key, Counted absent) {
  const auto name = fields.optional_string(key);
  if (!name) return absent;
  std::vector<std::string> known;
  for (const CountedName& entry : kCounted) {
    if (entry.name == *name) return entry.counted;
    known.emplace_back(entry.name);
  }
  fields.fault(key, fmt::format("'{}' is not a way of counting", *name),
               did_you_mean(*name, known, enumerate(known, "or")));
  return absent;
}

std::string read_figure(JsonFields& fields, std::string_view key) {
  std::string text = fields.optional_string(key).value_or("");
  if (!text.empty() && !detail::parse_figure(text)) {
    fields.fault(key, fmt::format("'{}' is not a figure", text), "\"70.6B\" or \"559214592\"");
    return {};
  }
  return text;
}

Published read_published(const Json& json, const std::string& origin, Diagnostics& faults) {
  JsonFields fields(json, origin, "/published", faults);
  Published published;
  published.total = read_figure(fields, "total");
  published.active = read_figure(fields, "active");
  published.mtp = read_figure(fields, "mtp");
  published.counts = read_counted(fields, "counts", Counted::All);
  published.active_counts = read_counted(fields, "active_counts", Counted::WithoutMtp);
  published.tolerance = fields.optional_number("tolerance").value_or(0);
  published.active_tolerance = fields.optional_number("active_tolerance").value_or(0);
  published.source = fields.string("source");
  fields.ignore("note");
  fields.finish();
  return published;
}

Result<ZooEntry> read_entry(const fs::path& file, const std::string& data_directory) {
  const Json json = TW_TRY(read_json_file(file.string()));
  if (!json.is_object()) return fail(json_place(file.string(), json, ""), "expected an object");
  Diagnostics faults;
  JsonFields fields(json, file.string(), "", faults);
  ZooEntry entry;
  const std::string name = fields.string("name");
  entry.source = fields.string("source");
  entry.ids = fields.optional_strings("ids");
  const std::string note = fields.optional_string("note").value_or("");
  if (!name.empty() && name != file.stem().string()) {
    fields.fault("name", fmt::format("'{}' is not the name of the file", name));
  }
  if (const Json* published = fields.raw("published"); published && published->is_object()) {
    entry.published = read_published(*published, file.string(), faults);
  } else if (published) {
    fields.fault("published", "expected an object");
  }
  const Json* config = fields.object("config");
  fields.finish();
  if (config != nullptr) {
    auto model = model_from_json(*config, file.string(), data_directory);
    if (model) {
      entry.model = *std::move(model);
    } else {
      for (Diagnostic& fault : model.error().diagnostics) faults.push_back(std::move(fault));
    }
  }
  if (!faults.empty()) return fail(std::move(faults));
  entry.model.name = name;
  if (!note.empty()) entry.model.notes.push_back(note);
  return entry;
}

fs::path models_of(const std::string& data_directory) {
  return fs::path(data_directory) / "models";
}

// "meta-llama/Llama-3.1-70B-Instruct" is "meta-llama/llama-3.1-70b": what is tuned, or converted to
// another format, has the shape of its base.
std::string shape_id(std::string_view id) {
  std::string text = lower_case(id);
  if (const auto meta = text.find("/meta-"); meta != std::string::npos) text.erase(meta + 1, 5);
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view end :
         {"-hf", "-instruct", "-chat", "-base", "-it", "-pt", "-bnb-4bit", "-unsloth"}) {
      if (!text.ends_with(end)) continue;
      text.erase(text.size() - end.size());
      cut = true;
    }
  }
  return text;
}

// "organisation/model", as Hugging Face names a repository; not the path of a file.
bool is_hub_id(std::string_view text) {
  const auto slash = text.find('/');
  return slash != std::string_view::npos && slash > 0 && slash + 1 < text.size() &&
         text.front() != '.' && text.front() != '~' && !text.ends_with(".json") &&
         text.find('/', slash + 1) == std::string_view::npos;
}

// Names that have every part of what was asked for, in order: llama-70b is in llama-2-70b.
std::vector<std::string> names_with_parts(std::string_view wanted,
                                          const std::vector<std::string>& names) {
  const std::string asked = lower_case(wanted);
  const auto parts = split(asked, '-');
  std::vector<std::string> found;
  for (const std::string& name : names) {
    std::size_t next = 0;
    for (const std::string_view part : split(name, '-')) {
      if (next < parts.size() && part == parts[next]) ++next;
    }
    if (next == parts.size()) found.push_back("'" + name + "'");
  }
  return found;
}

std::string model_hint(std::string_view wanted, const std::vector<std::string>& names,
                       std::string_view otherwise) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> found = names_with_parts(wanted, names);
  if (found.empty() || found.size() > kMost) return did_you_mean(wanted, names, otherwise);
  return fmt::format("did you mean {}?", enumerate(found, "or"));
}

// Who uploads others' models again under their names.
bool is_mirror(std::string_view organisation) {
  return organisation == "nousresearch" || organisation == "unsloth";
}

Result<Model> hub_model(const std::string& id, const std::string& data_directory) {
  const std::string wanted = shape_id(id);
  const std::size_t slash = wanted.find('/');
  const bool mirrored = is_mirror(std::string_view(wanted).substr(0, slash));
  for (ZooEntry& entry : TW_TRY(load_zoo(data_directory))) {
    entry.ids.push_back(entry.source.substr(0, entry.source.find(' ')));
    for (const std::string& listed : entry.ids) {
      const std::string theirs = shape_id(listed);
      const bool same = theirs == wanted ||
                        (mirrored && is_hub_id(theirs) && theirs.ends_with(wanted.substr(slash)));
      if (same) return std::move(entry.model);
    }
  }
  constexpr std::string_view kDownload = "download its config.json and give the path";
  const std::string near =
      model_hint(wanted.substr(wanted.find('/') + 1), zoo_names(data_directory), "");
  return fail(id, "no such file, and the zoo has no model of this Hugging Face id",
              near.empty() ? std::string(kDownload) : fmt::format("{} Or {}", near, kDownload));
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
    auto entry = read_entry(models_of(data_directory) / (name + ".json"), data_directory);
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
  if (name_or_path.starts_with('{')) {
    const Json config = TW_TRY(parse_json(name_or_path, "model"));
    Model model = TW_TRY(model_from_json(config, "model", data_directory));
    const Json* name = config.find("_name_or_path");
    if (name == nullptr || name->string.empty()) return model;
    if (const std::string hidden = hidden_fault(name->string); !hidden.empty()) {
      return fail(json_place("model", *name, "/_name_or_path"), "the name " + hidden,
                  std::string(kHiddenHint));
    }
    model.name = name->string;
    return model;
  }
  std::error_code ignored;
  if (is_hub_id(name_or_path) && !fs::exists(name_or_path, ignored)) {
    return hub_model(name_or_path, data_directory);
  }
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json") ||
      fs::exists(name_or_path, ignored)) {
    return read_model(name_or_path, data_directory);
  }
  const std::vector<std::string> names = zoo_names(data_directory);
  // "llama-3.1-8b-instruct" is "llama-3.1-8b", unless there is one of that very name.
  std::string wanted = lower_case(name_or_path);
  if (std::find(names.begin(), names.end(), wanted) == names.end()) wanted = shape_id(wanted);
  for (const std::string& name : names) {
    if (lower_case(name) != wanted) continue;
    return TW_TRY(read_entry(models_of(data_directory) / (name + ".json"), data_directory)).model;
  }
  return fail(name_or_path, "there is no model of this name and no such file",
              model_hint(name_or_path, names,
                         "a name that `trainwright list models` shows, a Hugging Face id, or a "
                         "path to a config.json"));
}

}  // namespace trainwright
