#include "trainwright/tune/tune.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace trainwright {
namespace {

// Trials that share nothing but the machine, far from each other.
std::vector<Trial> far_apart(std::vector<double> predicted, std::vector<double> oom = {}) {
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    trials.push_back({"layout" + std::to_string(i),
                      Seconds(predicted[i]),
                      {},
                      {100.0 * static_cast<double>(i)},
                      i < oom.size() ? oom[i] : 0.0});
  }
  return trials;
}

constexpr Doubt kPlain{.scale = 0.3,
                       .residual = 0.4,
                       .reach = 1,
                       .own = 0,
                       .measuring = 0,
                       .memory_shared = 0.5,
                       .memory_own = 0.1};

TEST_CASE("without trials a belief is the prediction with the spread of all doubts") {
  const auto beliefs = learn(far_apart({10}), {}, kPlain);
  CHECK(beliefs[0].expected.value() == doctest::Approx(10));
  // sqrt(0.3^2 + 0.4^2) = 0.5; exp(-1.645 x 0.5) = 0.439
  CHECK(beliefs[0].spread == doctest::Approx(0.5));
  CHECK(beliefs[0].low.value() == doctest::Approx(4.394).epsilon(1e-3));
}

TEST_CASE("one measured step scales all others by what machines differ by") {
  const std::vector<TrialOutcome> ran = {{0, TrialEnd::Ok, Seconds(20)}};
  const auto beliefs = learn(far_apart({10, 10}), ran, kPlain);
  // It was measured without error: 20 s, and nothing is left open.
  CHECK(beliefs[0].expected.value() == doctest::Approx(20));
  CHECK(beliefs[0].spread == doctest::Approx(0).epsilon(1e-3));
  // 0.09 of its variance of 0.25 is shared: log error = 0.36 log 2, variance 0.25 - 0.09^2 / 0.25.
  CHECK(beliefs[1].log_error == doctest::Approx(0.36 * std::log(2.0)));
  CHECK(beliefs[1].spread == doctest::Approx(std::sqrt(0.2176)));
}

TEST_CASE("a step that nobody thought possible makes all others less sure") {
  const auto spread_after = [](double seconds) {
    const std::vector<TrialOutcome> ran = {{0, TrialEnd::Ok, Seconds(seconds)}};
    return learn(far_apart({10, 10}), ran, kPlain)[1].spread;
  };
  // exp(0.99) is within two standard deviations of 0.5, exp(3) is six of them.
  CHECK(spread_after(10 * std::exp(0.99)) == doctest::Approx(std::sqrt(0.2176)));
  CHECK(spread_after(10 * std::exp(3)) == doctest::Approx(6 * std::sqrt(0.2176)));
}

TEST_CASE("a step that hangs on the same constant learns more than one that does not") {
  std::vector<Trial> trials = far_apart({10, 10, 10});
  trials[0].slopes = {0.5};
  trials[1].slopes = {0.5};
  trials[2].slopes = {0};
  const std::vector<TrialOutcome> ran = {{0, TrialEnd::Ok, Seconds(15)}};
  const auto beliefs = learn(trials, ran, kPlain);
  // Covariances 0.09 + 0.25 and 0.09, of a variance of 0.5.
  CHECK(beliefs[1].log_error == doctest::Approx(0.68 * std::log(1.5)));
  CHECK(beliefs[2].log_error == doctest::Approx(0.18 * std::log(1.5)));
}

TEST_CASE("an OOM makes the others likelier to fail, a fit less, a crash neither") {
  const auto trials = far_apart({10, 10, 10}, {0.3, 0.3, 0});
  const auto oom_of_next = [&](TrialEnd end) {
    const std::vector<TrialOutcome> ended = {{0, end, Seconds(10)}};
    return learn(trials, ended, kPlain)[1].oom;
  };
  CHECK(learn(trials, {}, kPlain)[1].oom == doctest::Approx(0.3).epsilon(1e-3));
  CHECK(oom_of_next(TrialEnd::Crash) == doctest::Approx(0.3).epsilon(1e-3));
  const double after_oom = oom_of_next(TrialEnd::OutOfMemory),
               after_fit = oom_of_next(TrialEnd::Ok);
  CHECK(after_oom > 0.4);
  CHECK(after_fit < 0.25);
  // Total probability: the two cases average to what was believed before, nearly, since what is
  // left of a normal law is none.
  CHECK(0.3 * after_oom + 0.7 * after_fit == doctest::Approx(0.3).epsilon(0.03));
}

