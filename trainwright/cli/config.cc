#include "trainwright/cli/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"
#include "trainwright/layout/keys.h"

namespace trainwright::cli {
namespace {

// "launch.sh" for the one who has to look there.
std::string named(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string beside(const std::string& config, const std::string& path) {
  const std::size_t slash = config.rfind('/');
  if (path.empty() || path.starts_with('/') || slash == std::string::npos) return path;
  return config.substr(0, slash + 1) + path;
}

bool has_key(std::string_view layout, std::string_view key) {
  for (const std::string_view entry : split(layout, ',')) {
    if (trim(entry.substr(0, entry.find('='))) == key) return true;
  }
  return false;
}

struct Needed {
  const char *key, *what, *hint;
};
constexpr Needed kNeeded[] = {
    {"seq", "the length of a sequence", "add --seq, for instance --seq 4k"},
    {"gbs", "how many sequences a step has", "add --batch, for instance --batch 64"},
    {"mbs", "how many sequences a micro-batch has", "add mbs=... to --layout"}};

// A model that a script describes but for its vocabulary, which Megatron-LM takes from a tokenizer.
bool lacks_vocabulary(const std::string& model) {
  const auto json = parse_json(model, "model");
  return json && json->is_object() && json->find("num_layers") != nullptr &&
         json->find("vocab_size") == nullptr && json->find("padded_vocab_size") == nullptr;
}

// Whether a value is there that cannot be read, other than "auto".
bool written(const Understood& understood, std::string_view key) {
  const auto& list = understood.unreadable;
  return std::any_of(list.begin(), list.end(), [&](const Unreadable& one) {
    return one.key == key && lower_case(one.value) != "auto";
  });
}

Diagnostics missing(const Words& words, const Understood& understood, const std::string& file) {
  Diagnostics faults;
  const auto ask = [&](std::string what, std::string hint) {
    faults.push_back({file, fmt::format("{} is not said there", what), std::move(hint)});
  };
  const std::string& model = words.model.empty() ? understood.model : words.model;
  if (model.empty()) ask("the model", "give its name or its config.json");
  if (lacks_vocabulary(model)) {
    ask("the size of the vocabulary",
        "add --vocab-size to its options (GPT2BPETokenizer has 50257), or name the model: "
        "trainwright estimate MODEL --config " +
            file);
  }
  if (words.on.empty()) {
    const std::string count = understood.ranks > 0 ? std::to_string(understood.ranks) : "64";
    ask("the accelerator", fmt::format("add --on, for instance --on {}xH100", count));
  }
  const auto& list = understood.not_said;
  for (const Needed& one : kNeeded) {
    const bool unsaid = std::find(list.begin(), list.end(), one.key) != list.end();
    if (unsaid && !written(understood, one.key) && !has_key(words.layout, one.key))
      ask(one.what, one.hint);
  }
  const auto keys = layout_keys();
  for (const Unreadable& one : understood.unreadable) {
    const bool ours = std::any_of(keys.begin(), keys.end(),
                                  [&](const EntryKey& key) { return key.name == one.key; });
    const bool asked =
        std::find(list.begin(), list.end(), one.key) != list.end() && !written(understood, one.key);
    if (!ours || asked || has_key(words.layout, one.key)) continue;
    faults.push_back({one.where.find(':') != std::string::npos
                          ? one.where
                          : fmt::format("{} {}", file, one.where),
                      fmt::format("'{}' cannot be read as {}", one.value, one.key),
                      fmt::format("write it out there, or add {}=... to --layout", one.key)});
  }
  return faults;
}

// The file's own model, if it is another one than the one that was named.
std::string other_model(const std::string& named_model, const std::string& theirs,
                        const std::string& file, const std::string& data) {
  if (named_model.empty() || theirs.empty()) return "";
  std::int64_t layers = 0, hidden = 0;
  if (const auto json = parse_json(theirs, "model"); json && json->is_object()) {
    const auto number = [&](const char* key) {
      const Json* value = json->find(key);
      return value == nullptr ? 0 : parse_integer(to_line(*value)).value_or(0);
    };
    layers = number("num_layers");
    hidden = number("hidden_size");
  } else if (const auto model = find_model(theirs, data)) {
    layers = static_cast<std::int64_t>(model->layers.size());
    hidden = model->hidden;
  }
  const auto model = find_model(named_model, data);
  if (!model) return "";
  const auto depth = static_cast<std::int64_t>(model->layers.size());
  const bool same = (layers == 0 || layers == depth) && (hidden == 0 || hidden == model->hidden);
  return same ? ""
              : fmt::format("{} is about another model, {} layers of {}: {}, {} of {}, is counted.",
                            file, layers, with_thousands(hidden), model->name, depth,
                            with_thousands(model->hidden));
}

// Faults with the file before their place.
Result<Understood> of_file(Result<Understood> understood, const std::string& file) {
  if (understood) return understood;
  Diagnostics faults = understood.error().diagnostics;
  for (Diagnostic& fault : faults) fault.where = fmt::format("{} {}", file, fault.where);
  return fail(std::move(faults));
}

// A model that is only described is called by its size.
std::string with_name(const std::string& text) {
  auto json = parse_json(text, "model");
  const auto model = parse_model(text, "model");
  if (!json || !json->is_object() || !model) return text;
  json->add("_name_or_path", Json::of(fmt::format("{} layers of {}", model->layers.size(),
                                                  with_thousands(model->hidden))));
  return to_line(*json);
}

std::vector<std::string> notes_on(const Understood& understood, const std::string& file) {
  std::vector<std::string> notes = understood.notes;
  if (!understood.not_heeded.empty()) {
    notes.push_back(fmt::format("{} sets {}: not heeded here, though it may change memory or time.",
                                file, join(understood.not_heeded, ", ")));
  }
  if (understood.ignored > 0) {
    notes.push_back(understood.ignored == 1
                        ? fmt::format("One other setting of {} has no part in this.", file)
                        : fmt::format("{} other settings of {} have no part in this.",
                                      understood.ignored, file));
  }
  return notes;
}

}  // namespace

Argument config_argument() {
  return {"--config", Argument::Kind::Text,
          "the trainer's own file: a script or command line of Megatron-LM or torchtitan 0.3, TOML "
          "of torchtitan 0.2, ds_config.json, YAML of accelerate",
          false, "FILE"};
}

Result<ConfigWords> with_config(const Invocation& invocation, Words given) {
  const auto path = invocation.text("config");
  if (!path) return ConfigWords{std::move(given), {}};
  const std::string file = named(*path);
  const SettingsForm form = form_of(*path);
  const std::string text = TW_TRY(read_file(*path));
  const auto settings = TW_TRY(read_settings(text, file, form));
  if (given.trainer.empty()) given.trainer = trainer_of_settings(settings, form);
  const Trainer trainer = TW_TRY(invocation.data.trainer(given.trainer));
  const Target target = TW_TRY(find_target("", trainer));
  std::optional<std::int64_t> world;
  if (!given.on.empty()) {
    const Hardware& hardware = *TW_TRY(invocation.data.hardware());
    const Cluster cluster = TW_TRY(parse_cluster(given.on, hardware));
    world = accelerator_count(cluster);
  }
  std::optional<std::int64_t> layers;
  if (const auto model = find_model(given.model, invocation.data.path());
      !given.model.empty() && model)
    layers = static_cast<std::int64_t>(model->layers.size());
  const Understood understood =
      TW_TRY(of_file(understand(settings, trainer, target, world, layers, given.layout), file));
  const std::string other =
      other_model(given.model, understood.model, file, invocation.data.path());
  if (auto faults = missing(given, understood, file); !faults.empty())
    return fail(std::move(faults));
  given.layout =
      given.layout.empty() ? understood.layout : amended(understood.layout, given.layout);
  if (given.job.empty()) given.job = understood.job;
  if (given.attention.empty()) given.attention = understood.attention;
  if (given.model.empty()) given.model = with_name(understood.model);
  if (given.schedule.empty()) given.schedule = beside(*path, understood.schedule);
  auto notes = script_notes(text, file, form);
  for (std::string& note : notes) note += '.';
  if (!other.empty()) notes.push_back(other);
  for (std::string& note : notes_on(understood, file)) notes.push_back(std::move(note));
  return ConfigWords{std::move(given), std::move(notes)};
}

}  // namespace trainwright::cli
