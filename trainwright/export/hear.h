#pragma once
// Private: what settings say, one thing after the other; the way back of say.h.
#include <algorithm>
#include <string>
#include <vector>

#include "trainwright/export/export.h"
#include "trainwright/export/pattern.h"

namespace trainwright::detail {

struct Hearing {
  const Trainer& trainer;
  std::vector<Setting> given;  // after what the trainer does unasked
  std::optional<std::int64_t> world = {};
  std::optional<std::int64_t> layers = {};  // of the model
  std::string_view beside = {};             // entries of a layout that go before the settings
  std::int64_t tp = 1, pp = 1, cp = 1, ep = 1;
  bool zero_by_optimizer = false;         // its own name says that states are sharded
  std::vector<std::string> entries = {};  // of the layout: "tp=8"
  std::string job = {};
  std::string attention = {};
  std::vector<std::string> missing = {};
  std::vector<Unreadable> unreadable = {};
  std::vector<std::string> notes = {};
  Diagnostics faults = {};
};
// What the setting of one of our keys stands for there.
std::optional<Filling> hear(const Hearing& hearing, std::string_view key);
std::optional<std::int64_t> hear_number(Hearing& hearing, std::string_view key);
// A value that is there and cannot be read.
void not_read(Hearing& hearing, std::string_view key, const std::string& value);
// What was heard first of a key stays.
void heard(Hearing& hearing, std::string_view key, std::string_view value);
bool is_heard(const Hearing& hearing, std::string_view key);

// The kind whose setting is there, of several the one of which most is said; "key.kind" goes before
// the offer's own, and "key.kind.ddp" says it under one sharding. An offer without a setting is
// what is done unasked.
template <class Offer>
auto best_offer(const Hearing& hearing, const std::string& key, const std::vector<Offer>& offers,
                Filling& filling) {
  std::optional<decltype(offers.front().kind)> best;
  std::size_t most = 0;
  const auto consider = [&](const Offer& offer, const std::string& text) {
    const auto found = text == "-" ? std::nullopt : found_in(text, hearing.given);
    if (!found || (best && found->said <= most)) return;
    best = offer.kind;
    most = found->said;
    filling = *found;
  };
  for (const Offer& offer : offers) {
    const std::string name = key + '.' + std::string(name_of(offer.kind));
    const std::string* own = find_setting(hearing.trainer, name);
    consider(offer, own != nullptr ? *own : offer.setting);
    for (const auto& [ours, theirs] : hearing.trainer.settings) {
      if (ours.starts_with(name + '.')) consider(offer, theirs);
    }
  }
  return best;
}

// One file each. Of a pipeline: its stages and its schedule, whose file is the answer.
std::string hear_stages(Hearing& hearing);
void hear_switches(Hearing& hearing);  // on and off, offloading, order of ranks, loss
void hear_sharding(Hearing& hearing);
void hear_batch(Hearing& hearing);  // after the degrees
// Other spellings ("read.ENTRIES"), which go before all else; those of entries that begin so.
void hear_readings(Hearing& hearing, std::string_view beginning = "");
// Which settings have no words of ours, of those that `model_keys` do not name.
void hear_unknown(const Hearing& hearing, const Target& target,
                  const std::vector<std::string>& model_keys, Understood& understood);

}  // namespace trainwright::detail
