#pragma once
// Public: how a fact about a trainer is known, as the string `source` beside it says.
//
//   read       names what was opened: a file, a class or an option of some version
//   published  a paper, a manual or somebody's tables
//   learned    "learned: ...": only measured runs could tell
//   assumed    "assumed: ...", "from memory", "from practice", "not opened", or nothing named
//
// A source may say several things of a fact; the weakest one counts.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/trainer/trainer.h"

namespace trainwright {

enum class HowKnown : std::uint8_t { Read, Published, Learned, Assumed };
std::string_view name_of(HowKnown known);  // "read", ...
HowKnown how_known(std::string_view source);
// Learned or assumed.
bool is_guess(std::string_view source);

struct KnownFact {
  std::string what;  // its place in a trainer's file: "kernels/flash-attention"
  std::string source;
  HowKnown known = HowKnown::Assumed;
};
// All facts that have a source, rules among them, in the order of a trainer's file.
std::vector<KnownFact> known_facts(const Trainer& trainer);

}  // namespace trainwright
