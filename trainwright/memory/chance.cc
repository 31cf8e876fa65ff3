#include <algorithm>
#include <cmath>

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

double chance_of_oom(Bytes driver, Bytes capacity, double spread) {
  if (driver.value() <= 0) return 0;
  if (capacity.value() <= 0) return 1;
  if (spread <= 0) return driver > capacity ? 1 : 0;
  const double beyond = std::log(capacity / driver) / spread;
  return std::erfc(beyond / std::sqrt(2.0)) / 2;
}

Bytes exceeded_with(double chance, Bytes driver, double spread) {
  const double factor = std::exp(spread * normal_tail_at(std::clamp(chance, 1e-12, 1 - 1e-12)));
  const double bytes = std::min(static_cast<double>(driver.value()) * factor, 0x1.0p62);
  return Bytes(static_cast<std::int64_t>(std::llround(bytes)));
}

}  // namespace trainwright
