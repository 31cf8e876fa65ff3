#include "trainwright/export/imports.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/text.h"
#include "trainwright/export/misspelt.h"
#include "trainwright/export/read.h"

namespace trainwright {
namespace {

// "not-counted: why", "refused unless --job: why".
std::optional<KeyRule> rule_of(std::string_view text) {
  constexpr std::string_view kUnless = " unless --job";
  const std::size_t colon = std::min(text.find(": "), text.size());
  KeyRule rule;
  if (colon < text.size()) rule.reason = text.substr(colon + 2);
  std::string_view kind = text.substr(0, colon);
  rule.unless_job = kind.ends_with(kUnless);
  if (rule.unless_job) kind.remove_suffix(kUnless.size());
  constexpr std::pair<std::string_view, KeyClass> kKinds[] = {{"counted", KeyClass::Counted},
                                                              {"no-effect", KeyClass::NoEffect},
                                                              {"not-counted", KeyClass::NotCounted},
                                                              {"refused", KeyClass::Refused}};
  const auto at = std::find_if(std::begin(kKinds), std::end(kKinds),
                               [&](const auto& one) { return one.first == kind; });
  if (at == std::end(kKinds)) return std::nullopt;
  rule.kind = at->second;
  return rule;
}

void read_rules(const Json& list, const std::string& file, ImportKeys& keys, Diagnostics& faults) {
  const auto take = [&](const JsonMember& key, const std::string& value, const Json& text) {
    const auto rule = rule_of(text.string);
    if (rule) keys.rules[key.key][value] = *rule;
    if (!rule)
      faults.push_back({fmt::format("{}:{} {}", file, text.line, key.key),
                        "expected counted, no-effect, not-counted or refused", ""});
  };
  for (const JsonMember& one : list.members) {
    if (one.value.is_string()) take(one, "*", one.value);
    for (const JsonMember& value : one.value.members) take(one, value.key, value.value);
  }
}

std::string text_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value == nullptr ? "" : value->string;
}

std::vector<std::string> texts_of(const Json& json, std::string_view key) {
  std::vector<std::string> texts;
  if (const Json* list = json.find(key); list != nullptr) {
    for (const Json& item : list->items) texts.push_back(item.string);
  }
  return texts;
}

// Switched off, or left to the program.
bool says_nothing(const std::vector<std::string>& values) {
  constexpr std::string_view kNothing[] = {"false", "none", "no", "off", "null",
                                           "0",     "0.0",  "[]", "",    "auto"};
  return values.size() == 1 && std::find(std::begin(kNothing), std::end(kNothing),
                                         lower_case(values.front())) != std::end(kNothing);
}

struct FoundRule {
  std::string key;  // the listed one: its section's, if only that is listed
  const KeyRules* rules = nullptr;
};
// Of a section that is read the keys that are not listed are unknown; of another they are as it is.
FoundRule find_rules(const ImportKeys& keys, const std::string& key) {
  for (std::string of = key; !of.empty();) {
    if (const auto at = keys.rules.find(of); at != keys.rules.end()) return {of, &at->second};
    const std::size_t dot = of.rfind('.');
    if (dot == std::string::npos) break;
    of.resize(dot);
    const auto section = keys.rules.find(of);
    const auto next = keys.rules.upper_bound(of + '.');
    const bool lists = next != keys.rules.end() && next->first.starts_with(of + '.');
    const bool read =
        section != keys.rules.end() && section->second.begin()->second.kind == KeyClass::Counted;
    if (lists && read) break;
  }
  return {};
}

const KeyRule* rule_for(const KeyRules& rules, const std::string& value) {
  const auto at = rules.find(lower_case(value));
  if (at != rules.end()) return &at->second;
  const auto any = rules.find("*");
  return any == rules.end() ? nullptr : &any->second;
}

// Keys that share a reason are named together.
using ByReason = std::vector<std::pair<std::string, std::vector<std::string>>>;
void name_under(ByReason& list, const std::string& reason, const std::string& key) {
  auto at = std::find_if(list.begin(), list.end(), [&](auto& one) { return one.first == reason; });
  if (at == list.end()) at = list.insert(at, {reason, {}});
  auto& named = at->second;
  if (std::find(named.begin(), named.end(), key) == named.end()) named.push_back(key);
}

std::string not_counted_text(const ByReason& list, std::string_view file) {
  std::vector<std::string> parts;
  for (const auto& [reason, named] : list) {
    parts.push_back(enumerate(named) + (reason.empty() ? "" : fmt::format(" ({})", reason)));
  }
  return fmt::format("Not counted of {}: {}.", file, join(parts, "; "));
}

// Words that a misspelt key may have been meant for.
std::vector<std::string> words_that_matter(const ImportKeys& keys) {
  std::vector<std::string> words;
  for (const auto& [key, rules] : keys.rules) {
    if (rules.begin()->second.kind != KeyClass::NoEffect) words.push_back(key);
  }
  return words;
}

std::string place_of(const Setting& setting, std::string_view file) {
  return fmt::format("{} {}", setting.where.empty() ? file : setting.where, setting.key);
}

Diagnostic no_value(const Setting& setting, const KeyRules& rules, std::string_view file) {
  std::vector<std::string> values;
  for (const auto& [value, rule] : rules) values.push_back(value);
  const std::string& value = setting.values.front();
  return {place_of(setting, file), fmt::format("'{}' is none of its values", value),
          did_you_mean(value, values)};
}

Diagnostic refusal(const Setting& setting, const KeyRule& rule, std::string_view file) {
  constexpr std::size_t kLong = 30;
  const std::string value = setting.values.empty() ? "" : setting.values.front();
  const bool named = !value.empty() && value.size() < kLong && lower_case(value) != "true";
  return {place_of(setting, file),
          fmt::format("{}not counted here: {}", named ? value + " is " : "", rule.reason),
          rule.unless_job
              ? "--job says in the file's place what is trained, and how"
              : "without it the answer is of another run: leave it out to ask about that one"};
}

}  // namespace

