#include "trainwright/layout/entries.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/base/count.h"

namespace trainwright::detail {
namespace {

std::string normal_value(std::string_view value) {
  std::string text = lower_case(trim(value));
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

// What a person reads back of what was typed: at most this much of it.
std::string shortened(std::string_view text) {
  constexpr std::size_t kMost = 60;
  return std::string(text.substr(0, kMost)) + (text.size() > kMost ? "..." : "");
}

std::optional<std::string> text_of(const Json& value, char separator) {
  switch (value.kind) {
    case Json::Kind::Integer: return std::to_string(value.integer);
    case Json::Kind::String: return value.string;
    case Json::Kind::Bool: return value.boolean ? "true" : "false";
    case Json::Kind::Array: {
      std::vector<std::string> parts;
      for (const Json& item : value.items) {
        const bool plain = item.is_integer() || item.is_string();
        if (!plain) return std::nullopt;
        parts.push_back(*text_of(item, separator));
      }
      return join(parts, std::string(1, separator));
    }
    case Json::Kind::Null:
    case Json::Kind::Number:
    case Json::Kind::Object: break;
  }
  return std::nullopt;
}

// Options of commands that stand for an entry.
std::string hint_on_twice(std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> kOptions[] = {
      {"gbs", "--batch"},
      {"seq", "--seq"},
      {"precision", "--precision"},
      {"optimizer", "--optimizer"}};
  for (const auto& [entry, option] : kOptions) {
    if (key == entry) return fmt::format("leave one of them out; {} gives it, too", option);
  }
  return {};
}

// More than there are keys; each is looked for among all.
constexpr std::size_t kMostEntries = 200;
bool too_many(std::size_t count, const std::string& where, Diagnostics& diagnostics) {
  if (count <= kMostEntries) return false;
  diagnostics.push_back({where, fmt::format("more than {} entries", kMostEntries), ""});
  return true;
}

void add_once(std::vector<Entry>& entries, Entry entry, Diagnostics& diagnostics) {
  const auto same = [&](const Entry& other) { return other.key == entry.key; };
  if (std::any_of(entries.begin(), entries.end(), same)) {
    diagnostics.push_back(
        {entry.where, fmt::format("{} is given twice", entry.key), hint_on_twice(entry.key)});
  } else {
    entries.push_back(std::move(entry));
  }
}

}  // namespace

std::string normal_key(std::string_view key) {
  std::string text = lower_case(trim(key));
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

std::vector<Entry> entries_of_text(std::string_view text, std::string_view what,
                                   Diagnostics& diagnostics) {
  constexpr std::size_t kMostText = std::size_t{1} << 20;  // 1 MiB
  std::vector<Entry> entries;
  if (text.size() > kMostText) {
    diagnostics.push_back({std::string(what), "longer than 1 MiB", ""});
    return entries;
  }
  if (trim(text).empty()) return entries;
  const std::vector<std::string_view> items = split(text, ',');
  if (too_many(items.size(), std::string(what), diagnostics)) return entries;
  for (const std::string_view item : items) {
    const std::string where = fmt::format("{} '{}'", what, shortened(trim(item)));
    const std::size_t equals = item.find('=');
    Entry entry{.key = normal_key(item.substr(0, equals)), .value = std::nullopt, .where = where};
    if (equals != std::string_view::npos) entry.value = normal_value(item.substr(equals + 1));
    if (entry.key.empty()) {
      diagnostics.push_back({where, "an entry without a key", "write key=value,key=value"});
    } else if (entry.value && entry.value->empty()) {
      diagnostics.push_back({where, fmt::format("{} has no value", entry.key), ""});
      add_once(entries, std::move(entry), diagnostics);
    } else {
      add_once(entries, std::move(entry), diagnostics);
    }
  }
  return entries;
}

std::vector<Entry> entries_of_json(const Json& json, const std::string& origin,
                                   const std::vector<std::string>& sequences,
                                   Diagnostics& diagnostics) {
  std::vector<Entry> entries;
  if (!json.is_object()) {
    diagnostics.push_back({json_place(origin, json, ""),
                           fmt::format("expected an object, found {}", name_of(json.kind)), ""});
    return entries;
  }
  if (too_many(json.members.size(), json_place(origin, json, ""), diagnostics)) return entries;
  for (const JsonMember& member : json.members) {
    if (member.value.is_null()) continue;
    Entry entry{.key = normal_key(member.key),
                .value = std::nullopt,
                .where = json_place(origin, member.value, "/" + member.key)};
    const bool sequence =
        std::find(sequences.begin(), sequences.end(), entry.key) != sequences.end();
    const auto value = text_of(member.value, sequence ? '/' : '+');
    if (!value) {
      diagnostics.push_back({entry.where,
                             fmt::format("expected a whole number, a string, true, false or a list "
                                         "of such, found {}",
                                         name_of(member.value.kind)),
                             ""});
      entry.value = "";
    } else {
      entry.value = normal_value(*value);
      if (entry.value->empty() && member.value.is_string()) {
        diagnostics.push_back({entry.where, fmt::format("{} has no value", entry.key), ""});
      }
    }
    add_once(entries, std::move(entry), diagnostics);
  }
  return entries;
}

std::string text_of_entries(const Json& object, const std::vector<std::string>& sequences) {
  std::vector<std::string> entries;
  for (const JsonMember& member : object.members) {
    const bool sequence =
        std::find(sequences.begin(), sequences.end(), member.key) != sequences.end();
    const auto value = text_of(member.value, sequence ? '/' : '+');
    const bool alone = member.value.is_bool() && member.value.boolean;
    entries.push_back(alone ? member.key : member.key + "=" + value.value());
  }
  return join(entries, ",");
}

bool EntryReader::has(std::string_view key) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.key == key; });
}

