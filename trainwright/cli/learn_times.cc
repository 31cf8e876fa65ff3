#include "trainwright/cli/own_runs.h"

namespace trainwright::cli {

Result<LearnedTimes> learn_times(const TimedRuns& runs, const Stacks& before) {
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

}  // namespace trainwright::cli
