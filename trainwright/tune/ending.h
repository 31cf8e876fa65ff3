#pragma once
// How a trial ended, by its root cause: from what its log says and how its command ended. Part of
// tune.h: include that one.
//
// In this order: a failed allocation anywhere in the log, whoever died of it last, or Slurm's
// memory limit; what the watcher says (time limit, hang, stopped); what Slurm says or a full disk;
// settings that the trainer refuses, if it never came to a step; any other failure; and of a
// command that ended well its steps, as `logs` reads them.
#include <optional>
#include <string>
#include <string_view>

#include "trainwright/logs/logs.h"
#include "trainwright/tune/history.h"
#include "trainwright/tune/process.h"

namespace trainwright {

// `pattern`: a regular expression (ECMAScript) whose first group is the seconds of a step, for
// trainers that print their own lines; empty: the forms of logs.h. A pattern that is none is a
// fault of `step_pattern_fault`.
struct Reading {
  StepSize size;
  std::string pattern = {};
};
std::optional<std::string> step_pattern_fault(const std::string& pattern);
// The last line of a log, which may be no text: without what a terminal would take for orders, and
// of no more than 300 characters.
std::string last_line(std::string_view log);
TrialResult ending_of(std::string_view log, const std::optional<CommandEnd>& end,
                      const Reading& reading);

}  // namespace trainwright
