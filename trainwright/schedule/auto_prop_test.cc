#include <doctest/doctest.h>

#include "trainwright/base/random.h"
#include "trainwright/schedule/auto_clock.h"
#include "trainwright/schedule/auto_extend.h"
#include "trainwright/schedule/auto_pattern.h"
#include "trainwright/schedule/auto_search.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/testing/slow_schedule.h"

namespace trainwright {
namespace {

#ifdef NDEBUG
constexpr std::uint64_t kInstances = 100'000;
#else
constexpr std::uint64_t kInstances = 1'000;
#endif

struct Instance {
  int ranks, microbatches;
  Costs costs;
  AutoOptions options;
};

// Uneven costs, some of them zero, some I that free memory and some that take it, some actions that
// need more while they run; caps from too small to none.
Instance random_instance(std::uint64_t seed) {
  Random random(seed);
  Instance instance;
  const auto draw = [&](int low, int high) { return static_cast<int>(random.integer(low, high)); };
  instance.ranks = draw(1, 5);
  instance.microbatches = draw(1, 6);
  const int chunks = draw(1, 3);
  instance.options.chunks = chunks;
  instance.options.placements = {draw(0, 1) == 0 ? StagePlacement::V : StagePlacement::Loop};
  const int stages = instance.ranks * chunks;
  const double transfer = draw(0, 2);
  // Under PyTorch's rules what is sent stays to the end of the step, and is part of what is kept.
  const Bytes size(draw(0, 3) == 0 ? 1 : 0);
  if (size > Bytes(0)) instance.options.clock.engine = EngineRules::PyTorch;
  const bool inner = draw(0, 3) == 0;
  for (int s = 0; s < stages; ++s) {
    const Seconds forward(draw(0, 9)), input(draw(0, 9)), weight(draw(0, 9));
    const Seconds fused = input + weight - Seconds(draw(0, 3) == 0 ? 0.5 : 0);
    const Bytes kept(draw(static_cast<int>(size.value()), 4));
    instance.costs.stages.push_back({forward, input, weight, std::max(fused, Seconds(0)), kept,
                                     Bytes(draw(-1, static_cast<int>(kept.value())))});
    if (inner) {
      const auto bytes = [&] { return Bytes(draw(0, 3)); };
      StageCosts& stage = instance.costs.stages.back();
      stage.resident = bytes();
      stage.gradients = bytes();
      stage.inside = {bytes(), bytes(), bytes(), bytes(), bytes(), bytes()};
    }
    if (s > 0) instance.costs.boundaries.push_back({Seconds(transfer), Seconds(transfer), size});
  }
  instance.costs.loss = Seconds(draw(0, 1));
  if (draw(0, 3) > 0) instance.options.cap = {Bytes(draw(2, 30))};
  instance.options.budget = 1'500;
  return instance;
}

TEST_CASE("every schedule of auto is proven, fits its cap, and is not below the bound") {
  std::uint64_t made = 0;
  for (std::uint64_t seed = 0; seed < kInstances; ++seed) {
    const Instance instance = random_instance(seed);
    const auto best =
        make_auto(instance.ranks, instance.microbatches, instance.costs, instance.options);
    CAPTURE(seed);
    REQUIRE(best);
    const bool possible =
        instance.options.cap.empty() || instance.options.cap[0] >= best->smallest_cap;
    REQUIRE(best->schedule.has_value() == possible);
    if (!possible) continue;
    ++made;
    REQUIRE(check(*best->schedule).empty());
    REQUIRE(best->timeline.makespan.value() >= best->lower_bound.value() * (1 - 1e-12));
    if (!instance.options.cap.empty()) REQUIRE(peak(best->timeline) <= instance.options.cap[0]);
    // The slow replay, on some; it knows no engine rules.
    if (seed % 16 != 0 || instance.options.clock.engine != EngineRules::None) continue;
    const auto replay = testing::replay_slowly(*best->schedule, instance.costs);
    REQUIRE(best->timeline.makespan.value() == doctest::Approx(replay.makespan));
  }
  CHECK(made > kInstances / 2);
}

TEST_CASE(
    "asked for whole backwards auto splits none, and no fixed kind with whole ones is shorter") {
  std::uint64_t compared = 0;
  for (std::uint64_t seed = 0; seed < kInstances / 20; ++seed) {
    Instance of = random_instance(seed);
    of.options.whole = true;
    const auto best = make_auto(of.ranks, of.microbatches, of.costs, of.options);
    CAPTURE(seed);
    REQUIRE(best);
    if (!best->schedule) continue;
    REQUIRE(check(*best->schedule).empty());
    for (const auto& list : best->schedule->ranks) {
      for (const Action action : list) {
        const bool whole =
            action.kind == ActionKind::Forward || action.kind == ActionKind::Backward;
        REQUIRE(whole);
      }
    }
    // Times and peaks are those of the costs as they were given.
    const Timeline timeline = simulate(*best->schedule, of.costs, of.options.clock);
    REQUIRE(timeline.makespan == best->timeline.makespan);
    REQUIRE(peak(timeline) == peak(best->timeline));
    REQUIRE(timeline.makespan.value() >= best->lower_bound.value() * (1 - 1e-12));
    const Seconds any = lower_bound(best->schedule->placement, of.microbatches, of.costs,
                                    of.options.cap, of.options.clock);
    REQUIRE(best->lower_bound.value() >= any.value() * (1 - 1e-12));
    for (const KindFacts& facts : kinds()) {
      const Shape shape{of.ranks, of.microbatches, of.options.chunks};
      const auto fixed = make(facts.kind, shape);
      if (facts.splits_backward || !fixed || fixed->placement != best->schedule->placement) {
        continue;
      }
      const Timeline other = simulate(*fixed, of.costs, of.options.clock);
      if (!of.options.cap.empty() && peak(other) > of.options.cap[0]) continue;
      REQUIRE(timeline.makespan.value() <= other.makespan.value() * (1 + 1e-12));
      ++compared;
    }
  }
  CHECK(compared > kInstances / 100);
}

detail::PipelineProblem random_problem(Random& random, int ranks, int chunks, int micro_batches) {
  std::vector<detail::PipelineStage> stages;
  const Placement placement = placed(StagePlacement::V, ranks, chunks);
  std::int64_t kept = 0;
  for (const RankId rank : placement.rank_of) {
    const auto time = [&] { return static_cast<double>(random.integer(1, 9)); };
    stages.push_back({.rank = rank.index(),
                      .forward = time(),
                      .input = time(),
                      .weight = time(),
                      .activation_delay = 1,
                      .gradient_delay = 1});
    kept += stages.back().kept;
  }
  const std::vector<std::int64_t> cap(static_cast<std::size_t>(ranks),
                                      random.integer(chunks, 2 * kept));
  return detail::make_problem(ranks, micro_batches, stages, cap);
}

TEST_CASE("a repeated stretch keeps every rank's peak and never deadlocks") {
  int extended = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const auto problem = random_problem(random, static_cast<int>(random.integer(2, 5)), 2, 16);
    detail::Purse purse{.limit = 4000};
    const detail::Candidate candidate = detail::search(problem, {}, purse);
    const auto before = detail::peaks(problem, candidate.order);
    const auto longer = detail::with_micro_batches(problem, 28);
    for (const auto& order : detail::extensions(problem, candidate, 12, purse)) {
      detail::OrderClock clock;
      CHECK(clock.run(longer, order));
      CHECK(detail::peaks(longer, order) == before);
      ++extended;
    }
  }
  CHECK(extended > 100);
}

TEST_CASE("a building block that fits fits however often it is repeated") {
  int fitting = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const int chunks = static_cast<int>(random.integer(1, 3));
    const auto problem = random_problem(random, static_cast<int>(random.integer(1, 6)), chunks,
                                        static_cast<int>(random.integer(1, 30)));
    const auto block =
        detail::make_block(problem, detail::block_shape(chunks, random.integer(0, 400)));
    const auto order = detail::repeat_block(problem, block);
    detail::OrderClock clock;
    CHECK(clock.run(problem, order));
    if (!detail::block_fits(problem, block)) continue;
    CHECK(detail::fits(problem, order));
    ++fitting;
  }
  CHECK(fitting > 200);
}

}  // namespace
}  // namespace trainwright