const EntryKey& EntryReader::known(std::string_view key) const {
  const auto found = std::find_if(keys_.begin(), keys_.end(),
                                  [&](const EntryKey& other) { return other.name == key; });
  TW_CHECK(found != keys_.end(), "a key that is read is in the table of keys");
  return *found;
}

const Entry* EntryReader::raw(std::string_view key) const {
  known(key);
  for (const Entry& entry : entries_) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

const Entry* EntryReader::with_value(std::string_view key) {
  const Entry* entry = raw(key);
  if (entry == nullptr) return nullptr;
  if (!entry->value) {
    fault(*entry, fmt::format("{} needs a value", key), fmt::format("write {}=...", key));
    return nullptr;
  }
  return entry->value->empty() ? nullptr : entry;  // an empty value was reported when cut
}

std::optional<std::int64_t> EntryReader::number_in(const Entry& entry, std::string_view text,
                                                   IntegerRange range) {
  const auto number = parse_count(text);
  if (!number) {
    fault(entry, fmt::format("'{}' {}", shortened(text), count_fault(text)));
    return std::nullopt;
  }
  if (*number < range.least || *number > range.most) {
    fault(entry, fmt::format("{} is out of range", *number),
          fmt::format("{} to {}", range.least, range.most));
    return std::nullopt;
  }
  return number;
}

std::optional<std::int64_t> EntryReader::integer(std::string_view key) {
  const Entry* entry = with_value(key);
  if (entry == nullptr) return std::nullopt;
  return number_in(*entry, *entry->value, known(key).range);
}

bool EntryReader::flag(std::string_view key) {
  const Entry* entry = raw(key);
  if (entry == nullptr) return false;
  const std::string value = entry->value.value_or("true");
  if (value == "true" || value == "1") return true;
  if (!value.empty() && value != "false" && value != "0") {
    fault(*entry, fmt::format("{} stands alone", key),
          fmt::format("write {} without a value", key));
  }
  return false;
}

std::optional<std::int64_t> EntryReader::flag_or_integer(std::string_view key) {
  const Entry* entry = raw(key);
  if (entry == nullptr) return std::nullopt;
  const std::string value = entry->value.value_or("1");
  if (value.empty()) return std::nullopt;
  if (value == "true" || value == "false") return value == "true" ? 1 : 0;
  return number_in(*entry, value, known(key).range);
}

void EntryReader::fault(const Entry& entry, std::string what, std::string hint) {
  diagnostics_.push_back({entry.where, std::move(what), std::move(hint)});
}

void EntryReader::unknown_name(const Entry& entry, std::string_view name,
                               std::span<const std::string_view> names) {
  const std::vector<std::string> known = to_strings(names);
  fault(entry, fmt::format("{} cannot be '{}'", entry.key, shortened(name)),
        did_you_mean(name, known, "one of " + enumerate(known, "or")));
}

void EntryReader::finish() {
  std::vector<std::string> names;
  for (const EntryKey& key : keys_) names.emplace_back(key.name);
  for (const Entry& entry : entries_) {
    if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
    const std::string near = did_you_mean(entry.key, names);
    const std::string help = fmt::format("`trainwright help {}` lists the keys", what_);
    fault(entry, fmt::format("unknown key '{}'", shortened(entry.key)),
          near.empty() ? help : near + ' ' + help);
  }
}

}  // namespace trainwright::detail
