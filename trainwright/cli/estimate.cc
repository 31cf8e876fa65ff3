// trainwright estimate: memory of one layout, stage by stage, and whether it fits.
#include "trainwright/cli/estimate.h"

#include <fmt/core.h>

#include "trainwright/base/text.h"

namespace trainwright::cli {
namespace {

Result<std::optional<AttentionKernel>> attention_in(const Invocation& invocation) {
  const auto text = invocation.text("attention");
  if (!text) return std::nullopt;
  std::vector<std::string> names;
  for (const AttentionKernel kernel : {AttentionKernel::Flash, AttentionKernel::FusedSoftmax,
                                       AttentionKernel::Eager, AttentionKernel::Sdpa}) {
    if (name_of(kernel) == lower_case(*text)) return kernel;
    names.emplace_back(name_of(kernel));
  }
  return fail("--attention", fmt::format("'{}' is not a kind of attention", *text),
              did_you_mean(*text, names, "the kinds are " + enumerate(names)));
}

Result<Output> run_estimate(const Invocation& invocation) {
  const Setting setting = TW_TRY(read_setting(invocation));
  const auto attention = TW_TRY(attention_in(invocation));
  const auto constants = TW_TRY(load_memory_constants(invocation.data));
  const auto found =
      violations(setting.read.layout, setting.job, setting.model, setting.cluster, setting.trainer);
  if (!is_legal(found)) {
    if (!invocation.json) {
      return Output{setting_text(setting) + '\n' + violations_text(found, invocation.width),
                    Exit::DoesNotFit};
    }
    Json document = Json::object();
    document.add("legal", Json::of(false)).add("violations", violations_json(found));
    return Output{to_text(document), Exit::DoesNotFit};
  }
  const MemoryQuestion question{
      setting.model, setting.cluster, setting.trainer, setting.read.layout,
      setting.job,   attention,       constants};
  const MemoryEstimate estimate = TW_TRY(estimate_memory(question));
  Answer answer{setting, estimate, {}};
  if (!fits(estimate)) answer.change = smallest_change_that_fits(question);
  const Exit exit = fits(estimate) ? Exit::Ok : Exit::DoesNotFit;
  if (invocation.json) return Output{to_text(answer_json(answer)), exit};
  return Output{answer_text(answer, invocation.width), exit};
}

}  // namespace

Command estimate_command() {
  return {
      .name = "estimate",
      .summary = "memory of one layout, and whether it fits",
      .details =
          "Memory is that of the moment at which a rank holds most: allocated is what tensors "
          "take, reserved what the allocator took for them, driver what nvidia-smi shows. "
          "Exit code 1 means that it does not fit or is not legal.",
      .examples = {"trainwright estimate llama-2-70b --on 64xA100-80GB --trainer megatron@0.12 "
                   "--layout tp=8,pp=4,sp,zero=1,mbs=1,gbs=512,seq=4096"},
      .arguments =
          {{"model", Argument::Kind::Text, "zoo name or path of a config.json", true, "MODEL"},
           {"--on", Argument::Kind::Text, "the cluster, for instance 64xH100", true, "CLUSTER"},
           {"--layout", Argument::Kind::Text, "the layout, key=value,...", true, "LAYOUT"},
           {"--trainer", Argument::Kind::Text, "NAME or NAME@VERSION (default: megatron-core)",
            false, "TRAINER"},
           {"--job", Argument::Kind::Text, "optimizer, LoRA, frozen parts (default: AdamW)", false,
            "JOB"},
           {"--attention", Argument::Kind::Text,
            "flash, fused-softmax, eager or sdpa (default: as the trainer does)", false, "KERNEL"}},
      .run = run_estimate};
}

}  // namespace trainwright::cli
