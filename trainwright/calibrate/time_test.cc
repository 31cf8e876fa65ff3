#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "trainwright/calibrate/calibrate.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

// A step of products alone on one rank, which takes `scale` times what is usual.
TimedRun run_of(double products, double scale) {
  TimedRun run;
  run.source = "mine";
  run.stack = "megatron";
  run.pieces.ranks.resize(1);
  run.pieces.micro_batches = 4;
  StagePieces stage;
  stage.forward.at(Piece::Products) = stage.backward_input.at(Piece::Products) =
      stage.backward_weight.at(Piece::Products) = Seconds(products);
  run.pieces.add(stage, 0);
  run.measured = scale * step_time(run.pieces, usual_stack()).step.value();
  return run;
}

double error_of(const TimedRun& run, const StackConstants& constants) {
  return std::abs(step_time(run.pieces, constants).step.value() / run.measured - 1);
}

TEST_CASE("no run leaves the prior, one run moves it most of the way") {
  const TimedRun run = run_of(1, 1.2);
  const TimedRun* const one = &run;
  CHECK(fit_stack({}, usual_stack()) == usual_stack());
  const StackConstants fitted = fit_stack({&one, 1}, usual_stack());
  CHECK(error_of(run, fitted) < 0.06);
  CHECK(fitted.at(StackConstant::Products) > usual_stack().at(StackConstant::Products));
  // Nothing that the run does not have is learned from it.
  CHECK(fitted.at(StackConstant::Transfer) ==
        doctest::Approx(usual_stack().at(StackConstant::Transfer)));
}

TEST_CASE("many runs outweigh the prior, and a broken one in twenty does not matter") {
  std::vector<TimedRun> runs;
  for (int i = 1; i <= 20; ++i) runs.push_back(run_of(i, i == 7 ? 3.0 : 1.2));
  std::vector<const TimedRun*> all;
  for (const TimedRun& run : runs) all.push_back(&run);
  CHECK(error_of(runs.front(), fit_stack(all, usual_stack())) < 0.03);
}

TEST_CASE("machines of one source that differ do not bend the constants that all share") {
  // Loss twice as slow as usual in all runs; the second machine takes 1.3 times as long for
  // everything and has small losses, so that one scale for both would put part of that on the loss.
  std::vector<TimedRun> runs;
  for (int i = 0; i < 40; ++i) {
    const bool second = i % 2 == 1;
    TimedRun run = run_of(1, 1);
    run.source = i < 20 ? "mixed" : "other";
    run.accelerator = i < 20 && second ? "slow" : "fast";
    run.pieces.kinds[0].forward.at(Piece::Loss) = Seconds((second ? 0.01 : 0.1) * (1 + i % 7));
    StackConstants truth = usual_stack();
    truth.values[static_cast<std::size_t>(StackConstant::Loss)] *= 2;
    run.measured =
        step_time(run.pieces, truth).step.value() * (run.accelerator == "slow" ? 1.3 : 1);
    runs.push_back(run);
  }
  std::vector<const TimedRun*> all;
  for (const TimedRun& run : runs) all.push_back(&run);
  const double usual = usual_stack().at(StackConstant::Loss);
  CHECK(fit_stack(all, usual_stack()).at(StackConstant::Loss) / usual ==
        doctest::Approx(2).epsilon(0.1));
  for (TimedRun& run : runs) run.accelerator.clear();
  CHECK(fit_stack(all, usual_stack()).at(StackConstant::Loss) / usual < 1.7);
}

TEST_CASE("one run determines the scale alone, runs that differ also what they differ in") {
  // Of products alone the factor on them and the scale are one and the same: a run tells
  // 1 / 0.14^2 = 51 of the first beyond the second, less than the 1 / (0.06^2 + 0.05^2) = 164 known
  // before.
  const TimedRun run = run_of(1, 1.2);
  const TimedRun* const one = &run;
  CHECK(determined_by({&one, 1}, usual_stack()) == std::vector{StackConstant::Scale});
  CHECK(determined_by({}, usual_stack()).empty());
  // The seconds of 20 to 400 operators on the host beside 30 ms of products.
  std::vector<TimedRun> runs;
  std::vector<const TimedRun*> all;
  for (int i = 1; i <= 10; ++i) {
    runs.push_back(run_of(0.01, 1));
    runs.back().pieces.kinds[0].forward.calls = 40.0 * i * i;
    runs.back().measured = step_time(runs.back().pieces, usual_stack()).step.value();
  }
  for (const TimedRun& of : runs) all.push_back(&of);
  const std::vector<StackConstant> told = determined_by(all, usual_stack());
  CHECK(std::find(told.begin(), told.end(), StackConstant::Host) != told.end());
  CHECK(std::find(told.begin(), told.end(), StackConstant::Transfer) == told.end());
}

TEST_CASE("a source is judged by constants in which it had no say") {
  TimedRuns timed;
  for (int i = 1; i <= 12; ++i) {
    timed.runs.push_back(run_of(i, 1.0));
    timed.runs.back().source = "other";
    timed.runs.push_back(run_of(i, 1.3));
    timed.runs.back().fold = i <= 6 ? "small" : "large";
  }
  const Stacks stacks = *load_stacks(kShippedData);
  for (const TimeSourceScore& score :
       validate_time(timed, leave_sources_out(timed, stacks), "mine")) {
    // The other source says 1.0: 1 / 1.3 - 1.
    CHECK(score.as_shipped.errors->bias == doctest::Approx(1 / 1.3 - 1).epsilon(0.05));
    CHECK(score.held_out.errors->mape < 0.03);
    CHECK(score.folds == 2);
  }
}

TEST_CASE("a source that ran two stacks teaches and is judged by each of them apart") {
  // Two sources run both stacks; the second stack takes 1.5 times as long in either.
  TimedRuns timed;
  for (int i = 1; i <= 12; ++i) {
    for (const std::string source : {"mine", "other"}) {
      for (const bool slow : {false, true}) {
        timed.runs.push_back(run_of(i, slow ? 1.5 : 1.0));
        timed.runs.back().source = source;
        timed.runs.back().stack = slow ? "slow" : "fast";
        timed.runs.back().fold = i <= 6 ? "small" : "large";
      }
    }
  }
  const LeftOut left = leave_sources_out(timed, *load_stacks(kShippedData));
  CHECK(left.size() == 4);
  const std::vector<TimeSourceScore> scores = validate_time(timed, left, "mine");
  REQUIRE(scores.size() == 1);
  CHECK(scores[0].stacks == std::vector<std::string>{"fast", "slow"});
  CHECK(scores[0].as_shipped.errors->worst < 0.05);
  CHECK(scores[0].held_out.errors->worst < 0.05);
  CHECK(*scores[0].one_row < 0.05);
}

TEST_CASE("every trainer that ships has a stack of its kind, but for one of a single paper") {
  const Stacks stacks = *load_stacks(kShippedData);
  for (const Trainer& trainer : shipped_trainers()) {
    // Sailor's authors ran it for one paper.
    const bool of_others = stack_of(stacks, trainer).name == "others";
    CHECK_MESSAGE(of_others == (trainer.name == "sailor"), trainer.name);
  }
}

}  // namespace
}  // namespace trainwright
