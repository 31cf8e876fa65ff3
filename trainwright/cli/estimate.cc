// trainwright estimate: memory of one layout, stage by stage, and whether it fits.
#include "trainwright/cli/estimate.h"

#include "trainwright/cli/time_text.h"

namespace trainwright::cli {
namespace {

Result<Output> run_estimate(const Invocation& invocation) {
  Diagnostics faults;
  const auto risk = value_or_faults(risk_in(invocation), faults);
  const Question setting = TW_TRY(read_setting(invocation, std::move(faults)));
  const auto constants =
      TW_TRY(load_memory_constants(invocation.data.path(), invocation.text("constants")));
  const auto found =
      violations(setting.read.layout, setting.job, setting.model, setting.cluster, setting.trainer);
  if (!is_legal(found)) {
    if (!invocation.json) {
      return Output{
          setting_text(setting, invocation.width) + '\n' + violations_text(found, invocation.width),
          Exit::DoesNotFit};
    }
    Json document = Json::object();
    document.add("legal", Json::of(false)).add("violations", violations_json(found));
    return Output{to_text(document), Exit::DoesNotFit};
  }
  const MemoryQuestion question = memory_question(setting, constants);
  const MemoryEstimate estimate = TW_TRY(estimate_memory(question));
  const TimeConstants constants_of_time =
      TW_TRY(load_time_constants(invocation.data.path(), invocation.text("calibration")));
  const StepPieces pieces = TW_TRY(step_pieces(step_question(setting, constants_of_time.kernels)));
  Answer answer{words_of(invocation).layout,
                setting,
                estimate,
                step_time(pieces, stack_of(constants_of_time.stacks, setting.trainer).constants),
                *risk,
                fit_of(estimate.oom, *risk)};
  if (answer.fit != Fit::Fits) answer.change = smallest_change_that_fits(question, *risk);
  answer.host = host_memory(answer, constants);
  answer.notes = estimate_notes(answer, constants, found);
  const Exit exit = answer.fit == Fit::DoesNotFit ? Exit::DoesNotFit : Exit::Ok;
  if (invocation.json) return Output{to_text(answer_json(answer)), exit};
  return Output{answer_text(answer, invocation.width), exit};
}

}  // namespace

Command estimate_command() {
  return {
      .name = "estimate",
      .summary = "memory and step time of one layout, and whether it fits",
      .details =
          "Memory is that of the moment at which a rank holds most: allocated is what tensors "
          "take, reserved what the allocator took for them, driver what nvidia-smi shows. "
          "A layout fits if its chance of OOM is at most --risk, is tight up to 50 %, and does "
          "not fit above. The step time has a 90 % interval; its parts are those of the slowest "
          "rank. Exit code 1 means that it does not fit or is not legal.",
      .examples = {"trainwright estimate llama-2-70b --on 64xA100-80GB --trainer megatron@0.12 "
                   "--layout tp=8,pp=4,sp,zero=1,mbs=1,gbs=512,seq=4096"},
      .topics = {"layout", "job"},
      .arguments = joined({setting_arguments(), verdict_arguments()}),
      .run = run_estimate};
}

}  // namespace trainwright::cli
