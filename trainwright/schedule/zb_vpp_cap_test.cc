// ZB-VPP under a cap in bytes.
#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/base/random.h"
#include "trainwright/base/text.h"
#include "trainwright/schedule/memory_drawing.h"
#include "trainwright/schedule/zb_vpp.h"

namespace trainwright {
namespace {

Result<Schedule> under(Shape shape, const Costs& costs, Bytes cap, const ClockOptions& clock = {}) {
  return make_zb_vpp_under(shape, costs, {cap}, clock);
}

Placement wave(Shape shape) { return placed(StagePlacement::V, shape.ranks, shape.chunks); }

Costs units(int stages) { return even_costs(stages, Seconds(1), Seconds(1), Seconds(1)); }

// Two stages of one rank keep 100 each, of which I releases 60. What stands is 1000, gradients are
// 30 a stage. F needs 130 of its own, I 50 more than there is.
Costs two_stages() {
  Costs costs = units(2);
  for (StageCosts& stage : costs.stages) {
    stage.kept = Bytes(100);
    stage.released_by_input = Bytes(60);
    stage.gradients = Bytes(30);
    stage.inside.forward = Bytes(130);
    stage.inside.backward_input = stage.inside.backward = Bytes(50);
  }
  costs.stages[0].resident = Bytes(1000);
  return costs;
}

TEST_CASE("the smallest cap is what one micro-batch needs on the fullest rank") {
  // Second forward 1000 + 100 + 130 = 1230, then I of the upper stage 1000 + 200 + 50 = 1250. With
  // whole backwards its gradients come first: 1280. From the second micro-batch on those of both
  // stages are there: 1310.
  const Costs costs = two_stages();
  CHECK(smallest_cap(wave({1, 1, 2}), 1, costs) == Bytes(1250));
  CHECK(smallest_cap(wave({1, 3, 2}), 3, costs) == Bytes(1310));
  const auto fits = under({1, 3, 2}, costs, Bytes(1310));
  REQUIRE(fits);
  CHECK(peak(simulate(*fits, costs)) == Bytes(1310));
  const auto refused = under({1, 3, 2}, costs, Bytes(1309));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().diagnostics.front().hint.find("1310") != std::string::npos);
}

// 4 ranks of 2 chunks, 8 micro-batches: a rank works 8 x 2 x 3 = 48. 1F1B keeps 4 micro-batches, 8
// in chunks. It takes (8 + 3) x 6 = 66, ZB-H1 as much less as the W of the bubble: 48 + 3 x 2 = 54;
// of twice as many chunks half of that bubble is left, 51.
TEST_CASE("with the memory of 1F1B zb-vpp has half the bubble of ZB-H1") {
  const Costs costs = units(8);
  const Schedule schedule = *under({4, 8, 2}, costs, Bytes(8));
  const Timeline timeline = simulate(schedule, costs);
  CHECK(timeline.makespan == Seconds(51));
  CHECK(peak(timeline) == Bytes(8));
  CHECK(schedule == *make(ScheduleKind::ZbVpp, {4, 8, 2}, {.group = 0, .limit = 8, .costs = {}}));
  const Costs whole = even_costs(4, Seconds(2), Seconds(2), Seconds(2));
  const Timeline zb_h1 = simulate(*make(ScheduleKind::ZbH1, {4, 8, 1}), whole);
  CHECK(zb_h1.makespan == Seconds(54));
  CHECK(peak(zb_h1) == Bytes(4));
}

TEST_CASE("a smaller cap fits one micro-batch at least, and two are the least of two chunks") {
  const Costs costs = units(8);
  CHECK(smallest_cap(wave({4, 8, 2}), 8, costs) == Bytes(2));
  CHECK_FALSE(under({4, 8, 2}, costs, Bytes(1)));
  Seconds before(1e9);
  for (const std::int64_t cap : {2, 3, 4, 6, 8}) {
    const Timeline timeline = simulate(*under({4, 8, 2}, costs, Bytes(cap)), costs);
    CHECK(peak(timeline) <= Bytes(cap));
    CHECK(timeline.makespan <= before);
    before = timeline.makespan;
  }
}

// Bytes and seconds of uneven stages, whose I may keep more than it releases.
Costs drawn_costs(Random& random, Shape shape) {
  Costs costs = units(shape.ranks * shape.chunks);
  const auto draw = [&](std::int64_t most) { return random.integer(0, most); };
  for (StageCosts& stage : costs.stages) {
    stage.forward = Seconds(static_cast<double>(1 + draw(9)));
    stage.backward_input = Seconds(static_cast<double>(1 + draw(9)));
    stage.backward_weight = Seconds(static_cast<double>(1 + draw(9)));
    stage.backward = stage.backward_input + stage.backward_weight;
    stage.kept = Bytes(10 + draw(90));
    stage.released_by_input = Bytes(draw(stage.kept.value() + 20) - 20);
    stage.gradients = Bytes(draw(1) * draw(50));
    stage.resident = Bytes(draw(500));
    stage.inside.forward = stage.kept + Bytes(draw(40));
    stage.inside.backward_input = Bytes(draw(60));
    stage.inside.backward_weight = Bytes(draw(30));
    stage.inside.backward = Bytes(draw(60));
  }
  for (BoundaryCosts& boundary : costs.boundaries) {
    boundary.activation = boundary.gradient = Seconds(static_cast<double>(draw(2)));
    boundary.size = Bytes(draw(10));
  }
  return costs;
}

TEST_CASE("no rank ever holds more than the cap, from the smallest that can be met upwards") {
  Random random(7);
  for (int round = 0; round < 60; ++round) {
    const auto draw = [&](int least, int most) {
      return static_cast<int>(random.integer(least, most));
    };
    const Shape shape{draw(1, 5), draw(1, 9), draw(2, 4)};
    const Costs costs = drawn_costs(random, shape);
    for (const EngineRules engine : {EngineRules::None, EngineRules::PyTorch}) {
      const ClockOptions clock{.engine = engine};
      const Bytes least = smallest_cap(wave(shape), shape.microbatches, costs, clock);
      CHECK_FALSE(under(shape, costs, least - Bytes(1), clock));
      for (const double share : {1.0, 1.1, 1.5, 3.0}) {
        const Bytes cap(static_cast<std::int64_t>(static_cast<double>(least.value()) * share));
        const auto made = under(shape, costs, cap, clock);
        REQUIRE(made);
        CHECK(check(*made).empty());
        const Timeline timeline = simulate(*made, costs, clock);
        for (const RankTotals& rank : timeline.ranks) CHECK(rank.peak <= cap);
      }
    }
  }
}

TEST_CASE("caps may differ by rank") {
  const Costs costs = units(4);
  const Schedule schedule = *make_zb_vpp_under({2, 6, 2}, costs, {Bytes(2), Bytes(4)});
  const Timeline timeline = simulate(schedule, costs);
  CHECK(timeline.ranks[0].peak == Bytes(2));
  CHECK(timeline.ranks[1].peak <= Bytes(4));
  CHECK_FALSE(make_zb_vpp_under({2, 6, 2}, costs, {Bytes(2), Bytes(4), Bytes(8)}));
}

TEST_CASE("auto is not longer than zb-vpp under the same cap in bytes") {
  Random random(11);
  const Shape shape{3, 6, 2};
  for (int round = 0; round < 10; ++round) {
    const Costs costs = drawn_costs(random, shape);
    const Bytes cap = smallest_cap(wave(shape), shape.microbatches, costs) * 2;
    const Seconds fixed = simulate(*under(shape, costs, cap), costs).makespan;
    const AutoSchedule found =
        *make_auto(shape.ranks, shape.microbatches, costs, {.chunks = shape.chunks, .cap = {cap}});
    REQUIRE(found.schedule);
    CHECK(found.timeline.makespan <= fixed);
  }
}

TEST_CASE("what stands on a rank is there before its first action") {
  Costs costs = units(4);
  for (StageCosts& stage : costs.stages) stage.resident = Bytes(10);
  const Timeline timeline =
      simulate(*under({2, 2, 2}, costs, Bytes(30)), costs, {.detail = Detail::Full});
  // Rank 0 begins its first forward at once.
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
    CHECK(timeline.memory[rank].front().at == Seconds(0));
    CHECK(timeline.memory[rank].front().live == Bytes(rank == 0 ? 21 : 20));
  }
}

TEST_CASE("a drawing of memory has the cap and a line for each rank") {
  const Costs costs = units(8);
  const Timeline timeline =
      simulate(*under({4, 8, 2}, costs, Bytes(6)), costs, {.detail = Detail::Full});
  const std::string text = to_memory_drawing(timeline, costs, 60, Bytes(6));
  CHECK(std::count(text.begin(), text.end(), '\n') == 5);
  CHECK(text.find("from 0 kept to 6 kept, the cap") != std::string::npos);
  const Schedule schedule = *under({4, 8, 2}, costs, Bytes(6));
  CHECK(to_svg(schedule, timeline, costs, Bytes(6)).find("under the cap of 6 kept") !=
        std::string::npos);
}

}  // namespace
}  // namespace trainwright
