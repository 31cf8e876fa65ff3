#pragma once
// Private: a log of training with the question that it answers beside it.
#include <optional>
#include <string>
#include <vector>

#include "trainwright/cli/setting.h"
#include "trainwright/logs/logs.h"

namespace trainwright::cli {

// A log that was understood.
struct ReadLog {
  LoggedRun run;
  StepSummary summary;
  StepSize size;
};

// What says what it is a log of: the words of `estimate`, with --model and --config.
std::vector<Argument> beside_a_log_arguments();
// What is given goes before `planned`, the words of a plan; empty where there is none.
Result<Question> question_beside(const Invocation& invocation, std::string_view command,
                                 const Words& planned = {});
// The words of the plan in a file; nothing where it is no JSON, as a log is, or is not there.
Result<std::optional<Words>> planned_words(const std::string& path);

StepSize step_size(const Question& question);
// A log that does not contradict the question.
Result<LoggedRun> logged_run(const std::string& path, const Question& question);
// One that came beyond warm-up.
Result<ReadLog> read_log_of(const std::string& path, const Question& question);
// "train.log: torchtitan, 5 lines from 2 to 6, spread 0.3 %; ..."
std::string log_text(const ReadLog& log);

}  // namespace trainwright::cli
