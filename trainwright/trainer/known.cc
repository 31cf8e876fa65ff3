#include "trainwright/trainer/known.h"

#include <algorithm>
#include <cctype>

namespace trainwright {
namespace {

bool says_any(std::string_view source, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return source.find(word) != std::string_view::npos;
  });
}

// "distrib_optimizer.py", "torch.optim", "--sharding", "runtime/zero", "0.16.0", "DTensor": what a
// reader could open or look up.
bool names_something(std::string_view source) {
  const auto letter = [&](std::size_t i) {
    return std::isalnum(static_cast<unsigned char>(source[i])) != 0;
  };
  for (std::size_t i = 1; i + 1 < source.size(); ++i) {
    const bool joins = source[i] == '.' || source[i] == '/' || source[i] == '_';
    if (joins && letter(i - 1) && letter(i + 1)) return true;
    if (source[i - 1] == '-' && source[i] == '-' && letter(i + 1)) return true;
  }
  return false;
}

bool names_code(std::string_view source) {
  return says_any(source, {".py", ".cpp", ".cc", ".cu", ".h:", ".sh"});
}

void add_facts(const Json& json, const std::string& place, std::vector<KnownFact>& facts) {
  if (!json.is_object()) return;
  if (const Json* source = json.find("source"); source != nullptr && source->is_string()) {
    facts.push_back({place, source->string, how_known(source->string)});
    return;
  }
  for (const auto& [key, value] : json.members) {
    const std::string inside = place.empty() ? key : place + "/" + key;
    add_facts(value, inside, facts);
    for (const Json& item : value.items) {
      const Json* id = item.is_object() ? item.find("id") : nullptr;
      if (id != nullptr) add_facts(item, inside + "/" + id->string, facts);
    }
  }
}

}  // namespace

std::string_view name_of(HowKnown known) {
  switch (known) {
    case HowKnown::Read: return "read";
    case HowKnown::Published: return "published";
    case HowKnown::Learned: return "learned";
    case HowKnown::Assumed: return "assumed";
  }
  return "";
}

HowKnown how_known(std::string_view source) {
  if (says_any(source, {"assumed", "from memory", "from practice", "not opened"})) {
    return HowKnown::Assumed;
  }
  if (says_any(source, {"learned:", "learned from"})) return HowKnown::Learned;
  if (names_code(source)) return HowKnown::Read;
  if (says_any(source, {"arXiv", "docs", "documentation", "reference", "README", "published",
                        "playbook", "pull request", "issue "})) {
    return HowKnown::Published;
  }
  return names_something(source) ? HowKnown::Read : HowKnown::Assumed;
}

bool is_guess(std::string_view source) { return how_known(source) >= HowKnown::Learned; }

std::vector<KnownFact> known_facts(const Trainer& trainer) {
  std::vector<KnownFact> facts;
  add_facts(to_json(trainer), "", facts);
  return facts;
}

}  // namespace trainwright
