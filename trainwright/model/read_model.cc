// From a config.json to a Model: which family, which wrapper, and what to say when neither is
// known.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"
#include "trainwright/model/build.h"

namespace trainwright {
namespace {

using detail::Family;

// Fields of a config that could matter, for comparing it with a family; configs have a hundred.
constexpr std::size_t kMostTelling = 1000;
std::vector<std::string> telling_fields(const Json& config) {
  std::vector<std::string> names;
  for (const auto& [key, value] : config.members) {
    if (names.size() > kMostTelling) break;
    if (detail::is_ignored_field(key) || value.is_null()) continue;
    names.push_back(key);
    if (!value.is_object()) continue;
    names.pop_back();
    // What is longer than any field of ours is not repeated for each of its members.
    const std::string prefix = key.substr(0, 60) + ".";
    for (const auto& [inner, unused] : value.members) {
      if (names.size() <= kMostTelling) names.push_back(prefix + inner);
    }
  }
  return names;
}

// Of those the ones that no known family reads.
std::vector<std::string> strange_fields(const Json& config, const std::string& data_directory) {
  std::set<std::string> read;
  for (const Family& family :
       detail::all_families(data_directory).value_or(std::vector<Family>())) {
    for (std::string& name : detail::field_names(family)) read.insert(std::move(name));
    for (std::string_view name : split(family.ignored, '|')) read.emplace(name);
    for (const auto& assumed : family.assumed) {
      for (std::string_view name : split(assumed.names, '|')) read.emplace(name);
    }
  }
  std::vector<std::string> strange;
  for (const std::string& name : telling_fields(config)) {
    if (!read.contains(name)) strange.push_back(name.substr(0, 60));
  }
  return strange;
}

// A name without its marks and capitals: "GPT-NeoX" is "gptneox".
std::string letters_of(std::string_view name) {
  std::string letters = lower_case(name);
  std::erase_if(letters, [](char c) { return c == '_' || c == '-' || c == '.' || c == ' '; });
  return letters;
}

// What to do about a family that is not known. None is named in its place but by its own name in
// other letters: classes with the same fields build different layers. Read as Gemma 3, whose fields
// it has, EXAONE 4 would have 23 % more parameters.
std::string family_hint(const Json& config, std::string_view model_type,
                        const std::string& data_directory) {
  constexpr std::string_view kList = "`trainwright list families` shows those that are known";
  if (model_type.empty()) return fmt::format("add it; {}", kList);
  for (const std::string& known : known_families(data_directory)) {
    if (letters_of(known) == letters_of(model_type)) return fmt::format("write '{}'", known);
  }
  std::vector<std::string> strange = strange_fields(config, data_directory);
  if (strange.empty()) {
    return fmt::format(
        "its fields are known, the layers that its class makes of them are not; {}: write the name "
        "of one if the class has its very layers, and compare the parameters with the checkpoint's",
        kList);
  }
  constexpr std::size_t kMost = 8;
  const std::size_t more = strange.size() > kMost ? strange.size() - kMost : 0;
  strange.resize(strange.size() - more);
  return fmt::format("no known family reads {}{}; {}", enumerate(strange),
                     more > 0 ? fmt::format(" and {} more", more) : "", kList);
}

tl::unexpected<Error> unknown_family(const Json& config, std::string_view origin,
                                     const std::string& path, std::string_view model_type,
                                     const std::string& data_directory) {
  const Json* at = config.find("model_type");
  const std::string hint = family_hint(config, model_type.substr(0, 100), data_directory);
  return fail(json_place(origin, at == nullptr ? config : *at, path + "/model_type"),
              model_type.empty()
                  ? "the field 'model_type' is missing"
                  : fmt::format("the family '{}' is not known", model_type.substr(0, 100)),
              hint);
}

// A field that may be any JSON; only a string is a model type.
std::string model_type_of(const Json& config) {
  const Json* type = config.find("model_type");
  return type != nullptr && type->is_string() ? type->string : std::string();
}

// A config may be silent on its sizes; its family then has some, which nobody may have meant.
void add_default_note(const Json& config, const Family& family, Model& model) {
  const auto has_any = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return config.find(name) != nullptr; });
  };
  std::vector<std::string> silent;
  if (!has_any({"hidden_size", "n_embd", "n_embed", "d_model"})) {
    silent.push_back(fmt::format("hidden_size ({})", model.hidden));
  }
  if (!has_any({"num_hidden_layers", "n_layer", "n_layers", "num_layers", "layers_block_type",
                "hybrid_override_pattern"})) {
    silent.push_back(fmt::format("num_hidden_layers ({})", model.layers.size()));
  }
  // Sizes that the class has a number for, not those that it derives.
  for (const detail::IntegerField& field : {family.vocabulary, family.width, family.mtp_layers}) {
    const auto names = split(field.names, '|');
    if (field.names.empty()) continue;
    const bool given = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return name.empty() || config.find(name.substr(0, name.find('.'))) != nullptr;
    });
    if (given || field.absent == detail::kNull || field.absent == 0) continue;
    silent.push_back(fmt::format("{} ({})", names.front(), field.absent));
  }
  if (silent.empty()) return;
  model.notes.push_back(fmt::format("the config does not give {}: defaults of the family {}",
                                    enumerate(silent), model.family));
}

