#pragma once
// Private: the normal law.
#include <cmath>

namespace trainwright::detail {

// The chance of less than z standard deviations above the mean.
inline double below(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

}  // namespace trainwright::detail
