#pragma once
// What a layout is judged against, as the commands that take one read it.
#include <optional>
#include <utility>

#include "trainwright/cli/command.h"
#include "trainwright/layout/layout.h"

namespace trainwright::cli {

// What the arguments model, on, trainer and job name; what could not be read is absent and its
// faults are among `faults`.
struct Surroundings {
  std::optional<Model> model;
  std::optional<Cluster> cluster;
  std::optional<Trainer> trainer;
  std::optional<Job> job;
};
Surroundings read_surroundings(const Invocation& invocation, Diagnostics& faults);

// The value, or nothing and its faults beside the others.
template <class T>
std::optional<T> value_or_faults(Result<T> result, Diagnostics& faults) {
  if (result) return *std::move(result);
  for (Diagnostic& fault : result.error().diagnostics) faults.push_back(std::move(fault));
  return std::nullopt;
}

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
