#pragma once
// Private: runs of one's own, and what step times learn from them.
#include <optional>
#include <string>
#include <vector>

#include "trainwright/calibrate/calibrate.h"
#include "trainwright/cli/command.h"
#include "trainwright/question/question.h"

namespace trainwright::cli {

// A run as a question and the seconds of its step. Its layout need not be legal: it ran. Diagnoses
// times that its work cannot have taken.
Result<TimedRun> own_run(std::string label, const Question& question, Seconds measured,
                         const TimeConstants& constants, const ExpertLoad& load);

struct LearnedRun {
  std::string label, stack;
  Seconds measured;
  Seconds before, now;  // predicted
};
struct LearnedTimes {
  Stacks before, now;
  std::vector<LearnedRun> runs;
};
// Refused where the program was built without the solver: in a browser.
Result<LearnedTimes> learn_times(const TimedRuns& runs, const Stacks& before);

Json to_json(const LearnedRun& run);

// One run in place, --measured 'tp=8,pp=4,mbs=1:step=14.2s', also on another cluster:
// 'tp=8,mbs=1:on=8xH100:step=2.1s'.
struct MeasuredHere {
  LearnedRun run;
  double scale = 1;  // what the stack's constant `scale` was multiplied by
};
Argument measured_argument();
// The constants of --calibration, or those that ship, after --tuned and --measured.
struct KnownTimes {
  TimeConstants constants;
  Stacks before;
  std::optional<MeasuredHere> measured;
};
// `words`: of the question; `same`: entries of its layout that the measured one has unless it says
// otherwise.
Result<KnownTimes> known_times(const Invocation& invocation, Words words, const std::string& same);
// "Measured 14.2 s for ...: predicted 15.1 s before, 14.3 s now. ..."
std::string to_text(const MeasuredHere& measured);
Json to_json(const MeasuredHere& measured);
// "Step times are those of an ordinary run; a vendor's own recipe takes 14 % less (--tuned)."
std::string tuned_text(const StackConstants& stack, bool tuned);

}  // namespace trainwright::cli
