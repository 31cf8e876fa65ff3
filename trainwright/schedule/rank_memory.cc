#include "trainwright/schedule/rank_memory.h"

namespace trainwright::detail {

std::vector<std::int64_t> set_aside(const Pricing& pricing) {
  std::vector<std::int64_t> gradients(pricing.standing.size(), 0), above = gradients;
  for (const StagePrice& price : pricing.stages) {
    const auto rank = static_cast<std::size_t>(price.rank);
    gradients[rank] += price.gradients;
    std::int64_t& most = above[rank];
    for (const std::int64_t more : price.above) most = std::max(most, more);
    for (const std::int64_t more : price.first_above) most = std::max(most, more);
  }
  for (std::size_t r = 0; r < above.size(); ++r) above[r] += gradients[r];
  return above;
}

}  // namespace trainwright::detail
