#include "trainwright/simulate/unspecified.h"

#include <algorithm>
#include <cmath>

#include "trainwright/simulate/simulate.h"

namespace trainwright {
namespace {

constexpr double kInside90 = 1.645;
constexpr std::array<double, kUnspecified> kDiffer = {0.5, 0.25, 0.06};
constexpr double kFelt = 0.01;  // of the interval's width
// Half of it; a Grace's pace; the clocks that 0.7 of the power leaves (cost.h).
const std::array<double, kUnspecified> kWorse = {2, 1.6, 1 / std::sqrt(0.7)};
constexpr std::array kSlowed = {StackConstant::Network, StackConstant::Host,
                                StackConstant::Products};

double width(const StepTime& time) { return std::log(time.high / time.low); }

}  // namespace

double told_narrows(const std::array<bool, kUnspecified>& told,
                    const std::array<double, kUnspecified>& shares, double width, double least) {
  double left = 1;
  for (std::size_t k = 0; k < kUnspecified; ++k) {
    if (!told[k] || width <= 0) continue;
    const double part = kInside90 * kDiffer[k] * shares[k] / width;
    left -= part * part;
  }
  return std::sqrt(std::max(left, least * least));
}

std::vector<UnspecifiedEffect> unspecified_effects(const StepPieces& step,
                                                   const StackConstants& stack) {
  const StepTime usual = step_time(step, stack);
  std::vector<std::pair<double, UnspecifiedEffect>> found;
  for (std::size_t k = 0; k < kUnspecified; ++k) {
    if (step.regime.told[k]) continue;
    StackConstants slower = stack;
    slower.values[static_cast<std::size_t>(kSlowed[k])] *= kWorse[k];
    const Seconds worse = step_time(step, slower).step;
    StepPieces told = step;
    told.regime.told[k] = true;
    const StepTime sure = step_time(told, stack);
    if (width(sure) > width(usual) * (1 - kFelt)) continue;
    const double widens = kDiffer[k] * std::log(worse / usual.step) / std::log(kWorse[k]);
    found.push_back({widens, {static_cast<Unspecified>(k), worse, sure.low, sure.high}});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<UnspecifiedEffect> effects;
  for (const auto& [widens, effect] : found) effects.push_back(effect);
  return effects;
}

std::string_view name_of(Unspecified what) {
  constexpr std::array<std::string_view, kUnspecified> kNames = {"network", "cpu", "power"};
  return kNames[static_cast<std::size_t>(what)];
}

std::string_view worse_of(Unspecified what) {
  constexpr std::array<std::string_view, kUnspecified> kWords = {
      "half the usual bandwidth between nodes", "a host that takes 1.6 times as long",
      "0.7 of the usual power"};
  return kWords[static_cast<std::size_t>(what)];
}

}  // namespace trainwright
