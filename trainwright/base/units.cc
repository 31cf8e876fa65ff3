#include "trainwright/base/units.h"

#include <algorithm>
#include <cmath>

namespace trainwright {

Bytes rounded(RealBytes size) {
  constexpr double kMost = 0x1.0p60;
  return Bytes(std::llround(std::clamp(size.value(), -kMost, kMost)));
}

}  // namespace trainwright
