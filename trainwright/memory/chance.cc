#include <algorithm>
#include <cmath>

#include "trainwright/base/digits.h"
#include "trainwright/base/text.h"
#include "trainwright/memory/memory.h"

namespace trainwright {
namespace {

// The value that a standard normal exceeds with that chance, by bisection: its tail falls.
double normal_tail_at(double chance) {
  double low = -40, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    const double tail = std::erfc(middle / std::sqrt(2.0)) / 2;
    (tail > chance ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

double chance_above(Bytes limit, Bytes figure, const Spread& spread) {
  const RealBytes room = real(limit) - real(figure);
  const RealBytes scale = room.value() >= 0 ? spread.above : spread.below;
  if (scale.value() <= 0) return room.value() >= 0 ? 0 : 1;
  // From the thirteenth digit on C libraries differ in erfc.
  return in_nine_digits(std::erfc(room / scale / std::sqrt(2.0)) / 2);
}

Bytes exceeded_with(double chance, Bytes figure, const Spread& spread) {
  const double at = in_nine_digits(normal_tail_at(std::clamp(chance, 1e-12, 1 - 1e-12)));
  const RealBytes bytes = real(figure) + (at >= 0 ? spread.above : spread.below) * at;
  return std::max(Bytes(0), rounded(bytes));
}

std::string chance_text(double chance) {
  constexpr double kLeast = 0.0005;  // would be rounded to 0.0 %
  if (chance < kLeast) return "<0.1 %";
  return chance > 1 - kLeast ? ">99.9 %" : percent(chance);
}

Fit fit_of(double oom, double risk) {
  if (oom <= risk) return Fit::Fits;
  return oom <= kEvenOdds ? Fit::Tight : Fit::DoesNotFit;
}

Bytes bytes_of(const RankClass& rank, Counter counter) {
  switch (counter) {
    case Counter::Allocated: return rank.allocated;
    case Counter::Reserved: return rank.reserved;
    case Counter::Driver: return rank.driver;
  }
  return {};
}

const Spread& spread_of(const RankClass& rank, Counter counter) {
  return rank.spreads[static_cast<std::size_t>(counter)];
}

}  // namespace trainwright
