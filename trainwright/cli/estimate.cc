// trainwright estimate: memory of one layout, stage by stage, and whether it fits.
#include "trainwright/cli/estimate.h"

#include <fmt/format.h>

#include "trainwright/cli/config.h"
#include "trainwright/cli/glance.h"
#include "trainwright/cli/own_runs.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/cli/unspecified_text.h"

namespace trainwright::cli {
namespace {

// The layout and, without a file, the model are in the words themselves.
Diagnostics unsaid(const Words& words, const Invocation& invocation) {
  Diagnostics faults;
  if (invocation.flag("config")) return faults;
  const char* hint = "see --help, also for --config";
  const auto require = [&](const std::string& word, const char* name) {
    if (!word.empty()) return;
    faults.push_back({"trainwright estimate", fmt::format("{} is required", name), hint});
  };
  require(words.model, "model");
  require(words.on, "--on");
  require(words.layout, "--layout");
  return faults;
}

Result<Output> run_estimate(const Invocation& invocation) {
  Diagnostics faults;
  const auto risk = value_or_faults(risk_in(invocation), faults);
  Words typed = words_of(invocation);
  if (Diagnostics empty = unsaid(typed, invocation); !empty.empty()) return fail(std::move(empty));
  const ConfigWords config = TW_TRY(with_config(invocation, std::move(typed)));
  const auto read_constants = value_or_faults(memory_constants_in(invocation), faults);
  const Question setting = TW_TRY(read_question(config.words, invocation.data, std::move(faults)));
  const MemoryConstants& constants = *read_constants;
  if (auto wrong = contradictions(constants.expert_load, setting.model); !wrong.empty()) {
    return fail(std::move(wrong));
  }
  const auto found = violations(setting);
  if (!is_legal(found)) {
    if (!invocation.json) {
      return Output{
          setting_text(setting, invocation.width) + '\n' + violations_text(found, invocation.width),
          Exit::DoesNotFit};
    }
    Json document = Json::object();
    document.add("legal", Json::of(false)).add("violations", violations_json(found));
    return Output{document_text(invocation.data, document), Exit::DoesNotFit};
  }
  const MemoryQuestion question = memory_question(setting, constants);
  const MemoryEstimate estimate = TW_TRY(estimate_memory(question));
  const Layout& layout = setting.read.layout;
  const KnownTimes times = TW_TRY(
      known_times(invocation, config.words, same_step(layout.gbs, layout.seq, layout.precision)));
  const TimeConstants& of_time = times.constants;
  const StepPieces even = TW_TRY(step_pieces(step_question(setting, of_time.kernels, {})));
  const StepPieces pieces =
      TW_TRY(step_pieces(step_question(setting, of_time.kernels, constants.expert_load)));
  const StackConstants& stack = stack_of(of_time.stacks, setting.trainer).constants;
  Answer answer{config.words.layout,      setting, estimate,
                step_time(pieces, stack), *risk,   fit_of(estimate.oom, *risk)};
  if (answer.fit != Fit::Fits) answer.change = smallest_change_that_fits(question, *risk);
  answer.host = host_memory(question, estimate);
  answer.uneven = uneven_load(answer, constants, step_time(even, stack).step);
  answer.notes = estimate_notes(answer, constants, found);
  answer.measured = times.measured;
  if (!times.measured) answer.unspecified = unspecified_effects(pieces, stack);
  if (const auto text = unspecified_text(answer.unspecified, setting.cluster); !text.empty()) {
    answer.notes.push_back(text);
  }
  if (!config.words.tuned.empty()) answer.notes.push_back(tuned_text(stack, true));
  if (times.measured) {
    const Seconds before =
        step_time(pieces, stack_of(times.before, setting.trainer).constants).step;
    answer.notes.push_back(fmt::format("{} This step was predicted at {} before.",
                                       to_text(*times.measured), seconds_text(before)));
  }
  answer.notes.insert(answer.notes.end(), config.notes.begin(), config.notes.end());
  answer.not_counted = config.not_counted;
  const Exit exit = answer.fit == Fit::DoesNotFit ? Exit::DoesNotFit : Exit::Ok;
  if (invocation.json) return Output{document_text(invocation.data, answer_json(answer)), exit};
  return Output{.text = invocation.flag("verbose") ? answer_text(answer, invocation.width)
                                                   : answer_summary(answer, invocation.width),
                .exit = exit,
                .warning = long_step_warning(answer.time, invocation.width)};
}

// As of commands that begin with the model, but a file may say them.
std::vector<Argument> arguments_of_estimate() {
  std::vector<Argument> arguments =
      joined({setting_arguments(),
              {config_argument()},
              verdict_arguments(),
              {verbose_argument("also every category of memory on every pipeline rank, when the "
                                "peak is, and what is outside the allocator")}});
  for (Argument& argument : arguments) argument.required = false;
  return arguments;
}

}  // namespace

Command estimate_command() {
  return {
      .name = "estimate",
      .summary = "memory and step time of one layout, and whether it fits",
      .details =
          "Memory is that of the moment at which a rank holds most: allocated is what tensors "
          "take, reserved what the allocator took for them, driver what nvidia-smi shows. "
          "A layout fits if its OOM probability is at most --risk, is marginal up to 50 %, and "
          "does "
          "not fit above. The step time has a 90 % interval; its parts are those of the slowest "
          "rank. With --config the trainer's own file says model and layout as far as it does; "
          "what it does not say is asked for, and --layout goes before it. Exit code 1 means that "
          "it does not fit or is invalid.",
      .examples =
          {"trainwright estimate llama-2-70b --on 64xA100-80GB --trainer megatron@0.12 "
           "--batch 512 --seq 4k --layout tp=8,pp=4,sp,zero=1,mbs=1",
           "trainwright estimate llama-2-7b --on 8xH100 --layout tp=2,mbs=2,gbs=64,seq=4096 "
           "--measured tp=1,mbs=1:step=2.7s",
           "trainwright estimate llama-3.1-8b --config ds_config.json --on 8xA100-80GB --seq 4k"},
      .topics = {"layout", "job"},
      .arguments = arguments_of_estimate(),
      .run = run_estimate};
}

}  // namespace trainwright::cli
