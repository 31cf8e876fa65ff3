#include "trainwright/schedule/auto_repair.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace trainwright {
namespace {

// One stage that keeps 10 bytes after F and 15 between I and W.
std::string repaired(std::int64_t cap) {
  Costs costs = even_costs(1, Seconds(1), Seconds(1), Seconds(1));
  costs.stages[0].kept = Bytes(10);
  costs.stages[0].released_by_input = Bytes(-5);
  const auto F = ActionKind::Forward, I = ActionKind::BackwardInput, W = ActionKind::BackwardWeight;
  const Schedule schedule{2,
                          placed(StagePlacement::Loop, 1, 1),
                          {{make_action(F, 0, 0), make_action(I, 0, 0), make_action(F, 0, 1),
                            make_action(I, 0, 1), make_action(W, 0, 0), make_action(W, 0, 1)}}};
  const detail::Pricing pricing = detail::price(schedule.placement, 2, costs, {});
  const Schedule made = detail::with_earlier_weights(schedule, pricing, {cap});
  CHECK(check(made).empty());
  CHECK(peak(simulate(made, costs)) <= Bytes(cap));
  std::string text;
  for (const Action action : made.ranks[0]) text += to_text(action) + " ";
  return text;
}

TEST_CASE("a W that waits is run before the action that would not fit") {
  // As it is: 10, 15, 25, 30 bytes.
  CHECK(repaired(30) == "0F0 0I0 0F1 0I1 0W0 0W1 ");
  CHECK(repaired(25) == "0F0 0I0 0F1 0W0 0I1 0W1 ");
  CHECK(repaired(24) == "0F0 0I0 0W0 0F1 0I1 0W1 ");
}

TEST_CASE("an I that cannot fit becomes a whole backward") {
  CHECK(repaired(14) == "0F0 0B0 0F1 0B1 ");
}

TEST_CASE("the largest cap that there is does not overflow with peaks inside actions") {
  Costs costs = even_costs(2, Seconds(1), Seconds(1), Seconds(1));
  for (StageCosts& stage : costs.stages) {
    stage.kept = Bytes(10);
    stage.released_by_input = Bytes(-5);
    stage.inside.backward = Bytes(1);
  }
  const Bytes largest(std::numeric_limits<std::int64_t>::max());
  const auto best = make_auto(2, 4, costs, {.chunks = 1, .cap = {largest}});
  REQUIRE(best);
  CHECK(best->schedule.has_value());
}

}  // namespace
}  // namespace trainwright
