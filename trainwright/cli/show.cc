// trainwright show: one thing, in full.
#include "trainwright/cli/command.h"

namespace trainwright::cli {

Command show_command() { return {.name = "show", .summary = "one thing in full", .commands = {}}; }

}  // namespace trainwright::cli