std::string plain_key(std::string_view theirs) {
  std::string key(theirs.substr(theirs.starts_with("--") ? 2 : 0));
  std::replace(key.begin(), key.end(), '-', '_');
  // Of FSDP's keys without what axolotl (utils/schemas/validation.py
  // check_fsdp_config_kwargs_prefix) and transformers (training_args.py) take off.
  constexpr std::string_view kSection = "fsdp_config.", kPrefix = "fsdp_config.fsdp_";
  if (key == "fsdp_config.version") return "fsdp_config.fsdp_version";
  if (key.starts_with(kPrefix) && key != "fsdp_config.fsdp_version")
    key.erase(kSection.size(), kPrefix.size() - kSection.size());
  return key;
}

Result<ImportKeys> read_import_keys(const std::string& data, std::string_view program) {
  const std::string file = fmt::format("{}/imports/{}.json", data, program);
  const Json json = TW_TRY(read_json_file(file));
  ImportKeys keys{text_of(json, "program"), text_of(json, "version"), {}, {}};
  Diagnostics faults;
  for (const char* section : {"keys", "older_keys"}) {
    if (const Json* list = json.find(section); list != nullptr)
      read_rules(*list, file, keys, faults);
  }
  if (!faults.empty()) return fail(std::move(faults));
  if (json.find("optimizers") == nullptr) return keys;
  const Json names = TW_TRY(read_json_file(data + "/imports/optimizers.json"));
  if (const Json* list = names.find("optimizers"); list != nullptr) {
    for (const JsonMember& one : list->members) {
      const std::string& text = one.value.string;
      const std::size_t colon = std::min(text.find(": "), text.size());
      keys.optimizers[one.key] = {text.substr(0, colon),
                                  colon < text.size() ? text.substr(colon + 2) : ""};
    }
  }
  return keys;
}

Result<std::optional<ImportKeys>> find_import_keys(const std::string& data,
                                                   std::string_view program) {
  std::error_code none;
  if (!std::filesystem::exists(fmt::format("{}/imports/{}.json", data, program), none))
    return std::optional<ImportKeys>();
  return std::optional(TW_TRY(read_import_keys(data, program)));
}

