#include "trainwright/cli/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/followed.h"
#include "trainwright/export/export.h"
#include "trainwright/layout/keys.h"

namespace trainwright::cli {
namespace {

bool has_key(std::string_view layout, std::string_view key) {
  return entry_of(layout, key).has_value();
}

struct Needed {
  const char *key, *what, *hint;
};
constexpr Needed kNeeded[] = {
    {"seq", "the length of a sequence", "add --seq, for instance --seq 4k"},
    {"gbs", "how many sequences a step has", "add --batch, for instance --batch 64"},
    {"mbs", "how many sequences a micro-batch has", ""}};  // for --layout

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

Diagnostics missing(const Words& words, const Understood& understood, const std::string& file,
                    const std::string& where) {
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
      ask(one.what, *one.hint != '\0' ? one.hint : fmt::format("add {}=... {}", one.key, where));
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
                      fmt::format("write it out there, or add {}=... {}", one.key, where)});
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
std::string with_name(const std::string& text, const std::string& data) {
  auto json = parse_json(text, "model");
  const auto model = parse_model(text, "model", data);
  if (!json || !json->is_object() || !model) return text;
  json->add("_name_or_path", Json::of(fmt::format("{} layers of {}", model->layers.size(),
                                                  with_thousands(model->hidden))));
  return to_line(*json);
}

// What the answer leaves out of a file.
std::vector<std::string> not_counted_of(const Understood& understood, const std::string& file) {
  std::vector<std::string> notes = understood.not_counted;
  if (!understood.not_heeded.empty()) {
    notes.push_back(fmt::format("{} sets {}: not heeded here, though it may change memory or time.",
                                file, join(understood.not_heeded, ", ")));
  }
  return notes;
}

std::vector<std::string> notes_on(const Understood& understood, const std::string& file) {
  std::vector<std::string> notes = understood.notes;
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
          "of torchtitan 0.2, ds_config.json, YAML of accelerate, axolotl, LLaMA-Factory or TRL, "
          "arguments of Hugging Face's Trainer",
          false, "FILE"};
}

