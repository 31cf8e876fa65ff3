#include <doctest/doctest.h>

#include "trainwright/schedule/order.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/schedule/systolic.h"

namespace trainwright {
namespace {

constexpr ActionKind F = ActionKind::Forward;
constexpr ActionKind I = ActionKind::BackwardInput;
constexpr ActionKind W = ActionKind::BackwardWeight;
constexpr ActionKind B = ActionKind::Backward;

Costs two_stages(double forward, double input, double weight, double transfer) {
  return even_costs(2, Seconds(forward), Seconds(input), Seconds(weight), Seconds(transfer));
}

// One micro-batch, F = 1, B = 2 + 3, transfer 10: down 1 + 10, there 1 + 5, back 10, then 5.
TEST_CASE("one micro-batch takes its way through the pipeline and back") {
  const Timeline timeline = simulate(*make(ScheduleKind::OneFOneB, {2, 1, 1}),
                                     two_stages(1, 2, 3, 10), {.detail = Detail::Full});
  CHECK(timeline.makespan == Seconds(1 + 10 + 1 + 5 + 10 + 5));
  // Rank 0 is busy 6, waits 6 for rank 1 to work and 20 for the two transfers, all in warm-up.
  CHECK(timeline.ranks[0].busy == Seconds(6));
  CHECK(timeline.ranks[0].warmup == Seconds(16));
  CHECK(timeline.ranks[0].transfer == Seconds(10));
  // Rank 1 waits 1 for the forward and 10 for its transfer, and idles 15 at the end.
  CHECK(timeline.ranks[1].warmup == Seconds(1));
  CHECK(timeline.ranks[1].transfer == Seconds(10));
  CHECK(timeline.ranks[1].drain == Seconds(15));
  REQUIRE(timeline.critical_path.size() == 4);
  CHECK(timeline.critical_path[1].after == PathStep::After::Transfer);
  CHECK(timeline.critical_path[2].after == PathStep::After::Rank);
}

TEST_CASE("the loss is paid on the last stage only") {
  Costs costs = two_stages(1, 1, 1, 0);
  const Schedule schedule = *make(ScheduleKind::OneFOneB, {2, 3, 1});
  const Seconds before = simulate(schedule, costs).makespan;
  costs.loss = Seconds(7);
  const Timeline timeline = simulate(schedule, costs);
  CHECK(timeline.ranks[0].busy == Seconds(9));
  CHECK(timeline.ranks[1].busy == Seconds(9 + 21));
  CHECK(timeline.makespan > before);
}

TEST_CASE("the engine's own cost is added to every action") {
  Costs costs = two_stages(1, 1, 1, 0);
  costs.per_action = Seconds(0.5);
  const Timeline timeline = simulate(*make(ScheduleKind::ZbH1, {2, 4, 1}), costs);
  CHECK(timeline.ranks[0].busy == Seconds(4 * 3 * 1.5));
}

// Rank 0 sends two forwards; F = 1 and the transfer takes 10. Blocking: the second F starts at 11.
// Serialised: both are computed at once, the second transfer departs at 11 and arrives at 21.
TEST_CASE("transfers hide behind work, stop the sender or queue on the link") {
  const Schedule schedule = *make(ScheduleKind::GPipe, {2, 2, 1});
  const Costs costs = two_stages(1, 1, 1, 10);
  const auto second_forward = [&](const ClockOptions& options) {
    const Timeline timeline = simulate(schedule, costs, options);
    return std::pair(timeline.spans[0][1].start, timeline.spans[1][1].start);
  };
  CHECK(second_forward({.detail = Detail::Full}) == std::pair(Seconds(1), Seconds(12)));
  CHECK(second_forward({.transfers = Transfers::Blocking, .detail = Detail::Full}) ==
        std::pair(Seconds(11), Seconds(22)));
  CHECK(second_forward({.links = Links::Serialised, .detail = Detail::Full}) ==
        std::pair(Seconds(1), Seconds(21)));
}

// A V of two ranks: the activation from stage 1 to 2 stays on rank 1.
TEST_CASE("a transfer within a rank is free") {
  const Schedule schedule = *make(ScheduleKind::ZbV, {2, 1, 2});
  const Timeline timeline =
      simulate(schedule, even_costs(4, Seconds(1), Seconds(1), Seconds(1), Seconds(10)));
  // Down: 4 F and two crossings; back: 4 I and two crossings, and the W of stage 2, which rank 1
  // runs before the I of stage 1; then the last W.
  CHECK(timeline.makespan == Seconds(4 + 20 + 4 + 20 + 1 + 1));
}

// PyTorch's stage 0 does nothing in I and everything in W: the same work, but memory until W.
TEST_CASE("under PyTorch's rules stage 0 frees and computes everything in W") {
  Schedule schedule{1,
                    placed(StagePlacement::Loop, 1, 1),
                    {{make_action(F, 0, 0), make_action(I, 0, 0), make_action(W, 0, 0)}}};
  Costs costs = even_costs(1, Seconds(1), Seconds(2), Seconds(3));
  costs.stages[0].kept = Bytes(10);
  costs.stages[0].released_by_input = Bytes(4);
  const Timeline plain = simulate(schedule, costs, {.detail = Detail::Full});
  CHECK(plain.spans[0][1].end == Seconds(3));
  CHECK(plain.memory[0][1].live == Bytes(6));
  const Timeline torch =
      simulate(schedule, costs, {.engine = EngineRules::PyTorch, .detail = Detail::Full});
  CHECK(torch.makespan == plain.makespan);
  CHECK(torch.spans[0][1].end == Seconds(1));
  CHECK(torch.memory[0][1].at == Seconds(6));
  CHECK(torch.memory[0][1].live == Bytes(0));
}

// One cut of 100 bytes between two ranks, four micro-batches: 400 bytes of receive buffers stand on
// either side. Of the 150 bytes that F keeps, 100 are the output, which rank 0 cannot let go before
// the step ends; on rank 1 the backward frees 150 and leaves 100 of sent gradient.
//   rank 0: F0 150, F1 300, B0 250, F2 400, B1 350, F3 500, B2 450, B3 400
//   rank 1: F0 150, B0 100, F1 250, B1 200, F2 350, B2 300, F3 450, B3 400
TEST_CASE("under PyTorch's rules buffers stand and sent tensors stay for the whole step") {
  Costs costs = two_stages(1, 1, 1, 0);
  costs.boundaries[0].size = Bytes(100);
  for (StageCosts& stage : costs.stages) stage.kept = Bytes(150);
  const Schedule schedule = *make(ScheduleKind::OneFOneB, {2, 4, 1});
  const Timeline timeline = simulate(schedule, costs, {.engine = EngineRules::PyTorch});
  CHECK(timeline.ranks[0].peak == Bytes(500 + 400));
  CHECK(timeline.ranks[1].peak == Bytes(450 + 400));
}

TEST_CASE("an I that keeps more than it frees raises the peak at its end") {
  Schedule schedule{1,
                    placed(StagePlacement::Loop, 1, 1),
                    {{make_action(F, 0, 0), make_action(I, 0, 0), make_action(W, 0, 0)}}};
  Costs costs = even_costs(1, Seconds(1), Seconds(1), Seconds(1));
  costs.stages[0].kept = Bytes(10);
  costs.stages[0].released_by_input = Bytes(-5);
  CHECK(peak(simulate(schedule, costs)) == Bytes(15));
}

// F takes 2, B takes 6; overlapped fully the group takes 6, half 7, not at all 8. PyTorch runs the
// members in turn whatever the overlap.
TEST_CASE("a group takes its longest member and what is not hidden of the others") {
  Schedule schedule{
      2,
      placed(StagePlacement::Loop, 1, 1),
      {{make_action(F, 0, 0), make_action(F, 0, 1), make_action(B, 0, 0), make_action(B, 0, 1)}}};
  schedule.ranks[0][1].overlaps_next = true;
  Costs costs = even_costs(1, Seconds(2), Seconds(3), Seconds(3));
  for (const auto& [overlap, makespan] : {std::pair(1.0, 14.0), {0.5, 15.0}, {0.0, 16.0}}) {
    costs.overlap = overlap;
    CHECK(simulate(schedule, costs).makespan == Seconds(makespan));
    CHECK(simulate(schedule, costs, {.engine = EngineRules::PyTorch}).makespan == Seconds(16));
  }
}

// The bubble of 1F1B is (p - 1)(F + B) of a step of (m + p - 1)(F + B) (Narayanan et al. 2021).
TEST_CASE("the bubble of even 1f1b is the closed form") {
  for (const int p : {1, 2, 5, 8}) {
    for (const int m : {8, 16}) {
      const Timeline timeline = simulate(*make(ScheduleKind::OneFOneB, {p, m, 1}),
                                         even_costs(p, Seconds(1), Seconds(1), Seconds(1)));
      CHECK(bubble(timeline) == doctest::Approx((p - 1.0) / (m + p - 1.0)));
      CHECK(peak(timeline) == Bytes(std::min(p, m)));
    }
  }
}

TEST_CASE("the streamed clock steps long pipelines level by level") {
  for (const KindFacts& facts : kinds()) {
    if (!streams(facts)) continue;
    const Shape shape{16, 64, std::min(4, facts.chunks_most)};
    const detail::LoopedPlan plan = detail::looped_plan(facts.kind, shape, {});
    const Placement placement = placed(StagePlacement::Loop, shape.ranks, shape.chunks);
    const Costs costs =
        even_costs(placement.stages(), Seconds(1), Seconds(1), Seconds(1), Seconds(0.25));
    CAPTURE(facts.name);
    const auto fast =
        detail::run_systolic(plan, detail::price(placement, shape.microbatches, costs, {}));
    REQUIRE(fast.has_value());
    CHECK(fast->makespan == simulate(*make(facts.kind, shape), costs).makespan);
  }
}

}  // namespace
}  // namespace trainwright
