#include <doctest/doctest.h>

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
  run.pieces.stages.push_back(stage);
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

}  // namespace
}  // namespace trainwright
