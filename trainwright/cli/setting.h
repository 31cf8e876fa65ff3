#pragma once
// What a layout is judged against, as the commands that take one read it.
#include "trainwright/cli/command.h"
#include "trainwright/layout/layout.h"

namespace trainwright::cli {

struct Setting {
  ReadLayout read;
  Job job;
  Model model;
  Cluster cluster;
  Trainer trainer;
};

// From the arguments model, on, trainer, job and layout; all faults of all of them at once.
Result<Setting> read_setting(const Invocation& invocation);

// The layout and what was filled in, model, cluster and trainer, ranks and micro-batches.
std::string setting_text(const Setting& setting);
// Why a layout is not legal, or what speaks against it.
std::string violations_text(const std::vector<LayoutViolation>& found, int width);
Json violations_json(const std::vector<LayoutViolation>& found);

}  // namespace trainwright::cli
