// trainwright list: what is known.
#include "trainwright/cli/command.h"

namespace trainwright::cli {

namespace {
Result<Output> run_list(const Invocation&) { return Output{}; }
}  // namespace

Command list_command() { return {.name = "list", .summary = "what is known", .run = run_list}; }

}  // namespace trainwright::cli