TEST_CASE("an OOM that nobody expected speaks against neighbours, not against all") {
  auto trials = far_apart({10, 10, 10}, {1e-5, 1e-5, 1e-5});
  trials[1].place = {trials[0].place[0] + 0.3};
  const std::vector<TrialOutcome> ended = {{0, TrialEnd::OutOfMemory, {}}};
  const auto beliefs = learn(trials, ended);
  CHECK(beliefs[1].oom > 0.1);
  CHECK(beliefs[2].oom < 0.02);
}

// What must fit is off by so many standard deviations of it, all of which the log sees.
SeenMemory off_by(double off, double share = 1) {
  SeenMemory reading;
  reading.off = off;
  reading.share = share;
  return reading;
}

TEST_CASE("memory that a log prints moves the others by what they share with it") {
  // The second has one standard deviation of room: Phi(-1) = 0.1587.
  const auto trials = far_apart({10, 10}, {0, 0.1587});
  const auto oom_after = [&](double off, double share) {
    const std::vector<TrialOutcome> ran = {{0, TrialEnd::Ok, Seconds(10), off_by(off, share)}};
    return learn(trials, ran, kPlain)[1].oom;
  };
  // Half of the variance is shared. Measured with a noise of 0.1: mean 0.5 x 2 / 1.01 = 0.990,
  // variance 1 - 0.25 / 1.01 = 0.7525, Phi((0.990 - 1) / 0.8675) = Phi(-0.0114)
  CHECK(oom_after(2, 1) == doctest::Approx(0.4954).epsilon(1e-3));
  // Phi((-0.990 - 1) / 0.8675) = Phi(-2.294)
  CHECK(oom_after(-2, 1) == doctest::Approx(0.0109).epsilon(0.01));
  // A log that sees a quarter of the variance: off / share = 2 with a noise of 0.75 / 0.25 + 0.1^2
  // / 0.25^2 = 3.16. Mean 0.5 x 2 / 4.16 = 0.2404, variance 1 - 0.25 / 4.16 = 0.9399, Phi((0.2404 -
  // 1) / 0.9695) = Phi(-0.7835)
  CHECK(oom_after(0.5, 0.25) == doctest::Approx(0.2167).epsilon(2e-3));
  // What nobody thought possible counts as four standard deviations.
  CHECK(oom_after(250, 1) == doctest::Approx(oom_after(4, 1)));
}

TEST_CASE("memory that a log prints changes which layout is tried next") {
  // The faster one has a chance of OOM of 40 %, 0.253 standard deviations of room. A log that is
  // two of them above makes it Phi((0.990 - 0.253) / 0.8675) = 80 %, more than anybody tries.
  const auto trials = far_apart({10, 7, 8}, {0, 0.4, 0});
  const auto next_after = [&](double off) {
    const std::vector<TrialOutcome> ran = {{0, TrialEnd::Ok, Seconds(10), off_by(off)}};
    return propose(trials, ran, learn(trials, ran, kPlain), {}, {}).trial;
  };
  CHECK(next_after(-2) == 1);
  CHECK(next_after(2) == 2);
}

TEST_CASE("a host that is full says nothing about accelerators") {
  const auto trials = far_apart({10, 10}, {0.3, 0.3});
  TrialOutcome full{0, TrialEnd::OutOfMemory};
  full.host = true;
  const std::vector<TrialOutcome> ended = {full};
  const auto beliefs = learn(trials, ended, kPlain);
  CHECK(beliefs[0].oom == 1);
  CHECK(beliefs[1].oom == doctest::Approx(0.3).epsilon(1e-3));
}

