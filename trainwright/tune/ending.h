#pragma once
// How a trial ended, by its root cause: from what its log says and how its command ended. Part of
// tune.h: include that one.
//
// In this order: exit code 0 with the last of its steps in the log is a success, whatever else the
// log says; a failed allocation anywhere in the log, whoever died of it last; what the watcher says
// (time limit, hang, stopped); what a line of data/logs says; any other failure; and of a command
// that ended well its steps, as `logs` reads them.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/logs/logs.h"
#include "trainwright/tune/history.h"
#include "trainwright/tune/process.h"

namespace trainwright {

// What a line of a log says about how a run ended (data/logs/endings.json).
struct EndingLine {
  std::string says;
  TrialEnd end = TrialEnd::Crash;
  bool host = false;  // of OutOfMemory: not the accelerator's
  std::string program, source, sample;
};
Result<std::vector<EndingLine>> load_endings(const std::string& data_directory);

// `pattern`: a regular expression (ECMAScript) whose first group is the seconds of a step, for
// trainers that print their own lines; empty: the forms of logs.h. A pattern that is none is a
// fault of `step_pattern_fault`.
struct Reading {
  StepSize size;
  std::string pattern = {};
  std::vector<EndingLine> endings = {};  // of data/logs
  std::int64_t steps = 0;                // that a whole trial has; 0: not told
};
std::optional<std::string> step_pattern_fault(const std::string& pattern);
// The last line of a log, which may be no text: without what a terminal would take for orders, and
// of no more than 300 characters.
std::string last_line(std::string_view log);
TrialResult ending_of(std::string_view log, const std::optional<CommandEnd>& end,
                      const Reading& reading);

}  // namespace trainwright
