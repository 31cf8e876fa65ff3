#pragma once
// The subcommands of `trainwright show`, one file each.
#include "trainwright/cli/command.h"

namespace trainwright::cli {

Command show_model_command();
Command show_cluster_command();
Command show_trainer_command();
Command show_layout_command();
Command show_work_command();

}  // namespace trainwright::cli
