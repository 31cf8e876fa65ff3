#pragma once
// What a layout is judged against, as the commands that take one read it.
#include <string>
#include <vector>

#include "trainwright/cli/command.h"
#include "trainwright/question/question.h"

namespace trainwright::cli {

// The words of the arguments that name them; what was not given is empty.
Words words_of(const Invocation& invocation);

inline constexpr const char* kTrainerHelp =
    "NAME, NAME@VERSION or a JSON file based on one "
    "(default: megatron-core)";
inline constexpr const char* kJobHelp =
    "optimizer, frozen parts, LoRA: optimizer=sgd, lora=16:q_proj+v_proj, base=nf4 (default: "
    "adamw)";

// The arguments that read_setting reads, for commands that begin with the model; the kernel of
// attention among them.
std::vector<Argument> setting_arguments();
// All faults of all of them at once, after those that the caller has found already.
Result<Question> read_setting(const Invocation& invocation, Diagnostics faults = {});

// The layout and what was filled in, model, cluster and trainer, ranks and micro-batches.
std::string setting_text(const Question& setting);
// Why a layout is not legal, or what speaks against it.
std::string violations_text(const std::vector<LayoutViolation>& found, int width);
Json violations_json(const std::vector<LayoutViolation>& found);

}  // namespace trainwright::cli
