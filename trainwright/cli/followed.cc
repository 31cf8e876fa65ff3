#include "trainwright/cli/followed.h"

#include <fmt/format.h>

#include "trainwright/base/text.h"
#include "trainwright/question/question.h"

namespace trainwright::cli {
namespace {

// Its text, from beside the file that names it or from the current folder.
std::optional<std::string> followed_text(const std::string& config, const std::string& path) {
  for (const std::string& place : {beside(config, path), path}) {
    if (auto text = read_file(place)) return *std::move(text);
  }
  return std::nullopt;
}

bool says_sharding(const std::string& layout) {
  return entry_of(layout, "zero").has_value() || entry_of(layout, "sharding").has_value();
}

Diagnostic not_there(const std::string& config, const std::string& where, const std::string& path,
                     const char* hint) {
  return {where,
          fmt::format("{} is neither beside {} nor in the current folder, and how weights are "
                      "sharded stands there",
                      path, file_named(config)),
          hint};
}

}  // namespace

std::string file_named(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string beside(const std::string& config, const std::string& path) {
  const std::size_t slash = config.rfind('/');
  if (path.empty() || path.starts_with('/') || slash == std::string::npos) return path;
  return config.substr(0, slash + 1) + path;
}

Result<void> tell_deepspeed(const std::vector<Setting>& settings, const std::string& file,
                            const std::string& data, Understood& understood) {
  const ImportKeys keys = TW_TRY(read_import_keys(data, "deepspeed"));
  ClassedKeys classed = class_keys(settings, keys, file, /*job=*/false);
  if (!classed.faults.empty()) return fail(std::move(classed.faults));
  for (std::string& note : classed.notes) understood.not_counted.push_back(std::move(note));
  return {};
}

Result<std::string> deepspeed_of(const NamedFile& named, const std::string& data,
                                 Understood& understood) {
  const auto& [config, where, path, layout] = named;
  const auto text = followed_text(config, path);
  if (text) {
    const auto settings = TW_TRY(read_settings(*text, file_named(path), SettingsForm::Json));
    const auto told = tell_deepspeed(settings, file_named(path), data, understood);
    if (!told) return tl::unexpected<Error>(told.error());
    return deepspeed_entries(settings);
  }
  if (std::string shipped = shipped_deepspeed_entries(path); !shipped.empty()) {
    understood.notes.push_back(fmt::format(
        "{} is not here: {}, as the program brings it along, is assumed.", path, shipped));
    return shipped;
  }
  if (says_sharding(layout)) {
    understood.notes.push_back(
        fmt::format("{} is not here: what it says beside zero is not heeded.", path));
    return std::string();
  }
  return fail({not_there(config, where, path, "put it there, or add zero=3 (0 to 3) to --layout")});
}

Result<std::vector<Setting>> with_fsdp_file(const std::string& config,
                                            std::vector<Setting> settings,
                                            std::vector<std::string>& notes) {
  std::string path;
  for (const Setting& one : settings) {
    const bool named = one.key == "fsdp_config" || one.key == "--fsdp_config";
    if (named && !one.values.empty()) path = one.values.front();
  }
  if (path.empty()) return settings;
  const auto text = followed_text(config, path);
  if (!text) {
    notes.push_back(fmt::format("{} is not here: what it says is not heeded.", path));
    return settings;
  }
  auto own = TW_TRY(read_settings(*text, file_named(path), SettingsForm::Json));
  for (Setting& one : own) {
    one.key = "fsdp_config." + one.key;
    settings.push_back(std::move(one));
  }
  return settings;
}

Result<std::optional<LaunchSettings>> launch_settings_of(const std::string& config,
                                                         const std::string& text, SettingsForm form,
                                                         const std::string& layout) {
  const std::string script = file_named(config);
  auto launch = accelerate_launch(text, script, form);
  if (!launch) return std::optional<LaunchSettings>();
  LaunchSettings told{.settings = {}, .file = script, .notes = {}};
  if (!launch->config_file.empty()) {
    const auto own = followed_text(config, launch->config_file);
    if (!own && !says_sharding(layout)) {
      return fail({not_there(config, launch->config_where + " --config_file", launch->config_file,
                             "put it there, or add sharding=fsdp, or sharding=ddp for none, to "
                             "--layout")});
    }
    if (own) {
      told.file = file_named(launch->config_file);
      told.settings = TW_TRY(read_settings(*own, told.file, form_of(told.file)));
    } else {
      told.notes.push_back(fmt::format(
          "{} is not here: what it says beside sharding is not heeded.", launch->config_file));
    }
  }
  for (Setting& setting : launch->settings) told.settings.push_back(std::move(setting));
  return std::optional(std::move(told));
}

}  // namespace trainwright::cli
