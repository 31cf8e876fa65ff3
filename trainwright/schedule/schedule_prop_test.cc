#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "trainwright/base/random.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/testing/slow_schedule.h"

namespace trainwright {
namespace {

struct Instance {
  ScheduleKind kind = ScheduleKind::GPipe;
  Shape shape;
  MakeOptions options;
  Costs costs;
};

void add_inner_memory(Random& random, StageCosts& stage) {
  const auto bytes = [&] { return Bytes(random.integer(0, 30)); };
  stage.resident = bytes();
  stage.gradients = bytes();
  stage.inside = {bytes(), bytes(), bytes(), bytes(), bytes(), bytes()};
}

// Whole numbers, so that sums in any order are exact.
Costs random_costs(Random& random, int stages) {
  Costs costs;
  const bool inner = random.integer(0, 1) == 0;
  for (int s = 0; s < stages; ++s) {
    const auto time = [&] { return Seconds(static_cast<double>(random.integer(0, 9))); };
    const Seconds input = time(), weight = time();
    const std::int64_t kept = random.integer(0, 20);
    costs.stages.push_back(
        {time(), input, weight, input + weight, Bytes(kept), Bytes(random.integer(-5, kept))});
    if (inner) add_inner_memory(random, costs.stages.back());
    if (s + 1 < stages) costs.boundaries.push_back({time(), time(), Bytes(random.integer(0, 3))});
  }
  costs.loss = Seconds(static_cast<double>(random.integer(0, 5)));
  costs.per_action = Seconds(static_cast<double>(random.integer(0, 2)));
  costs.overlap = 0;
  return costs;
}

Instance random_instance(Random& random, int most_ranks, int most_microbatches) {
  Instance instance;
  const auto all = kinds();
  const KindFacts& facts =
      all[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(all.size()) - 1))];
  instance.kind = facts.kind;
  instance.shape.ranks = static_cast<int>(random.integer(1, most_ranks));
  instance.shape.microbatches = static_cast<int>(random.integer(1, most_microbatches));
  instance.shape.chunks =
      static_cast<int>(random.integer(facts.chunks_least, std::min(facts.chunks_most, 3)));
  instance.costs = random_costs(random, instance.shape.ranks * instance.shape.chunks);
  const int least = std::min(instance.shape.ranks, instance.shape.microbatches);
  if (random.integer(0, 1) == 0) {
    instance.options.group = static_cast<int>(random.integer(least, instance.shape.microbatches));
  }
  if (random.integer(0, 1) == 0) {
    instance.options.limit =
        static_cast<int>(random.integer(instance.shape.chunks, 3 * instance.shape.chunks));
    instance.options.costs = instance.costs;
  }
  return instance;
}

Schedule made(const Instance& instance) {
  return *make(instance.kind, instance.shape, instance.options);
}

bool has_groups(const Schedule& schedule) {
  for (const auto& list : schedule.ranks) {
    for (const Action& action : list) {
      if (action.overlaps_next) return true;
    }
  }
  return false;
}

// No rank is faster than its own work, no micro-batch than its way through the pipeline and back.
double work_and_path_bound(const Schedule& schedule, const Costs& costs) {
  std::vector<double> work(schedule.ranks.size());
  double path = costs.loss.value();
  for (std::size_t s = 0; s < costs.stages.size(); ++s) {
    const StageCosts& stage = costs.stages[s];
    const double least = stage.forward.value() +
                         std::min(stage.backward.value(),
                                  stage.backward_input.value() + stage.backward_weight.value());
    work[schedule.placement.rank_of[s].at()] += least * schedule.microbatches;
    path += stage.forward.value() + std::min(stage.backward, stage.backward_input).value();
    if (s + 1 < costs.stages.size() &&
        schedule.placement.rank_of[s] != schedule.placement.rank_of[s + 1]) {
      path += costs.boundaries[s].activation.value() + costs.boundaries[s].gradient.value();
    }
  }
  return std::max(path, *std::max_element(work.begin(), work.end()));
}

