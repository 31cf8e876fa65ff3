#pragma once
// How sure a figure of memory is, and the verdict that follows.
//
// A figure is the middle of its cases: half of them lie on either side of it, spread like a normal
// law on each,
//
//   chance(more than limit) = 1/2 erfc((limit - figure) / (spread x sqrt 2)),
//
// with the spread above for limits above the figure and the spread below for those below; in nine
// digits, which are the same on every machine.
#include <cstdint>
#include <string>
#include <string_view>

#include "trainwright/base/units.h"

namespace trainwright {

// Standard deviations of a figure, downward and upward.
struct Spread {
  RealBytes below, above;
  friend bool operator==(const Spread&, const Spread&) = default;
};
// The chance that such a figure is above a limit; and the bytes it exceeds with a chance.
double chance_above(Bytes limit, Bytes figure, const Spread& spread);
Bytes exceeded_with(double chance, Bytes figure, const Spread& spread);
std::string chance_text(double chance);  // "1.2 %", "<0.1 %", ">99.9 %"

// Which of the three readings of a rank's peak a figure is.
enum class Counter : std::uint8_t { Allocated, Reserved, Driver };
std::string_view name_of(Counter counter);

// One verdict for everybody who asks: fits if the chance of OOM is at most the risk, tight up to
// even odds, and else it does not.
inline constexpr double kUsualRisk = 0.05, kEvenOdds = 0.5;
enum class Fit : std::uint8_t { Fits, Tight, DoesNotFit };
std::string_view name_of(Fit fit);  // "fits", "tight", "does-not-fit"
Fit fit_of(double oom, double risk = kUsualRisk);

}  // namespace trainwright