Result<ImportPrograms> read_import_programs(const std::string& data) {
  const Json json = TW_TRY(read_json_file(data + "/imports/programs.json"));
  ImportPrograms known;
  if (const Json* list = json.find("programs"); list != nullptr) {
    for (const JsonMember& one : list->members) {
      known.programs.push_back({one.key, text_of(one.value, "title"), texts_of(one.value, "signs"),
                                texts_of(one.value, "commands"), text_of(one.value, "refused")});
    }
  }
  if (const Json* list = json.find("methods"); list != nullptr) {
    for (const JsonMember& one : list->members) known.methods[one.key] = one.value.string;
  }
  return known;
}

namespace {

std::string base_name(const std::string& word) { return word.substr(word.rfind('/') + 1); }

// "swift sft" one after the other.
bool starts_so(const std::vector<std::string>& command, std::string_view words) {
  const auto wanted = split(words, ' ');
  const auto same = [](const std::string& word, std::string_view want) {
    const std::string name = base_name(word);
    return want.ends_with('*') ? name.starts_with(want.substr(0, want.size() - 1)) : name == want;
  };
  return std::search(command.begin(), command.end(), wanted.begin(), wanted.end(), same) !=
         command.end();
}

}  // namespace

const ImportProgram* program_of(const std::vector<Setting>& settings,
                                const std::vector<std::string>& command,
                                const ImportPrograms& known) {
  const auto has = [&](const std::string& sign) {
    return std::any_of(settings.begin(), settings.end(), [&](const Setting& one) {
      const std::string key = plain_key(one.key);
      return key == sign || (sign.ends_with('.') && key.starts_with(sign));
    });
  };
  for (const ImportProgram& one : known.programs) {
    const bool told =
        std::any_of(one.signs.begin(), one.signs.end(), has) ||
        std::any_of(one.commands.begin(), one.commands.end(),
                    [&](const std::string& words) { return starts_so(command, words); });
    if (told) return &one;
  }
  return nullptr;
}

std::string other_method(const std::vector<std::string>& command, const ImportPrograms& known) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string name = base_name(command[i]);
    const bool script = name.ends_with(".py"), of_trl = i > 0 && base_name(command[i - 1]) == "trl";
    if (!script && !of_trl) continue;
    const std::string stem = name.substr(0, name.find('.'));
    for (const std::string_view part : split(stem, '_')) {
      const auto at = known.methods.find(part);
      if (at != known.methods.end()) return fmt::format("{}: {}", name, at->second);
    }
  }
  return "";
}

std::vector<std::string> started_program(std::string_view text, SettingsForm form) {
  if (form != SettingsForm::Options && form != SettingsForm::Overrides) return {};
  const auto script = detail::read_script(text, "");
  if (!script) return {};  // who reads its settings says so
  std::vector<std::string> words;
  for (const detail::ShellWord& word : script->launcher) words.push_back(word.text);
  if (script->launcher.empty() || script->groups.size() < 2) return words;
  for (const detail::ShellWord& word : script->groups[1]) {
    if (word.text.starts_with("--")) break;
    words.push_back(word.text);
  }
  return words;
}

