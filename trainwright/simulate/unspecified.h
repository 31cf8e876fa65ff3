#pragma once
// What a question leaves open of its machines, and how much hangs on it. Part of simulate.h:
// include that one.
//
// A prediction takes what is usual: the adapters of such a node, its CPU, the board's full power;
// its interval carries the doubt. What is told takes its part out of the variance of that interval,
// down to what kernels alone leave open:
//
//   w' = w sqrt(max(f^2, 1 - sum_told (1.645 tau_k s_k / w)^2))
//
// with s_k the share of the step that hangs on it, tau_k how far machines differ in it (standard
// deviations of logarithms: networks 0.5, hosts 0.25 and clocks 0.06, docs/time.md) and f the share
// of the width that a step of products and attention alone has (WidthRule::least).
#include <array>
#include <string_view>
#include <vector>

#include "trainwright/base/units.h"
#include "trainwright/simulate/stack.h"

namespace trainwright {

struct StepPieces;
struct StepTime;

// The share of an interval's width that is left where some of it is told, for steps whose shares
// hang on it by `shares` and whose half width is `width`.
double told_narrows(const std::array<bool, kUnspecified>& told,
                    const std::array<double, kUnspecified>& shares, double width, double least);

// One that nobody told, and what if it is worse than usual.
struct UnspecifiedEffect {
  Unspecified what = Unspecified::Network;
  Seconds worse;      // a step at half the network, 1.6 times the host's time, 0.7 of the power
  Seconds low, high;  // the interval if it is told to be as usual
};
// Those that are 1 % of the interval's width or more; first the one that widens it most.
std::vector<UnspecifiedEffect> unspecified_effects(const StepPieces& step,
                                                   const StackConstants& stack);
std::string_view name_of(Unspecified what);   // "network": its key in --on
std::string_view worse_of(Unspecified what);  // "half the bandwidth between nodes"

}  // namespace trainwright
