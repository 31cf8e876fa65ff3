#pragma once
// Private: runs of one's own, and what step times learn from them.
#include <string>
#include <vector>

#include "trainwright/calibrate/calibrate.h"
#include "trainwright/cli/command.h"
#include "trainwright/question/question.h"

namespace trainwright::cli {

// A run as a question and the seconds of its step. Its layout need not be legal: it ran. Diagnoses
// times that its work cannot have taken.
Result<TimedRun> own_run(std::string label, const Question& question, Seconds measured,
                         const TimeConstants& constants);

struct LearnedRun {
  std::string label, stack;
  Seconds measured;
  Seconds before, now;  // predicted
};
struct LearnedTimes {
  Stacks before, now;
  std::vector<LearnedRun> runs;
};
LearnedTimes learn_times(const TimedRuns& runs, const Stacks& before);

// Half of the sentence about it: "predicted 15.1 s before, 14.3 s now".
std::string prediction_text(const LearnedRun& run);
Json to_json(const LearnedRun& run);

}  // namespace trainwright::cli