namespace {

struct Classing {
  const ImportKeys& keys;
  std::string_view file;
  bool job = false;
  ClassedKeys classed = {};
  ByReason left_out = {};
  std::vector<std::string> unknown = {}, refused = {};
};

void refuse(Classing& all, const Setting& setting, const std::string& key, const KeyRule& rule) {
  if (rule.unless_job && all.job) return;
  const std::string head = key.substr(0, key.find('.'));  // of a section once
  if (std::find(all.refused.begin(), all.refused.end(), head) != all.refused.end()) return;
  all.refused.push_back(head);
  all.classed.faults.push_back(refusal(setting, rule, all.file));
}

void take_unknown(Classing& all, const Setting& setting, const std::string& key,
                  const std::vector<std::string>& words) {
  const auto meant = detail::meant_by(key, words);
  if (!meant) return all.unknown.push_back(setting.key);
  all.classed.notes.push_back(fmt::format("{} is not heeded: did you mean {}{}?", setting.key,
                                          setting.key.starts_with("--") ? "--" : "", *meant));
}

// By our name; what nobody knows is never guessed.
void take_optimizer(Classing& all, Setting setting) {
  const std::string name = lower_case(setting.values.front());
  const auto at = all.keys.optimizers.find(name);
  if (at == all.keys.optimizers.end()) {
    std::vector<std::string> names;
    for (const auto& [one, ours] : all.keys.optimizers) names.push_back(one);
    if (!all.job)
      all.classed.faults.push_back({place_of(setting, all.file),
                                    fmt::format("unknown optimizer '{}'", setting.values.front()),
                                    did_you_mean(name, names)});
    return;
  }
  const auto& [ours, why] = at->second;
  if (ours == "refused")
    return refuse(all, setting, setting.key, {KeyClass::Refused, why, /*unless_job=*/true});
  if (!why.empty()) name_under(all.left_out, why, fmt::format("{} {}", setting.key, name));
  setting.values = {ours};
  all.classed.counted.push_back(std::move(setting));
}

void take_key(Classing& all, const Setting& setting, const std::string& key,
              const FoundRule& found) {
  const auto any = found.rules->find("*");
  const bool nothing = says_nothing(setting.values);
  const std::string value = setting.values.empty() ? "true" : setting.values.front();
  // Switched off, only what is read or listed is still said.
  const bool listed = found.rules->contains(lower_case(value));
  const bool read = any != found.rules->end() && any->second.kind == KeyClass::Counted;
  if (nothing && !listed && !read) return;
  const KeyRule* rule = rule_for(*found.rules, value);
  if (rule == nullptr) {
    all.classed.faults.push_back(no_value(setting, *found.rules, all.file));
    return;
  }
  switch (rule->kind) {
    case KeyClass::NoEffect: ++all.classed.without_effect; return;
    case KeyClass::NotCounted: return name_under(all.left_out, rule->reason, setting.key);
    case KeyClass::Refused: return refuse(all, setting, found.key, *rule);
    case KeyClass::Counted: break;
  }
  if (!rule->reason.empty()) name_under(all.left_out, rule->reason, setting.key + ' ' + value);
  if (!nothing && !all.keys.optimizers.empty() && (key == "optim" || key == "optimizer"))
    return take_optimizer(all, setting);
  all.classed.counted.push_back(setting);
}

// --no_x of HfArgumentParser is x: false.
Setting affirmed(Setting setting, const ImportKeys& keys) {
  constexpr std::string_view kNo = "no_";
  const std::string key = plain_key(setting.key);
  if (!key.starts_with(kNo) || !setting.values.empty() || keys.rules.contains(key)) return setting;
  if (!keys.rules.contains(key.substr(kNo.size()))) return setting;
  setting.key = "--" + key.substr(kNo.size());
  setting.values = {"false"};
  return setting;
}

// An option's dictionary, {"use_reentrant": false}, as keys of a section.
std::vector<Setting> spread_out(const std::vector<Setting>& settings, const ImportKeys& keys) {
  std::vector<Setting> all;
  for (const Setting& setting : settings) {
    const bool object = setting.values.size() == 1 && setting.values.front().starts_with('{');
    const auto json = object ? parse_json(setting.values.front(), setting.key) : Json();
    if (!json || !json->is_object()) {
      all.push_back(affirmed(setting, keys));
      continue;
    }
    for (const JsonMember& one : json->members) {
      Setting inside = setting;
      inside.key += '.' + one.key;
      inside.values = {one.value.is_string() ? one.value.string : to_line(one.value)};
      all.push_back(std::move(inside));
    }
  }
  return all;
}

}  // namespace

ClassedKeys class_keys(const std::vector<Setting>& settings, const ImportKeys& keys,
                       std::string_view file, bool job) {
  Classing all{.keys = keys, .file = file, .job = job};
  const auto words = words_that_matter(keys);
  for (const Setting& setting : spread_out(settings, keys)) {
    if (is_environment(setting)) {
      all.classed.counted.push_back(setting);
      continue;
    }
    const std::string key = plain_key(setting.key);
    const FoundRule found = find_rules(keys, key);
    if (found.rules == nullptr)
      take_unknown(all, setting, key, words);
    else
      take_key(all, setting, key, found);
  }
  auto& notes = all.classed.notes;
  if (!all.left_out.empty()) notes.push_back(not_counted_text(all.left_out, file));
  if (!all.unknown.empty()) {
    notes.push_back(fmt::format("Unknown to {} {}, and not counted: {}.", keys.program,
                                keys.version, join(all.unknown, ", ")));
  }
  return std::move(all.classed);
}

}  // namespace trainwright
