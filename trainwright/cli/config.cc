#include "trainwright/cli/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"

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

Diagnostics missing(const Words& words, const Understood& understood, const std::string& file) {
  Diagnostics faults;
  const auto ask = [&](std::string what, std::string hint) {
    faults.push_back({file, fmt::format("{} is not said there", what), std::move(hint)});
  };
  if (words.model.empty()) ask("the model", "give its name or its config.json");
  if (words.on.empty()) {
    const std::string count = understood.ranks > 0 ? std::to_string(understood.ranks) : "64";
    ask("the accelerator", fmt::format("add --on, for instance --on {}xH100", count));
  }
  for (const auto& [key, what] : {std::pair{"seq", "the length of a sequence"},
                                  {"gbs", "how many sequences a step has"},
                                  {"mbs", "how many sequences a micro-batch has"}}) {
    const auto& list = understood.not_said;
    const bool unsaid = std::find(list.begin(), list.end(), key) != list.end();
    if (unsaid && !has_key(words.layout, key))
      ask(what, fmt::format("add {}=... to --layout", key));
  }
  return faults;
}

std::vector<std::string> notes_on(const Understood& understood, const std::string& file) {
  std::vector<std::string> notes;
  if (!understood.not_heeded.empty()) {
    notes.push_back(fmt::format("{} sets {}: not heeded here, though it may change memory or time.",
                                file, join(understood.not_heeded, ", ")));
  }
  if (understood.ignored > 0) {
    notes.push_back(
        fmt::format("{} other settings of {} have no part in this.", understood.ignored, file));
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
  const Trainer trainer = TW_TRY(find_trainer(given.trainer, invocation.data.path()));
  const Target target = TW_TRY(find_target("", trainer));
  std::optional<std::int64_t> world;
  if (!given.on.empty()) {
    const auto hardware = TW_TRY(load_hardware(invocation.data.path()));
    const Cluster cluster = TW_TRY(parse_cluster(given.on, hardware));
    world = accelerator_count(cluster);
  }
  const Understood understood = TW_TRY(understand(settings, trainer, target, world));
  given.layout =
      given.layout.empty() ? understood.layout : amended(understood.layout, given.layout);
  if (given.job.empty()) given.job = understood.job;
  if (given.model.empty()) given.model = understood.model;
  if (given.schedule.empty()) given.schedule = beside(*path, understood.schedule);
  if (auto faults = missing(given, understood, file); !faults.empty())
    return fail(std::move(faults));
  auto notes = script_notes(text, file, form);
  for (std::string& note : notes) note += '.';
  for (std::string& note : notes_on(understood, file)) notes.push_back(std::move(note));
  return ConfigWords{std::move(given), std::move(notes)};
}

}  // namespace trainwright::cli