namespace {

// Another program's file, which has no word of the trainer that its ending stands for.
bool is_strange(const std::vector<Setting>& settings, const Trainer& trainer, const Target& target,
                SettingsForm form) {
  if (form != SettingsForm::Yaml && form != SettingsForm::Json) return false;
  const std::vector<std::string> known = known_keys(trainer, target);
  return std::none_of(settings.begin(), settings.end(), [&](const Setting& one) {
    return std::binary_search(known.begin(), known.end(), one.key);
  });
}

// Entries under others that go before them.
std::string over(const std::string& layout, const std::string& change) {
  return change.empty() ? layout : layout.empty() ? change : amended(layout, change);
}

struct Heard {
  Understood understood;
  std::string trainer;  // asked for, or whose file it is
};

// A user's own file, and what it is asked about.
struct ConfigFile {
  const Invocation& invocation;
  const Words& given;
  const std::string& path;
  const std::vector<Setting>& settings;
  SettingsForm form;
  std::vector<std::string> command = {};   // that a script starts, as of started_program
  std::optional<std::int64_t> world = {};  // ranks and nodes of the cluster, if it is known
  std::int64_t nodes = 1;
};

// By the list of the target's own keys, where there is one.
Result<ClassedKeys> classed_settings(const ConfigFile& asked, const std::vector<Setting>& settings,
                                     const Target& target, const std::string& file) {
  const auto keys = TW_TRY(find_import_keys(asked.invocation.data.path(), target.name));
  if (!keys)
    return ClassedKeys{.counted = settings, .notes = {}, .without_effect = 0, .faults = {}};
  return class_keys(settings, *keys, file, !asked.given.job.empty());
}

Result<Heard> hear_settings(const ConfigFile& asked, const std::string& file) {
  const auto& [invocation, given, path, settings, form, command, world, nodes] = asked;
  const std::string called =
      given.trainer.empty() ? trainer_of_settings(settings, form) : given.trainer;
  const Trainer trainer = TW_TRY(invocation.data.trainer(called));
  const Target target = TW_TRY(find_target("", trainer));
  if (given.trainer.empty() && is_strange(settings, trainer, target, form)) {
    return fail(file, fmt::format("none of its settings is one of {}'s", trainer.title),
                "say in --layout what it says: tp=..., mbs=..., gbs=..., seq=...");
  }
  ClassedKeys classed = TW_TRY(classed_settings(asked, settings, target, file));
  if (!classed.faults.empty()) return fail(std::move(classed.faults));
  std::optional<std::int64_t> layers;
  if (const auto model = find_model(given.model, invocation.data.path());
      !given.model.empty() && model)
    layers = static_cast<std::int64_t>(model->layers.size());
  Understood understood = TW_TRY(
      of_file(understand(classed.counted, trainer, target, world, layers, given.layout), file));
  understood.not_counted = std::move(classed.notes);
  understood.ignored += classed.without_effect;
  return Heard{std::move(understood), called};
}

// Of accelerate's own settings beside arguments of the Trainer: what the Trainer has no word for.
// How many micro-batches a step has is the Trainer's to say.
Result<std::optional<Heard>> hear_launch(const ConfigFile& asked, const LaunchSettings& launch) {
  std::vector<Setting> settings = launch.settings;
  std::string deepspeed;
  std::erase_if(settings, [&](const Setting& one) {
    if (one.key == "deepspeed_config.deepspeed_config_file" && !one.values.empty())
      deepspeed = one.values.front();
    return one.key == "deepspeed_config.deepspeed_config_file" ||
           one.key.ends_with("gradient_accumulation_steps");
  });
  const bool sharded = std::any_of(settings.begin(), settings.end(), [](const Setting& one) {
    return one.key == "distributed_type" || one.key.starts_with("parallelism_config.");
  });
  if (!sharded) return std::optional<Heard>();
  Words given = asked.given;
  given.trainer.clear();  // whatever is asked about, the file is accelerate's
  const ConfigFile theirs{asked.invocation,   given, asked.path,  settings,
                          SettingsForm::Yaml, {},    asked.world, asked.nodes};
  Heard heard = TW_TRY(hear_settings(theirs, launch.file));
  if (!deepspeed.empty()) {
    const std::string where = launch.file + " deepspeed_config_file";
    const std::string entries =
        TW_TRY(deepspeed_of({asked.path, where, deepspeed, asked.given.layout},
                            asked.invocation.data.path(), heard.understood));
    heard.understood.layout = over(heard.understood.layout, entries);
  }
  if (!asked.given.trainer.empty()) heard.trainer = asked.given.trainer;
  return std::optional(std::move(heard));
}

// Where neither says a precision, accelerate's is the one (transformers training_args.py
// mixed_precision_dtype).
void add_precision(std::vector<Setting>& settings, const LaunchSettings& launch) {
  const auto is = [&](std::string_view key) {
    return std::any_of(settings.begin(), settings.end(), [&](const Setting& one) {
      return one.key == key || one.key == fmt::format("--{}", key);
    });
  };
  if (is("bf16") || is("fp16")) return;
  for (const Setting& one : launch.settings) {
    const bool named = one.key == "mixed_precision" && !one.values.empty();
    if (named && (one.values.front() == "bf16" || one.values.front() == "fp16"))
      settings.push_back({.key = one.values.front(), .values = {"true"}, .of = {}, .why = {}});
  }
}

// What accelerate says goes behind what the Trainer's own arguments say.
void join_launch(Understood& understood, Heard launch, const LaunchSettings& told) {
  for (const char* key :
       {"tp", "cp", "cp_kind", "sharding", "zero", "dp_replicate", "offload", "recompute"}) {
    const auto value = entry_of(launch.understood.layout, key);
    if (value && !has_key(understood.layout, key))
      understood.layout += fmt::format(",{}={}", key, *value);
  }
  launch.understood.ignored = 0;
  for (std::string& note : notes_on(launch.understood, told.file))
    understood.notes.push_back(std::move(note));
  for (std::string& note : not_counted_of(launch.understood, told.file))
    understood.not_counted.push_back(std::move(note));
}

// The program of fine-tuning whose file it is, if any. Diagnoses those whose files are not read.
Result<std::optional<ImportProgram>> fine_tuner_of(const ConfigFile& asked) {
  const ImportPrograms known = TW_TRY(read_import_programs(asked.invocation.data.path()));
  const ImportProgram* program = program_of(asked.settings, asked.command, known);
  const std::string file = file_named(asked.path);
  if (program != nullptr && !program->refused.empty()) {
    return fail(file, fmt::format("a file of {}: {}", program->title, program->refused),
                "leave it out, and say with --layout and --job what it says");
  }
  const bool hugging_face =
      program != nullptr ||
      std::any_of(asked.settings.begin(), asked.settings.end(),
                  [](const Setting& one) { return plain_key(one.key) == "model_name_or_path"; });
  const std::string other = hugging_face ? other_method(asked.command, known) : "";
  if (!other.empty()) {
    return fail(file, other + ", which is not counted here",
                "supervised fine-tuning of one model is what can be asked about");
  }
  return program == nullptr ? std::nullopt : std::optional(*program);
}

// The settings of a section, without its name.
std::vector<Setting> section_of(const std::vector<Setting>& settings, std::string_view name) {
  std::vector<Setting> inside;
  for (const Setting& one : settings) {
    if (!one.key.starts_with(name)) continue;
    inside.push_back(one);
    inside.back().key.erase(0, name.size());
  }
  return inside;
}

Result<std::optional<Heard>> hear_fine_tuning(const ConfigFile& asked,
                                              const std::optional<LaunchSettings>& told) {
  const auto program = TW_TRY(fine_tuner_of(asked));
  if (!program) return std::optional<Heard>();
  const Words& given = asked.given;
  std::vector<std::string> notes;
  std::vector<Setting> all_settings = TW_TRY(with_fsdp_file(asked.path, asked.settings, notes));
  if (told) add_precision(all_settings, *told);
  const ImportKeys keys = TW_TRY(read_import_keys(asked.invocation.data.path(), program->name));
  ClassedKeys classed = class_keys(all_settings, keys, file_named(asked.path), !given.job.empty());
  if (!classed.faults.empty()) return fail(std::move(classed.faults));
  const auto& settings = classed.counted;
  const FineTuner tuner = *fine_tuner_named(program->name);
  std::optional<Heard> launch;
  if (told) launch = TW_TRY(hear_launch(asked, *told));
  const std::string before = launch ? over(launch->understood.layout, given.layout) : given.layout;
  auto fine = understand_fine_tuning(tuner, settings, asked.world, before, asked.nodes);
  fine.understood.not_counted = std::move(classed.notes);
  fine.understood.notes.push_back(fmt::format("Read as a file of {}.", program->title));
  for (std::string& note : notes) fine.understood.notes.push_back(std::move(note));
  if (!fine.deepspeed.empty()) {
    const std::string where = file_named(asked.path) + " deepspeed";
    const std::string entries =
        TW_TRY(deepspeed_of({asked.path, where, fine.deepspeed, given.layout},
                            asked.invocation.data.path(), fine.understood));
    if (!entries.empty()) fine.understood.layout += ',' + entries;
  }
  const std::vector<Setting> inside = section_of(settings, "deepspeed.");
  const auto told_inside =
      tell_deepspeed(inside, file_named(asked.path), asked.invocation.data.path(), fine.understood);
  if (!told_inside) return tl::unexpected<Error>(told_inside.error());
  const std::string all = over(fine.understood.layout, given.layout);
  const bool said = launch || has_key(all, "sharding") || has_key(all, "zero");
  if (told && !said && told->file == file_named(asked.path)) {
    fine.understood.notes.emplace_back(
        "accelerate launch has no --config_file: what `accelerate config` has written on that "
        "machine is not read here, and no sharding is assumed.");
  }
  std::string trainer = fine.trainer;
  if (launch) {
    if (launch->trainer == "accelerate-deepspeed" && trainer == fine.trainer &&
        !trainer.ends_with("-deepspeed"))
      trainer += "-deepspeed";
    join_launch(fine.understood, *std::move(launch), *told);
  }
  return std::optional(
      Heard{std::move(fine.understood), given.trainer.empty() ? trainer : given.trainer});
}

Result<Heard> hear_file(const Invocation& invocation, const Words& given, const std::string& path,
                        const std::string& text, SettingsForm form) {
  const auto settings = TW_TRY(read_settings(text, file_named(path), form));
  ConfigFile asked{invocation, given, path, settings, form, started_program(text, form)};
  if (!given.on.empty()) {
    const Hardware& hardware = *TW_TRY(invocation.data.hardware());
    const Cluster cluster = TW_TRY(parse_cluster(given.on, hardware));
    asked.world = accelerator_count(cluster);
    asked.nodes = node_count(cluster);
  }
  const auto told = TW_TRY(launch_settings_of(path, text, form, given.layout));
  auto fine = TW_TRY(hear_fine_tuning(asked, told));
  std::optional<Heard> launch;
  if (!fine && told) launch = TW_TRY(hear_launch(asked, *told));
  Heard heard = fine     ? *std::move(fine)
                : launch ? *std::move(launch)
                         : TW_TRY(hear_settings(asked, file_named(path)));
  if (told) {
    auto& notes = heard.understood.notes;
    notes.insert(notes.end(), told->notes.begin(), told->notes.end());
  }
  return heard;
}

}  // namespace

