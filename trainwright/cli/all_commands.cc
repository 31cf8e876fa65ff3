#include "trainwright/cli/command.h"
#include "trainwright/cli/help.h"

namespace trainwright::cli {

std::vector<Command> all_commands() {
  return {plan_command(),      explain_command(),   estimate_command(), check_command(),
          export_command(),    report_command(),    tune_command(),     validate_command(),
          calibrate_command(), reconcile_command(), show_command(),     list_command(),
          schedule_command(),  replay_command(),    help_command(),     completion_command(),
          man_command()};
}

}  // namespace trainwright::cli
