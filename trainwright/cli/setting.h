#pragma once
// What a layout is judged against, as the commands that take one read it.
#include <string>
#include <vector>

#include "trainwright/cli/command.h"
#include "trainwright/memory/memory.h"
#include "trainwright/question/question.h"

namespace trainwright::cli {

// The words of the arguments that name them; what was not given is empty. --precision, --batch and
// --seq are entries of the layout, --optimizer of the job.
Words words_of(const Invocation& invocation);

inline constexpr const char* kTrainerHelp =
    "NAME, NAME@VERSION or a JSON file based on one "
    "(default: megatron-core)";
inline constexpr const char* kJobHelp =
    "what is trained: lora=16:q_proj+v_proj,base=nf4 (default: everything, with AdamW)";
// MODEL and --on.
std::vector<Argument> surroundings_arguments();
// --batch and --seq, for commands that take a layout.
std::vector<Argument> step_arguments();
// How it is trained: --trainer, --job, --optimizer, --precision and --attention.
std::vector<Argument> training_arguments();
// What an answer is judged by, in `estimate`, `plan` and `explain` alike: --risk, --constants,
// --calibration, --measured, --expert-load.
std::vector<Argument> verdict_arguments();
// Those that were given, as words of another command.
std::vector<std::string> verdict_words(const Invocation& invocation);
// The arguments that read_setting reads, for commands that begin with the model: these, --layout
// and --schedule.
std::vector<Argument> setting_arguments();
// The entries of a layout that another one of the same question has as well.
std::string same_step(std::int64_t gbs, std::int64_t seq, PrecisionKind precision);
std::vector<Argument> joined(std::initializer_list<std::vector<Argument>> lists);

// The highest chance of OOM that still counts as fitting.
Result<double> risk_in(const Invocation& invocation);
Result<ExpertLoad> expert_load_in(const Invocation& invocation);
// --constants and --expert-load. Whether the model can have such a load is for the caller to ask.
Result<MemoryConstants> memory_constants_in(const Invocation& invocation);
// "the busiest of 64 ranks receives 1.97 times the mean of a layer's rows"
std::string busiest_text(const RankLoad& busiest, std::int64_t ep);
// All faults of all of them at once, after those that the caller has found already.
Result<Question> read_setting(const Invocation& invocation, Diagnostics faults = {});

// The layout and what was filled in, model, cluster and trainer, ranks and micro-batches.
std::string setting_text(const Question& setting, int width);
// What was noticed about the config, a line or more each; empty for most.
std::string model_notes(const Model& model, int width);
// What was assumed where nothing was said: "bf16 weights, fp32 main weights, ...; adamw with fp32
// states; flash attention".
std::string assumed_text(const Trainer& trainer, const Layout& layout, const Job& job,
                         std::optional<AttentionKernel> attention);
// Why memory may be further off than where published runs were held against it; else empty.
std::string doubt_text(const Ground& ground, const Trainer& trainer);
// "1 stage", "2 stages".
std::string counted(std::int64_t count, std::string_view one, std::string_view many);
// As it was asked for: "5 %", "0.001 %".
std::string risk_text(double risk);
// "master weights"
std::string words_of(Category category);
// Prose of several lines, each broken to the width.
std::string wrapped_lines(std::string_view prose, int width);
// Why a layout is not legal, or what speaks against it.
std::string violations_text(const std::vector<LayoutViolation>& found, int width);
Json violations_json(const std::vector<LayoutViolation>& found);

}  // namespace trainwright::cli
