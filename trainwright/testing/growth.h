#pragma once
// How the work of a function grows with its input, told by one run on any host.
#include <algorithm>
#include <array>
#include <ctime>
#include <limits>

namespace trainwright::testing {

// Processor time of `large()` over that of `small()`: the least of a few runs of each in turn.
// Other processes take processor time of their own, so a busy host changes the ratio little, while
// an input four times as long takes a linear function four times as long and a quadratic one
// sixteen times.
double growth(const auto& small, const auto& large) {
  const auto seconds = [](const auto& work) {
    const std::clock_t start = std::clock();
    work();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  std::array<double, 2> least{std::numeric_limits<double>::max(),
                              std::numeric_limits<double>::max()};
  for (int round = 0; round < 5; ++round) {
    least[0] = std::min(least[0], seconds(small));
    least[1] = std::min(least[1], seconds(large));
  }
  return least[1] / std::max(least[0], 1e-6);
}

}  // namespace trainwright::testing
