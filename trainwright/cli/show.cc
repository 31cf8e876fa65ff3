// trainwright show: one thing, in full.
#include "trainwright/cli/show.h"

namespace trainwright::cli {

Command show_command() {
  return {.name = "show",
          .summary = "a model, a cluster, a trainer, a layout or its work",
          .commands = {show_model_command(), show_cluster_command(), show_trainer_command(),
                       show_layout_command(), show_work_command()}};
}

}  // namespace trainwright::cli
