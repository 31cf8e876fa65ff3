#include <doctest/doctest.h>

#include "trainwright/schedule/schedule.h"

// The rules were measured on PyTorch's running stages; python/tests/test_engine_memory.py compares
// this clock with them byte by byte. Here they are small enough to follow by hand.

namespace trainwright {
namespace {

Costs kept_ten_sent_three(int stages) {
  Costs costs = even_costs(stages, Seconds(1), Seconds(1), Seconds(1));
  for (StageCosts& stage : costs.stages) stage.kept = Bytes(10);
  for (BoundaryCosts& boundary : costs.boundaries) boundary.size = Bytes(3);
  return costs;
}

Timeline on_pytorch(const Schedule& schedule) {
  return simulate(schedule, kept_ten_sent_three(schedule.placement.stages()),
                  {.engine = EngineRules::PyTorch});
}

constexpr auto F = ActionKind::Forward;
constexpr auto B = ActionKind::Backward;

TEST_CASE("on PyTorch a tensor that was sent stays until the step ends") {
  // Two buffers of 3 bytes stand on each rank. Rank 0 forwards twice: 6 + 10 + 10 = 26. Rank 1 runs
  // 1F1B: 6 + 10, minus 10 plus the sent gradient of 3, plus 10 again = 19.
  const Schedule schedule{
      2,
      placed(StagePlacement::Loop, 2, 1),
      {{make_action(F, 0, 0), make_action(F, 0, 1), make_action(B, 0, 0), make_action(B, 0, 1)},
       {make_action(F, 1, 0), make_action(B, 1, 0), make_action(F, 1, 1), make_action(B, 1, 1)}}};
  const Timeline timeline = on_pytorch(schedule);
  CHECK(timeline.ranks[0].peak == Bytes(26));
  CHECK(timeline.ranks[1].peak == Bytes(19));
}

TEST_CASE("on PyTorch the activation between two stages of a rank takes its buffer's place") {
  // Buffers of one micro-batch for the activation and the gradient: 6. Stage 0 keeps 10, of which 3
  // replace a buffer; stage 1 keeps 10: 6 + 7 + 10 = 23.
  const Schedule schedule{
      1,
      placed(StagePlacement::Loop, 1, 2),
      {{make_action(F, 0, 0), make_action(F, 1, 0), make_action(B, 1, 0), make_action(B, 0, 0)}}};
  CHECK(on_pytorch(schedule).ranks[0].peak == Bytes(23));
}

TEST_CASE(
    "on PyTorch weights stand, their gradients come with the first backward, and actions peak") {
  // One rank, one stage, two micro-batches, 1F1B. Weights and states 100. F: 10 kept, 12 within.
  // The first B makes gradients of 7 and has 9 above its start, the second has 4 above its own,
  // where the gradients are already: 100 + 7 + 10 + 4 = 121 is more than 100 + 10 + 9 = 119 and 107
  // + 12 = 119.
  Costs costs = kept_ten_sent_three(1);
  costs.stages[0].resident = Bytes(100);
  costs.stages[0].gradients = Bytes(7);
  costs.stages[0].inside = {Bytes(12), {}, {}, Bytes(4), {}, Bytes(9)};
  Schedule schedule{
      2,
      placed(StagePlacement::Loop, 1, 1),
      {{make_action(F, 0, 0), make_action(B, 0, 0), make_action(F, 0, 1), make_action(B, 0, 1)}}};
  const ClockOptions options{.engine = EngineRules::PyTorch};
  CHECK(simulate(schedule, costs, options).ranks[0].peak == Bytes(121));
  // Without the second micro-batch the first B is the peak.
  schedule.microbatches = 1;
  schedule.ranks[0].resize(2);
  CHECK(simulate(schedule, costs, options).ranks[0].peak == Bytes(119));
  // Its own peak not known: gradients and what the others have, 100 + 10 + 7 + 4.
  costs.stages[0].inside.first_backward = {};
  CHECK(simulate(schedule, costs, options).ranks[0].peak == Bytes(121));
}

TEST_CASE("where an I saves much for its W, auto keeps the backward whole to fit more") {
  // I adds 30 bytes to the 10 that F keeps until W; B has no such hump. Two ranks, cap 45: a split
  // backward lets one micro-batch in at a time, a whole one four.
  Costs costs = even_costs(2, Seconds(1), Seconds(1), Seconds(1));
  for (StageCosts& stage : costs.stages) {
    stage.kept = Bytes(10);
    stage.released_by_input = Bytes(-30);
    stage.inside = {Bytes(10), Bytes(32), Bytes(2), Bytes(3), {}, {}};
  }
  const auto found = make_auto(2, 8, costs, {.chunks = 1, .cap = {Bytes(45)}});
  REQUIRE(found);
  REQUIRE(found->schedule);
  CHECK(peak(found->timeline) <= Bytes(45));
  // 1F1B with F 1 and B 2 on two ranks: 8 x 3 + 3.
  CHECK(found->timeline.makespan <= Seconds(27));
}

}  // namespace
}  // namespace trainwright
