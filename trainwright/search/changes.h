#pragma once
// What one has to change to go from one layout to another. Part of search.h: include that one.
//
// A knob is what somebody sets. dp takes what the other degrees leave, and etp follows tp where it
// did, so neither counts then. With another pp come the chunks, the schedule and the split of
// layers that suit it: that is one knob. Where pp stays they are knobs of their own.
#include <cstdint>
#include <string>
#include <vector>

#include "trainwright/layout/layout.h"

namespace trainwright {

enum class Knob : std::uint8_t {
  Tp,
  Pp,
  Cp,
  Ep,
  Etp,
  Mbs,  // up to here: what a trunk of the space has (space.h)
  Vpp,
  Schedule,
  Layers,
  Recompute,
  Sharding,
  Offload,
};
inline constexpr std::size_t kKnobs = static_cast<std::size_t>(Knob::Offload) + 1;
std::string_view name_of(Knob knob);  // "tp", "recompute", ...

// Those in which two layouts differ.
Flags<Knob> changed_knobs(const Layout& from, const Layout& to);
int count_of(const Flags<Knob>& knobs);
std::vector<Knob> knobs_of(const Flags<Knob>& knobs);
// What the layout has there: "4", "zero1", "selective".
std::string value_of(Knob knob, const Layout& layout);

}  // namespace trainwright
