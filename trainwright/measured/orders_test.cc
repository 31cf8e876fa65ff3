#include "trainwright/measured/orders.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace trainwright {
namespace {

TEST_CASE("Paddle's ZB-H1 is a schedule, and puts off the first weights of later ranks") {
  const auto one = make(ScheduleKind::OneFOneB, {4, 16, 1});
  REQUIRE(one.has_value());
  const Schedule made = detail::first_weights_last(*one);
  CHECK(check(made).empty());
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto put_off = std::count_if(
        made.ranks[rank].begin(), made.ranks[rank].end(),
        [](const Action& action) { return action.kind == ActionKind::BackwardWeight; });
    // The first r, and the last one of all but the first rank.
    CHECK(put_off == static_cast<std::int64_t>(rank) + (rank > 0 ? 1 : 0));
  }
}

TEST_CASE("a schedule with more in flight is still one, and has them") {
  const auto made = make(ScheduleKind::OneFOneB, {4, 12, 1});
  REQUIRE(made.has_value());
  const Schedule shifted = detail::with_more_in_flight(*made, {2, 2, 2, 2});
  CHECK(check(shifted).empty());
  for (std::size_t rank = 0; rank < 4; ++rank) {
    std::int64_t now = 0, most = 0;
    for (const Action& action : shifted.ranks[rank]) {
      now += action.kind == ActionKind::Forward ? 1 : -1;
      most = std::max(most, now);
    }
    CHECK(most == 4 - static_cast<std::int64_t>(rank) + 2);
  }
}

}  // namespace
}  // namespace trainwright
