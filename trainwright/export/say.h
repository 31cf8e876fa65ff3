#pragma once
// Private: what a plan says, one thing after the other.
#include <functional>
#include <string>

#include "trainwright/export/export.h"
#include "trainwright/export/pattern.h"

namespace trainwright::detail {

struct Saying {
  std::string key;    // ours
  std::string value;  // as text, for "key.value" and for complaints
  Filling filling = {};
  const std::string* offer = nullptr;  // the setting of the trainer's offer, if it is one
  bool needed = true;                  // it is not what the trainer does unasked
  std::string why = {};
  std::function<void(Layout&)> unsay = {};  // takes it out of a layout
};

// What is being said, and to whom.
struct Speech {
  const Plan& plan;
  const Target& target;
  Translation said;
};
void say(Speech& speech, const Saying& saying);
void cannot_say(Speech& speech, std::string what, std::string why,
                const std::function<void(Layout&)>& unsay);
// Whether the trainer has a setting for a key.
bool has_setting(const Speech& speech, std::string_view key);

// One file each.
void say_stages(Speech& speech);    // pipeline, its schedule, layers of stages
void say_switches(Speech& speech);  // on and off, offloading, loss, connections

// The key of a switch in settings, and the setting of the trainer's offer of it, if it is one.
std::string switch_key(Switch what);
const std::string* switch_offer(const Trainer& trainer, Switch what);

// Where a group of ranks lies: "over nvlink".
std::string place_text(const Plan& plan, GroupKind kind);

}  // namespace trainwright::detail
