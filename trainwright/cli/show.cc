// trainwright show: one thing, in full.
#include "trainwright/cli/show.h"

namespace trainwright::cli {

Command show_command() {
  return {.name = "show",
          .summary = "a model, a cluster, a trainer, a layout or its work",
          .examples = {"trainwright show model llama-3.1-70b",
                       "trainwright show layout tp=8,pp=4,sp,zero=1,mbs=1,gbs=512,seq=4096 --model "
                       "llama-2-70b --on 64xA100-80GB"},
          .commands = {show_model_command(), show_cluster_command(), show_trainer_command(),
                       show_layout_command(), show_work_command()}};
}

}  // namespace trainwright::cli