std::string text_model_note(std::string_view wrapper, const std::vector<std::string>& left_out) {
  return fmt::format("this is the text model of {}{}", wrapper.empty() ? "a larger model" : wrapper,
                     left_out.empty() ? ""
                                      : fmt::format("; {} {} left out", enumerate(left_out),
                                                    left_out.size() == 1 ? "is" : "are"));
}

Result<Model> read_family(const Family& family, const Json& config, std::string_view origin,
                          const std::string& path, const std::string& data_directory) {
  Diagnostics diagnostics;
  detail::ConfigFields fields(config, std::string(origin), path, diagnostics);
  fields.ignore("quantization_config|vision_config|family");
  Model model = detail::build_model(family, data_directory, fields, diagnostics);
  if (!diagnostics.empty()) return fail(std::move(diagnostics));
  // Unless whoever reads it knows a name.
  model.name = fmt::format("{} of {} parameters", model.family, to_text(parameters(model).total()));
  model.constants = detail::read_constants(config, family);
  add_default_note(config, family, model);
  if (const Json* at = config.find("quantization_config"); at != nullptr && !at->is_null()) {
    model.notes.push_back("quantization_config is left out: weights are counted unquantized");
  }
  if (const Json* at = config.find("vision_config"); at != nullptr && !at->is_null()) {
    model.notes.push_back(text_model_note(model_type_of(config), {"vision_config"}));
  }
  return model;
}

// The wrappers whose text model need not name its type.
std::string_view text_type_of(std::string_view wrapper) {
  if (wrapper == "llama4") return "llama4_text";
  if (wrapper == "gemma3") return "gemma3_text";
  return {};
}

// The family that the config describes itself, or the one of its model_type.
Result<std::optional<Family>> family_of(const Json& config, std::string_view type,
                                        std::string_view origin,
                                        const std::string& data_directory) {
  const Json* own = config.find("family");
  if (own == nullptr || !own->is_object()) return detail::find_family(type, data_directory);
  return TW_TRY(detail::inline_family(*own, type.empty() ? "own" : type, std::string(origin),
                                      data_directory));
}

Result<Model> read_wrapper(const Json& config, const Json& text, std::string_view origin,
                           const std::string& data_directory) {
  const std::string wrapper = model_type_of(config);
  std::string type = model_type_of(text);
  if (type.empty()) type = text_type_of(wrapper);
  const auto family = TW_TRY(family_of(text, type, origin, data_directory));
  if (!family) return unknown_family(text, origin, "/text_config", type, data_directory);
  Json inner = text;
  const Json* tied = config.find("tie_word_embeddings");
  if (tied != nullptr && text.find("tie_word_embeddings") == nullptr) {
    inner.add("tie_word_embeddings", *tied);
  }
  Model model = TW_TRY(read_family(*family, inner, origin, "/text_config", data_directory));
  std::vector<std::string> left_out;
  for (const auto& [key, value] : config.members) {
    if (value.is_object() && key != "text_config" && !detail::is_ignored_field(key)) {
      left_out.push_back(key.substr(0, 60));
    }
  }
  model.notes.push_back(text_model_note(wrapper, left_out));
  return model;
}

}  // namespace

Result<Model> model_from_json(const Json& config, std::string_view origin,
                              const std::string& data_directory) {
  if (!config.is_object()) {
    return fail(json_place(origin, config, ""),
                fmt::format("expected a config object, found {}", name_of(config.kind)));
  }
  const Json* text = config.find("text_config");
  if (text != nullptr && text->is_object())
    return read_wrapper(config, *text, origin, data_directory);
  const std::string type = model_type_of(config);
  const auto family = TW_TRY(family_of(config, type, origin, data_directory));
  if (!family) {
    // A file of the zoo holds its config beside the name.
    const Json* inner = config.find("config");
    if (type.empty() && inner != nullptr && inner->is_object() && inner->find("model_type")) {
      return model_from_json(*inner, origin, data_directory);
    }
    return unknown_family(config, origin, "", type, data_directory);
  }
  return read_family(*family, config, origin, "", data_directory);
}

Result<Model> parse_model(std::string_view text, std::string_view origin,
                          const std::string& data_directory) {
  const Json config = TW_TRY(parse_json(text, origin));
  return model_from_json(config, origin, data_directory);
}

Result<Model> read_model(const std::string& path, const std::string& data_directory) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool is_directory = fs::is_directory(path, ignored);
  const std::string file = is_directory ? (fs::path(path) / "config.json").string() : path;
  const Json config = TW_TRY(read_json_file(file));
  Model model = TW_TRY(model_from_json(config, file, data_directory));
  // "models/llama/config.json" and "models/llama/" are called llama, "tiny.json" is called tiny;
  // "config.json" says no more than what is in it.
  fs::path named = fs::path(file).lexically_normal();
  if (named.filename() == "config.json" && named.has_parent_path()) {
    model.name = fs::absolute(named, ignored).parent_path().filename().string();
  } else if (named.filename() != "config.json") {
    model.name = named.stem().string();
  }
  if (const std::string hidden = hidden_fault(model.name); !hidden.empty()) {
    return fail(file, "the model would be called as its folder or file, whose name " + hidden,
                "rename it");
  }
  return model;
}

std::vector<std::string> known_families(const std::string& data_directory) {
  std::vector<std::string> names;
  for (const Family& family :
       detail::all_families(data_directory).value_or(std::vector<Family>())) {
    names.push_back(family.model_type);
  }
  return names;
}

}  // namespace trainwright
