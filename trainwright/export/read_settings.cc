// From the text of a file or a command line to settings.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"
#include "trainwright/export/pattern.h"
#include "trainwright/export/read.h"

namespace trainwright {
namespace detail {
namespace {

std::string plain_text(const Json& json) {
  if (json.is_string()) return json.string;
  if (!json.is_array()) return to_line(json);
  std::vector<std::string> items;
  for (const Json& item : json.items) items.push_back(plain_text(item));
  return list_text(items);
}

// {"a": {"b": 8}} is a.b=8. Below a long key every setting would repeat it.
constexpr std::size_t kLongestKey = 1000;
void flatten(const Json& json, const std::string& path, std::string_view origin,
             std::vector<Setting>& settings, Diagnostics& faults) {
  for (const JsonMember& member : json.members) {
    const std::string key = path.empty() ? member.key : path + '.' + member.key;
    if (key.size() > kLongestKey) {
      if (faults.size() < kMostUnknown)
        faults.push_back(
            {json_place(origin, member.value, ""),
             fmt::format("a key is {} characters long", with_thousands(std::ssize(key))),
             fmt::format("at most {} are read, with those it stands in",
                         with_thousands(kLongestKey))});
    } else if (member.value.is_object()) {
      flatten(member.value, key, origin, settings, faults);
    } else if (!member.value.is_null()) {
      const int line = member.value.line;
      settings.push_back({.key = key,
                          .values = {plain_text(member.value)},
                          .of = {},
                          .why = {},
                          .where = line > 0 ? fmt::format("{}:{}", origin, line) : ""});
    }
  }
}

// --section.key words: dashes may stand for underscores, no- for false, words for a list of lists.
Setting dotted(Setting setting) {
  std::string key = setting.key.substr(2);
  const std::size_t last = key.rfind('.') + 1;
  const bool negated = key.substr(last).starts_with("no-") || key.substr(last).starts_with("no_");
  if (negated) key.erase(last, 3);
  std::replace(key.begin(), key.end(), '-', '_');
  setting.key = std::move(key);
  if (setting.values.empty()) {
    setting.values = {negated ? "false" : "true"};
  } else if (setting.values.size() > 1) {
    std::vector<std::string> lists;
    for (const std::string& word : setting.values) lists.push_back('[' + word + ']');
    setting.values = {list_text(lists)};
  }
  return setting;
}

bool is_variable(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Of a value without a section.
bool is_top(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

// Values of an option that hang on what a script does not set: words of their own, if any.
void drop_unset(Setting& setting) {
  auto& values = setting.values;
  while (values.size() > 1 && values.back().starts_with('$')) values.pop_back();
}

// One group of words: an option has the words up to the next one.
void take_group(const std::vector<ShellWord>& words, std::string_view origin,
                std::vector<Setting>& settings) {
  bool open = false;  // words may follow the last option
  for (const ShellWord& one : words) {
    const std::string& word = one.text;
    const std::size_t equals = word.find('=');
    const std::string_view name = std::string_view(word).substr(0, equals);
    const bool awaited = open && settings.back().values.empty();
    const auto begin = [&](std::string key) {
      settings.push_back({.key = std::move(key),
                          .values = {},
                          .of = {},
                          .why = {},
                          .where = fmt::format("{}:{}", origin, one.line)});
      if (equals != std::string::npos) settings.back().values = {word.substr(equals + 1)};
    };
    if (word.starts_with("--")) {
      begin(word.substr(0, equals));
      open = equals == std::string::npos;
    } else if (is_override(word) ||
               (equals != std::string::npos && (is_variable(name) || (is_top(name) && !awaited)))) {
      begin(word.substr(0, equals));
      open = false;
    } else if (word.find(':') != std::string::npos &&
               word.find_first_of("/$.={}[]\"") == std::string::npos) {
      std::string key = word;
      std::replace(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(key.find(':')), '-', '_');
      begin(std::move(key));
      open = false;
    } else if (open) {
      settings.back().values.push_back(word);
    }
  }
}

// torchtitan's run_train.sh hands two variables of the environment on as options.
void name_options(std::vector<Setting>& settings) {
  for (const auto& [variable, option] :
       {std::pair{"MODULE", "--module"}, std::pair{"CONFIG", "--config"}}) {
    const auto is = [](const char* key) {
      return [key](const Setting& one) { return one.key == key; };
    };
    const auto at = std::find_if(settings.begin(), settings.end(), is(variable));
    if (at != settings.end() && std::none_of(settings.begin(), settings.end(), is(option)))
      at->key = option;
  }
}

}  // namespace

std::vector<Setting> settings_among(const std::vector<ShellWord>& words, std::string_view origin) {
  std::vector<Setting> settings;
  take_group(words, origin, settings);
  for (Setting& setting : settings) drop_unset(setting);
  return settings;
}

namespace {

std::vector<Setting> settings_of_script(const Script& script, std::string_view origin) {
  std::vector<Setting> settings;
  for (const auto& group : script.groups) take_group(group, origin, settings);
  name_options(settings);
  for (Setting& setting : settings) {
    drop_unset(setting);
    if (setting.key.starts_with("--") && setting.key.find('.') != std::string::npos)
      setting = dotted(setting);
  }
  return settings;
}

// Each is looked for among all, and a model's reader refuses a few at a time; runs have a hundred.
constexpr std::size_t kMostSettings = 2000;
Result<std::vector<Setting>> few_enough(std::vector<Setting> settings, std::string_view origin) {
  if (settings.size() <= kMostSettings) return settings;
  const std::string& where = settings[kMostSettings].where;
  return fail(where.empty() ? std::string(origin) : where,
              fmt::format("more than {} settings", with_thousands(kMostSettings)),
              "leave out what is not of the training run");
}

}  // namespace
}  // namespace detail

Result<std::vector<Setting>> read_settings(std::string_view text, std::string_view origin,
                                           SettingsForm form) {
  if (text.size() > detail::kLongestSettings)
    return fail(std::string(origin),
                fmt::format("is larger than {} KiB", detail::kLongestSettings >> 10),
                "settings of a run take a few: is it the file that you mean?");
  if (form == SettingsForm::Options || form == SettingsForm::Overrides) {
    const auto script = TW_TRY(detail::read_script(text, origin));
    return detail::few_enough(detail::settings_of_script(script, origin), origin);
  }
  const Json tree = TW_TRY(form == SettingsForm::Toml   ? detail::parse_toml(text, origin)
                           : form == SettingsForm::Yaml ? detail::parse_yaml(text, origin)
                                                        : parse_json(text, origin));
  if (!tree.is_object())
    return fail(std::string(origin),
                fmt::format("expected settings, found {}", name_of(tree.kind)));
  std::vector<Setting> settings;
  Diagnostics faults;
  detail::flatten(tree, "", origin, settings, faults);
  if (!faults.empty()) return fail(std::move(faults));
  return detail::few_enough(std::move(settings), origin);
}

std::vector<std::string> script_notes(std::string_view text, std::string_view origin,
                                      SettingsForm form) {
  if (form != SettingsForm::Options && form != SettingsForm::Overrides) return {};
  std::vector<std::string> notes;
  const auto script = detail::read_script(text, origin);
  if (!script) return notes;  // read_settings says why
  for (const std::string& note : script->notes) notes.push_back(fmt::format("{}:{}", origin, note));
  return notes;
}

SettingsForm form_of(std::string_view path) {
  if (path.ends_with(".toml")) return SettingsForm::Toml;
  if (path.ends_with(".yaml") || path.ends_with(".yml")) return SettingsForm::Yaml;
  if (path.ends_with(".json")) return SettingsForm::Json;
  return SettingsForm::Options;
}

std::string trainer_of_settings(const std::vector<Setting>& settings, SettingsForm form) {
  const auto has = [&](std::string_view key, std::string_view value = {}) {
    return std::any_of(settings.begin(), settings.end(), [&](const Setting& one) {
      return one.key.starts_with(key) &&
             (value.empty() || (!one.values.empty() && one.values.front() == value));
    });
  };
  switch (form) {
    case SettingsForm::Toml: return "torchtitan@0.2";
    case SettingsForm::Json: return "deepspeed";
    case SettingsForm::Yaml:
      return has("distributed_type", "DEEPSPEED") ? "accelerate-deepspeed" : "accelerate";
    case SettingsForm::Options:
    case SettingsForm::Overrides: break;
  }
  if (has("train.micro_batch_size") || has("train.global_batch_size")) return "megatron-bridge";
  return has("parallelism.") || has("training.") ? "torchtitan@0.3" : "megatron-core";
}

}  // namespace trainwright
