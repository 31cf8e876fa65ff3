#pragma once
// Private to `trainwright validate`.
#include <initializer_list>
#include <string>
#include <vector>

#include "trainwright/calibrate/calibrate.h"
#include "trainwright/cli/command.h"

namespace trainwright::cli {

// Gives every row the command of `trainwright estimate` that answers with its as-shipped figure.
// It reads these files of that directory: the constants of each source, orders of actions.
std::vector<File> add_commands(std::vector<SourceScore>& scores, const Cases& cases,
                               const MemoryConstants& constants, const std::string& directory);
// The same of step times; `left` are the constants that they were predicted with.
std::vector<File> add_commands(std::vector<TimeSourceScore>& scores, const Cases& cases,
                               const LeftOut& left, const Stacks& stacks,
                               const std::string& directory);

// The runs of --measurements. These options must name a source that is known, or one of a table of
// one's own; `scored`: "memory is", "step times are".
Result<std::vector<MeasuredRun>> wanted_runs(const Invocation& invocation,
                                             std::vector<std::string> known, const char* scored,
                                             std::initializer_list<const char*> options);

std::vector<Argument> measurement_arguments();
Command validate_time_command();
Command validate_choice_command();
Command validate_tune_command();

}  // namespace trainwright::cli
