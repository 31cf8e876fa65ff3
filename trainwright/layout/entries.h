#pragma once
// Private: `key=value` entries, from text or from a JSON object, read one by one.
//
// Every call names a key of the table; a fault is gathered and the call answers nullopt, and
// `finish` reports entries whose key is not in the table, with the nearest that is.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/text.h"
#include "trainwright/layout/keys.h"
#include "trainwright/layout/kinds.h"

namespace trainwright::detail {

struct Entry {
  std::string key;                   // lower case, with underscores
  std::optional<std::string> value;  // lower case, with hyphens; nullopt when the key stands alone
  std::string where;
};

// A key as it is compared: lower case, with underscores.
std::string normal_key(std::string_view key);

// Cuts text at its commas. `what` ("layout") begins every place.
std::vector<Entry> entries_of_text(std::string_view text, std::string_view what,
                                   Diagnostics& diagnostics);
// The members of an object. A list becomes text, joined by '/' for the keys in `sequences` and by
// '+' elsewhere; true is a key that stands alone.
std::vector<Entry> entries_of_json(const Json& json, const std::string& origin,
                                   const std::vector<std::string>& sequences,
                                   Diagnostics& diagnostics);

// The other way: a flat object as text, each list joined as above.
std::string text_of_entries(const Json& object, const std::vector<std::string>& sequences);
// Every entry of a layout, also those that could be left out.
Json all_entries(const Layout& layout);

class EntryReader {
 public:
  // `what` ("layout") is the word of `trainwright help` for the table.
  EntryReader(std::vector<Entry> entries, std::string_view what, std::span<const EntryKey> keys,
              Diagnostics& diagnostics)
      : entries_(std::move(entries)), what_(what), keys_(keys), diagnostics_(diagnostics) {}

  bool has(std::string_view key) const;
  const Entry* raw(std::string_view key) const;  // nullptr when absent
  // Faults when the key stands alone.
  const Entry* with_value(std::string_view key);
  std::optional<std::int64_t> integer(std::string_view key);
  bool flag(std::string_view key);
  // A flag, or how many: "count_loss" is 1, "count_loss=2" is 2.
  std::optional<std::int64_t> flag_or_integer(std::string_view key);

  template <class E>
  std::optional<E> kind(std::string_view key) {
    const Entry* entry = with_value(key);
    if (entry == nullptr) return std::nullopt;
    return one_of<E>(*entry, *entry->value);
  }
  // Names joined by '+'.
  template <class E>
  std::optional<Flags<E>> set(std::string_view key) {
    const Entry* entry = with_value(key);
    if (entry == nullptr) return std::nullopt;
    return members<E>(*entry, *entry->value);
  }
  template <class E>
  std::optional<Flags<E>> members(const Entry& entry, std::string_view text) {
    Flags<E> set;
    bool good = true;
    for (const std::string_view name : split(text, '+')) {
      const auto member = one_of<E>(entry, trim(name));
      if (member) set.insert(*member);
      good = good && member.has_value();
    }
    return good ? std::optional(set) : std::nullopt;
  }
  template <class E>
  std::optional<E> one_of(const Entry& entry, std::string_view name) {
    if (const auto found = named<E>(usual_word(E{}, name))) return found;
    unknown_name(entry, name, all_names(E{}));
    return std::nullopt;
  }
  std::optional<std::int64_t> number_in(const Entry& entry, std::string_view text,
                                        IntegerRange range);

  void fault(const Entry& entry, std::string what, std::string hint = {});
  void finish();

 private:
  void unknown_name(const Entry& entry, std::string_view name,
                    std::span<const std::string_view> names);

  const EntryKey& known(std::string_view key) const;

  std::vector<Entry> entries_;
  std::string_view what_;
  std::span<const EntryKey> keys_;
  Diagnostics& diagnostics_;
};

}  // namespace trainwright::detail