bool same(const Timeline& a, const Timeline& b) {
  if (a.makespan != b.makespan || a.ranks.size() != b.ranks.size()) return false;
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    const RankTotals &x = a.ranks[r], &y = b.ranks[r];
    if (x.busy != y.busy || x.warmup != y.warmup || x.steady != y.steady || x.drain != y.drain ||
        x.transfer != y.transfer || x.peak != y.peak) {
      return false;
    }
  }
  return true;
}

TEST_CASE("every made schedule passes the checker and its clock equals the slow replay") {
  CHECK(rc::check("clock equals replay", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    const Instance instance = random_instance(random, 6, 9);
    const Schedule schedule = made(instance);
    RC_ASSERT(check(schedule).empty());
    if (has_groups(schedule)) return;
    const Timeline timeline = simulate(schedule, instance.costs, {.detail = Detail::Full});
    const testing::SlowReplay slow = testing::replay_slowly(schedule, instance.costs);
    RC_ASSERT(timeline.makespan.value() == slow.makespan);
    for (std::size_t r = 0; r < slow.spans.size(); ++r) {
      for (std::size_t i = 0; i < slow.spans[r].size(); ++i) {
        RC_ASSERT(timeline.spans[r][i].start == slow.spans[r][i].start);
        RC_ASSERT(timeline.spans[r][i].end == slow.spans[r][i].end);
      }
    }
    const auto peaks = testing::peaks_slowly(schedule, instance.costs);
    for (std::size_t r = 0; r < peaks.size(); ++r) {
      RC_ASSERT(timeline.ranks[r].peak == Bytes(peaks[r]));
    }
  }));
}

TEST_CASE("a rank's busy time and bubbles add up to the makespan under every option") {
  CHECK(rc::check("bubbles add up", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    const Instance instance = random_instance(random, 6, 9);
    const Schedule schedule = made(instance);
    ClockOptions options{.detail = Detail::Full};
    options.transfers = random.integer(0, 1) == 0 ? Transfers::Overlapped : Transfers::Blocking;
    options.links = random.integer(0, 1) == 0 ? Links::Unlimited : Links::Serialised;
    options.engine = random.integer(0, 1) == 0 ? EngineRules::None : EngineRules::PyTorch;
    const Timeline timeline = simulate(schedule, instance.costs, options);
    for (std::size_t r = 0; r < timeline.ranks.size(); ++r) {
      const RankTotals& rank = timeline.ranks[r];
      RC_ASSERT(rank.busy + rank.warmup + rank.steady + rank.drain + rank.transfer ==
                timeline.makespan);
      Seconds bubbles;
      for (const Bubble& bubble : timeline.bubbles[r]) bubbles += bubble.end - bubble.start;
      RC_ASSERT(bubbles + rank.busy == timeline.makespan);
    }
    options.detail = Detail::Totals;
    RC_ASSERT(same(simulate(schedule, instance.costs, options), timeline));
  }));
}

// With the order fixed nothing can get faster when links serialise or transfers block.
TEST_CASE("less of a link never makes a fixed order faster") {
  CHECK(rc::check("monotone", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    const Instance instance = random_instance(random, 6, 9);
    const Schedule schedule = made(instance);
    const Seconds free = simulate(schedule, instance.costs).makespan;
    const Seconds serial =
        simulate(schedule, instance.costs, {.links = Links::Serialised}).makespan;
    const Seconds blocking =
        simulate(schedule, instance.costs, {.transfers = Transfers::Blocking}).makespan;
    RC_ASSERT(serial >= free);
    RC_ASSERT(blocking >= free);
    RC_ASSERT(free.value() >= work_and_path_bound(schedule, instance.costs));
  }));
}

