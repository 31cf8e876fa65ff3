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
      loop_placement(2, 1),
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
      loop_placement(1, 2),
      {{make_action(F, 0, 0), make_action(F, 1, 0), make_action(B, 1, 0), make_action(B, 0, 0)}}};
  CHECK(on_pytorch(schedule).ranks[0].peak == Bytes(23));
}

}  // namespace
}  // namespace trainwright
