// trainwright show: one thing, in full.
#include "trainwright/cli/show.h"

namespace trainwright::cli {

Command show_command() {
  return {.name = "show",
          .summary = "look at one thing: a model, a cluster or a trainer",
          .commands = {show_model_command(), show_cluster_command(), show_trainer_command()}};
}

}  // namespace trainwright::cli