TEST_CASE("the critical path is a chain without slack from the start to the makespan") {
  CHECK(rc::check("critical path", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    const Instance instance = random_instance(random, 6, 9);
    const Schedule schedule = made(instance);
    const Timeline timeline = simulate(schedule, instance.costs, {.detail = Detail::Full});
    RC_ASSERT(!timeline.critical_path.empty());
    const auto span = [&](const PathStep& step) {
      return timeline.spans[step.rank.at()][static_cast<std::size_t>(step.index)];
    };
    RC_ASSERT(span(timeline.critical_path.front()).start == Seconds(0));
    RC_ASSERT(span(timeline.critical_path.back()).end == timeline.makespan);
    for (std::size_t i = 1; i < timeline.critical_path.size(); ++i) {
      const PathStep &before = timeline.critical_path[i - 1], &step = timeline.critical_path[i];
      Seconds ready = span(before).end;
      if (step.after == PathStep::After::Transfer && before.rank != step.rank) {
        const Action action = schedule.ranks[step.rank.at()][static_cast<std::size_t>(step.index)];
        const bool down = action.kind == ActionKind::Forward;
        const BoundaryCosts& boundary =
            instance.costs.boundaries[static_cast<std::size_t>(action.stage - (down ? 1 : 0))];
        ready += down ? boundary.activation : boundary.gradient;
      }
      RC_ASSERT(span(step).start == ready);
    }
  }));
}

TEST_CASE("the streamed clock equals the clock on the lists in every total") {
  CHECK(rc::check("streamed equals listed", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    Instance instance = random_instance(random, 9, 40);
    if (!streams(facts_of(instance.kind))) return;
    ClockOptions options;
    if (random.integer(0, 3) == 0) options.transfers = Transfers::Blocking;
    if (random.integer(0, 3) == 0) options.links = Links::Serialised;
    if (random.integer(0, 3) == 0) options.engine = EngineRules::PyTorch;
    const auto streamed =
        simulate_kind(instance.kind, instance.shape, instance.costs, options, instance.options);
    RC_ASSERT(streamed.has_value());
    RC_ASSERT(same(*streamed, simulate(made(instance), instance.costs, options)));
  }));
}

TEST_CASE("a lowered schedule passes the checker of blocking transfers and reads back from CSV") {
  CHECK(rc::check("lowered", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    const Instance instance = random_instance(random, 6, 9);
    const Schedule schedule = made(instance);
    const auto lowered = lower(schedule, instance.costs);
    RC_ASSERT(lowered.has_value());
    RC_ASSERT(check_lowered(*lowered).empty());
    RC_ASSERT(*read_schedule_csv(to_csv(schedule), "s.csv") == schedule);
    RC_ASSERT(*read_schedule_csv(to_csv(*lowered), "s.csv") == *lowered);
  }));
}

// The long loop: 100,000 instances in an optimised build, a sample under the sanitizers.
TEST_CASE("100,000 random instances pass the checker, stay above the bounds and replay") {
#ifdef NDEBUG
  constexpr int kInstances = 100'000;
#else
  constexpr int kInstances = 3'000;
#endif
  Random random(20261115);
  for (int i = 0; i < kInstances; ++i) {
    const Instance instance = random_instance(random, 5, 7);
    const Schedule schedule = made(instance);
    const auto violations = check(schedule);
    if (!violations.empty()) FAIL(violations.front().why);
    const Timeline timeline = simulate(schedule, instance.costs);
    if (timeline.makespan.value() < work_and_path_bound(schedule, instance.costs)) {
      FAIL("below a lower bound, instance " << i);
    }
    if (has_groups(schedule)) continue;
    const auto peaks = testing::peaks_slowly(schedule, instance.costs);
    for (std::size_t r = 0; r < peaks.size(); ++r) {
      if (timeline.ranks[r].peak != Bytes(peaks[r])) FAIL("memory differs, instance " << i);
    }
  }
}

}  // namespace
}  // namespace trainwright
