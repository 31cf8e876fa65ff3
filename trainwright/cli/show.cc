// trainwright show: one thing, in full.
#include "trainwright/cli/show.h"

namespace trainwright::cli {

Command show_command() {
  return {
      .name = "show", .summary = "look at one thing: a model", .commands = {show_model_command()}};
}

}  // namespace trainwright::cli
