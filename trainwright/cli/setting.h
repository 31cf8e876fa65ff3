#pragma once
// What a layout is judged against, as the commands that take one read it.
#include <optional>
#include <utility>

#include "trainwright/cli/command.h"
#include "trainwright/layout/layout.h"
#include "trainwright/work/work.h"

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
  std::optional<AttentionKernel> attention;  // as asked; otherwise the trainer's own
};

inline constexpr const char* kJobHelp =
    "optimizer, frozen parts, LoRA: optimizer=sgd, lora=16:q_proj+v_proj, base=nf4 (default: "
    "adamw)";

// The arguments that read_setting reads, for commands that begin with the model; the kernel of
// attention among them.
std::vector<Argument> setting_arguments();
// All faults of all of them at once, after those that the caller has found already.
Result<Setting> read_setting(const Invocation& invocation, Diagnostics faults = {});

// The layout and what was filled in, model, cluster and trainer, ranks and micro-batches.
std::string setting_text(const Setting& setting);
// Why a layout is not legal, or what speaks against it.
std::string violations_text(const std::vector<LayoutViolation>& found, int width);
Json violations_json(const std::vector<LayoutViolation>& found);

}  // namespace trainwright::cli