Result<ConfigWords> with_config(const Invocation& invocation, Words given,
                                const std::string& where) {
  const auto path = invocation.text("config");
  if (!path) return ConfigWords{std::move(given), {}, {}};
  const std::string file = file_named(*path);
  const SettingsForm form = form_of(*path);
  const std::string text = TW_TRY(read_file(*path));
  const Heard heard = TW_TRY(hear_file(invocation, given, *path, text, form));
  const Understood& understood = heard.understood;
  given.trainer = heard.trainer;
  const std::string other_one =
      other_model(given.model, understood.model, file, invocation.data.path());
  if (auto faults = missing(given, understood, file, where); !faults.empty())
    return fail(std::move(faults));
  given.layout =
      given.layout.empty() ? understood.layout : amended(understood.layout, given.layout);
  if (given.job.empty()) given.job = understood.job;
  if (given.attention.empty()) given.attention = understood.attention;
  if (given.model.empty()) given.model = with_name(understood.model, invocation.data.path());
  if (given.schedule.empty()) given.schedule = beside(*path, understood.schedule);
  auto notes = script_notes(text, file, form);
  for (std::string& note : notes) note += '.';
  if (!other_one.empty()) notes.push_back(other_one);
  for (std::string& note : notes_on(understood, file)) notes.push_back(std::move(note));
  return ConfigWords{std::move(given), std::move(notes), not_counted_of(understood, file)};
}

}  // namespace trainwright::cli
