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
  const std::vector<Setting>& given;
  std::optional<std::int64_t> world = {};
  std::int64_t tp = 1, pp = 1, cp = 1, ep = 1;
  bool zero_by_optimizer = false;         // its own name says that states are sharded
  std::vector<std::string> entries = {};  // of the layout: "tp=8"
  std::string job = {};
  std::vector<std::string> missing = {};
  Diagnostics faults = {};
};
// What the setting of one of our keys stands for there.
std::optional<Filling> hear(const Hearing& hearing, std::string_view key);
std::optional<std::int64_t> hear_number(Hearing& hearing, std::string_view key);
void heard(Hearing& hearing, std::string_view key, std::string_view value);

// The kind whose setting is there, of several the one that says most; "key.kind" goes before the
// offer's own, and "key.kind.ddp" says it under one sharding. An offer without a setting is what is
// done unasked.
template <class Offer>
auto best_offer(const Hearing& hearing, const std::string& key, const std::vector<Offer>& offers,
                Filling& filling) {
  std::optional<decltype(offers.front().kind)> best;
  std::size_t most = 0;
  const auto consider = [&](const Offer& offer, const std::string& text) {
    const auto found = text == "-" ? std::nullopt : found_in(text, hearing.given);
    const std::size_t count = parse_settings(text).size();
    if (!found || (best && count <= most)) return;
    best = offer.kind;
    most = count;
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

}  // namespace trainwright::detail
