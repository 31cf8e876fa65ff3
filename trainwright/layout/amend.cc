// Words of a layout with some of them given anew, and which to give.
#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/layout/entries.h"
#include "trainwright/layout/layout.h"

namespace trainwright {
namespace {

// The key that an entry gives: `fsdp` is short for a sharding, `dp_shard` another word for dp.
std::string key_of(std::string_view entry) {
  std::string key = detail::normal_key(entry.substr(0, entry.find('=')));
  if (key == "fsdp" || key == "hsdp") return "sharding";
  return key == "dp_shard" ? "dp" : key;
}

// Entries of a layout of which some are given.
class Given {
 public:
  explicit Given(const Layout& layout)
      : all_(detail::all_entries(layout).members), given_(all_.size(), false) {}

  // Those that another layout has otherwise; false if it has none that are not given yet.
  bool add_what_differs(const Layout& from) {
    const Json other = detail::all_entries(from);
    bool any = false;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const Json* value = other.find(all_[i].key);
      if (given_[i] || (value != nullptr && to_text(*value) == to_text(all_[i].value))) continue;
      given_[i] = any = true;
    }
    return any;
  }
  void add_all() { given_.assign(all_.size(), true); }
  // Those without which `holds` is true all the same.
  template <class Holds>
  void leave_out_while(Holds holds) {
    for (std::size_t i = all_.size(); i-- > 0;) {
      if (!given_[i]) continue;
      given_[i] = false;
      given_[i] = !holds();
    }
  }
  std::string text() const {
    Json some = Json::object();
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (given_[i]) some.add(all_[i].key, all_[i].value);
    }
    return detail::text_of_entries(some, {"layers", "recompute"});
  }

 private:
  std::vector<JsonMember> all_;
  std::vector<bool> given_;
};

}  // namespace

std::string amended(std::string_view text, std::string_view change) {
  std::vector<std::string> keys, entries;
  const auto add = [&entries](std::string_view entry) {
    if (!trim(entry).empty()) entries.emplace_back(trim(entry));
  };
  for (const std::string_view entry : split(change, ',')) keys.push_back(key_of(entry));
  for (const std::string_view entry : split(text, ',')) {
    if (std::find(keys.begin(), keys.end(), key_of(entry)) == keys.end()) add(entry);
  }
  for (const std::string_view entry : split(change, ',')) add(entry);
  return join(entries, ",");
}

std::optional<std::string> entry_of(std::string_view text, std::string_view key) {
  for (const std::string_view entry : split(text, ',')) {
    const std::size_t equals = std::min(entry.find('='), entry.size());
    if (detail::normal_key(entry.substr(0, equals)) != key) continue;
    return std::string(trim(entry.substr(std::min(equals + 1, entry.size()))));
  }
  return std::nullopt;
}

std::string change_to(std::string_view text, const Layout& to, const LayoutContext& context) {
  Given given(to);
  const auto read = [&] { return parse_layout(amended(text, given.text()), context); };
  const auto holds = [&] {
    const auto now = read();
    return now && now->layout == to;
  };
  for (auto now = read(); now && now->layout != to; now = read()) {
    if (!given.add_what_differs(now->layout)) break;
  }
  if (!holds()) given.add_all();
  given.leave_out_while(holds);
  return given.text();
}

}  // namespace trainwright
