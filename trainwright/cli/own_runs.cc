#include "trainwright/cli/own_runs.h"

#include <fmt/format.h>

#include "trainwright/cli/time_text.h"

namespace trainwright::cli {
namespace {

// No stack of any source is further off than this, but for runs that were stalled.
constexpr double kBelievable = 5;
constexpr const char* kOtherRun =
    "is it of this model, cluster, batch and length, and of one whole step?";

}  // namespace

Result<TimedRun> own_run(std::string label, const Question& question, Seconds measured,
                         const TimeConstants& constants) {
  TimedRun run;
  run.source = "own";
  run.label = std::move(label);
  run.measured = measured.value();
  run.pieces = TW_TRY(step_pieces(step_question(question, constants.kernels)));
  const Stack& stack = stack_of(constants.stacks, question.trainer);
  run.stack = stack.name;
  if (measured < run.pieces.bound) {
    return fail(run.label,
                fmt::format("a step of {} is shorter than its products take at the peak of the "
                            "accelerators, {}",
                            seconds_text(measured), seconds_text(run.pieces.bound)),
                kOtherRun);
  }
  const Seconds predicted = step_time(run.pieces, stack.constants).step;
  if (measured > predicted * kBelievable || predicted > measured * kBelievable) {
    return fail(run.label,
                fmt::format("a step of {} is nothing like the {} that are predicted",
                            seconds_text(measured), seconds_text(predicted)),
                kOtherRun);
  }
  return run;
}

LearnedTimes learn_times(const TimedRuns& runs, const Stacks& before) {
  LearnedTimes learned{before, learned_from(runs, before), {}};
  for (const TimedRun& run : runs.runs) {
    const auto predicted = [&](const Stacks& by) {
      for (const Stack& stack : by.list) {
        if (stack.name == run.stack) return step_time(run.pieces, stack.constants).step;
      }
      return step_time(run.pieces, by.list.back().constants).step;
    };
    learned.runs.push_back({run.label, run.stack, Seconds(run.measured), predicted(learned.before),
                            predicted(learned.now)});
  }
  return learned;
}

std::string prediction_text(const LearnedRun& run) {
  return fmt::format("predicted {} before, {} now", seconds_text(run.before),
                     seconds_text(run.now));
}

Json to_json(const LearnedRun& run) {
  return Json::object()
      .add("label", Json::of(run.label))
      .add("stack", Json::of(run.stack))
      .add("measured", Json::of(run.measured.value()))
      .add("predicted_before", Json::of(run.before.value()))
      .add("predicted_now", Json::of(run.now.value()));
}

}  // namespace trainwright::cli