TEST_CASE("a log is read on the fullest rank it names, reserved bytes before allocated") {
  TrialMemory memory;
  memory.layout.pp = 2;
  memory.worst = 0;
  for (const std::int64_t gigabytes : {60, 40}) {
    RankClass& rank = memory.ranks.emplace_back();
    rank.allocated = Bytes((gigabytes - 12) * 1'000'000'000);
    rank.reserved = Bytes((gigabytes - 10) * 1'000'000'000);
    rank.driver = Bytes(gigabytes * 1'000'000'000);
    rank.spreads[1] = {RealBytes(1e9), RealBytes(3e9)};
    rank.spreads[2] = {RealBytes(2e9), RealBytes(4e9)};
  }
  const auto logged = [](std::optional<std::int64_t> rank, std::int64_t gigabytes) {
    return LoggedMemory{.rank = rank, .reserved = Bytes(gigabytes * 1'000'000'000)};
  };
  // Rank 0: 50 GB were predicted; 6 GB more are 1.5 of 4, and 9 of 16 of the variance is seen.
  const std::vector<LoggedMemory> both = {logged(0, 56), logged(1, 39)};
  const auto reading = seen_memory(both, memory);
  REQUIRE(reading.has_value());
  CHECK(reading->off == doctest::Approx(1.5));
  CHECK(reading->share == doctest::Approx(9.0 / 16));
  // Rank 1: 30 GB were predicted; 1 GB less is half of 2.
  const std::vector<LoggedMemory> second = {logged(1, 29)};
  CHECK(seen_memory(second, memory)->off == doctest::Approx(-0.5));
  CHECK(seen_memory(second, memory)->share == doctest::Approx(0.25));
  // A line of no rank is of the fullest.
  const std::vector<LoggedMemory> nobody = {logged(std::nullopt, 50)};
  CHECK(seen_memory(nobody, memory)->off == doctest::Approx(0));
  CHECK_FALSE(seen_memory({}, memory).has_value());
}

TEST_CASE("the expected improvement of a sure time is what it saves") {
  CHECK(expected_improvement(10, 8, 0) == doctest::Approx(2));
  CHECK(expected_improvement(10, 12, 0) == 0);
  // At the best itself: 10 (Phi(0) - exp(0.005) Phi(-0.1)) = 10 (0.5 - 1.005013 x 0.460172)
  CHECK(expected_improvement(10, 10, 0.1) == doctest::Approx(0.3752).epsilon(1e-3));
}

TEST_CASE("the first trial is the fastest for its chance to fit") {
  // 10 / 0.5 = 20 is worse than 12 / 0.9 = 13.3.
  const auto trials = far_apart({10, 12, 15}, {0.5, 0.1, 0});
  const auto beliefs = learn(trials, {});
  const Proposal first = propose(trials, {}, beliefs, {}, {});
  CHECK(first.stop == TuneStop::Not);
  CHECK(first.trial == 1);
}

Proposal after(const std::vector<Trial>& trials, const std::vector<TrialOutcome>& outcomes,
               const TuneTerms& terms = {}, const Doubt& doubt = {}) {
  return propose(trials, outcomes, learn(trials, outcomes, doubt), terms, Seconds(1000));
}

TEST_CASE("tuning is proven when no interval reaches the best") {
  const Proposal next = after(far_apart({10, 30}), {{0, TrialEnd::Ok, Seconds(10)}});
  CHECK(next.stop == TuneStop::Proven);
  CHECK(next.best == 0);
}

TEST_CASE("a long run makes a small gain worth a trial") {
  const auto trials = far_apart({10, 10.9});
  const std::vector<TrialOutcome> outcomes = {{0, TrialEnd::Ok, Seconds(10)}};
  TuneTerms terms{.run_steps = 1e6};
  CHECK(after(trials, outcomes, terms).stop == TuneStop::Not);
  terms.run_steps = 100;  // a thousand seconds, of which a trial takes a third
  CHECK(after(trials, outcomes, terms).stop == TuneStop::NotWorthIt);
}

TEST_CASE("a budget of trials or of time ends tuning") {
  const auto trials = far_apart({10, 10});
  const std::vector<TrialOutcome> outcomes = {{0, TrialEnd::Ok, Seconds(10)}};
  CHECK(after(trials, outcomes, {.most_trials = 1}).stop == TuneStop::Budget);
  CHECK(after(trials, outcomes, {.most_trials = 2}).stop == TuneStop::Not);
  CHECK(after(trials, outcomes, {.most_time = Seconds(999)}).stop == TuneStop::Budget);
}

TEST_CASE("a preempted trial is tried again, a crashed one is not") {
  const auto trials = far_apart({10});
  CHECK(after(trials, {{0, TrialEnd::Preempted, {}}}).stop == TuneStop::Not);
  CHECK(after(trials, {{0, TrialEnd::Crash, {}}}).stop == TuneStop::NothingLeft);
  const TrialOutcome lost{0, TrialEnd::NodeFailure, {}};
  CHECK(after(trials, {lost, lost, lost}).stop == TuneStop::NothingLeft);
}

TEST_CASE("three layouts that fail alike before a step end tuning with their cause") {
  const auto trials = far_apart({10, 10, 10, 10, 10});
  const auto failed = [](std::size_t trial, const std::string& cause) {
    TrialOutcome outcome{trial, TrialEnd::Refused, {}};
    outcome.cause = cause;
    return outcome;
  };
  std::vector<TrialOutcome> outcomes = {failed(0, "ValueError: 'tok.model' not found (pid 12)"),
                                        failed(1, "ValueError: 'tok.model' not found (pid 345)")};
  CHECK(after(trials, outcomes).stop == TuneStop::Not);
  outcomes.push_back(
      failed(1, "ValueError: 'tok.model' not found (pid 7)"));  // the same layout again
  CHECK(after(trials, outcomes).stop == TuneStop::Not);
  outcomes.push_back(failed(2, "ValueError: 'tok.json' not found (pid 6)"));
  const Proposal stopped = after(trials, outcomes);
  CHECK(stopped.stop == TuneStop::SameCause);
  CHECK(stopped.why.find("'tok.json' not found") != std::string::npos);
  // After a success, or after steps, a failure is the layout's own.
  outcomes.push_back({3, TrialEnd::Ok, Seconds(10)});
  CHECK(after(trials, outcomes).stop != TuneStop::SameCause);
  outcomes.pop_back();
  outcomes.back().stepped = true;
  CHECK(after(trials, outcomes).stop == TuneStop::Not);
}

TEST_CASE("causes are alike but for numbers and what stands in quotes") {
  CHECK(normalised_cause("rank 12: no file '/a/b1'") == normalised_cause("rank 3: no file '/c'"));
  CHECK(normalised_cause("it isn't here") == "it isn't here");
  CHECK(normalised_cause("AssertionError") != normalised_cause("ValueError"));
}

TEST_CASE("the words for ends read back") {
  for (int i = 0; i < 8; ++i) {
    const auto end = static_cast<TrialEnd>(i);
    CHECK(trial_end_named(name_of(end)) == end);
  }
  CHECK(!trial_end_named("died"));
}

OutcomeTable small_table() {
  OutcomeTable table;
  table.name = "small";
  const auto add = [&](std::int64_t tp, std::int64_t mbs, double predicted, double measured) {
    Layout layout;
    layout.tp = tp;
    layout.mbs = mbs;
    const bool ran = measured > 0;
    table.rows.push_back({layout, "", ran, Seconds(ran ? measured : 0), Seconds(1)});
    table.trials.push_back({to_text(layout), Seconds(predicted), {}, place_of(layout), 0.01});
  };
  add(1, 1, 10, 12);
  add(1, 2, 9, 0);
  add(1, 4, 8, 0);
  add(2, 1, 11, 10);
  add(2, 2, 10, 10.15);
  return table;
}

TEST_CASE("the grid goes from most to least splitting and drops what history tells") {
  // tp=2: mbs 1, then 2; a larger one never tells of a smaller that ran before. tp=1: mbs 1 runs, 2
  // fails, and 4 is dropped for it.
  CHECK(grid_order(small_table()) == TrialOrder{3, 4, 0, 1});
}

TEST_CASE("an order is scored by its first trial near the best") {
  const TuneTerms terms{.start_up = Seconds(60), .steps = 6};
  OutcomeTable table = small_table();
  table.nodes = 2;
  // An OOM, 2 node-minutes; 10.15 s, 1.5 % above 10: 60 + 60.9 s; 10 s: 120 s on two nodes.
  const OrderScore score = score_order(table, {1, 4, 3, 0}, terms);
  CHECK(score.within_2 == 2);
  CHECK(score.within_1 == 3);
  CHECK(score.ooms == 1);
  CHECK(score.node_minutes == doctest::Approx(2 + 2 * 120.9 / 60 + 4));
  CHECK(score.trials == 4);
  CHECK(score.regret == 0);
  CHECK(reaches_goal(score));
  CHECK(!reaches_goal(score_order(table, {1, 2, 3}, terms)));  // two OOMs
  CHECK(!score_order(table, {0}, terms).within_2);
}

TEST_CASE("random orders are permutations that a seed repeats") {
  const OutcomeTable table = small_table();
  TrialOrder order = random_order(table, 7);
  CHECK(order == random_order(table, 7));
  std::sort(order.begin(), order.end());
  CHECK(order == TrialOrder{0, 1, 2, 3, 4});
}

}  // namespace
}  // namespace trainwright
