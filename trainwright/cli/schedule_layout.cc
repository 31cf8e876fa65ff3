// trainwright schedule --model --on --layout: seconds and bytes of the stages of a layout, in place
// of counts.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/schedule.h"
#include "trainwright/cli/setting.h"

namespace trainwright::cli {
namespace {

// Any kind of so many chunks: bytes and seconds of a stage hang on its place alone.
ScheduleKind kind_at(StagePlacement placement, int chunks) {
  if (chunks == 1) return ScheduleKind::OneFOneB;
  return placement == StagePlacement::V ? ScheduleKind::ZbVpp : ScheduleKind::InterleavedOneFOneB;
}

Diagnostics unsaid_or_said_twice(const Invocation& invocation) {
  Diagnostics faults;
  for (const char* name : {"model", "on", "layout"}) {
    if (!invocation.flag(name)) {
      faults.push_back({fmt::format("--{}", name), "it is needed with the others", {}});
    }
  }
  for (const char* name : {"ranks", "microbatches", "costs", "engine"}) {
    if (invocation.flag(name)) {
      faults.push_back(
          {fmt::format("--{}", name), "model, cluster and layout say it", "leave it out"});
    }
  }
  return faults;
}

}  // namespace

std::vector<Argument> layout_arguments() {
  const auto text = Argument::Kind::Text;
  return joined(
      {{{"--model", text,
         "zoo name, Hugging Face id or path of a config.json: ranks, micro-batches, seconds "
         "and bytes are then those of a layout",
         false, "MODEL"},
        {"--on", text, "the cluster, for instance 64xH100", false, "CLUSTER"},
        {"--layout", text, "the layout: tp=8,pp=4,...; see `trainwright help layout`", false,
         "LAYOUT"}},
       step_arguments(),
       training_arguments()});
}

bool of_layout(const Invocation& invocation) {
  const std::vector<Argument> arguments = layout_arguments();
  return std::any_of(arguments.begin(), arguments.end(), [&](const Argument& argument) {
    return invocation.flag(bare_name(argument.name));
  });
}

Result<Question> layout_question(const Invocation& invocation) {
  Diagnostics faults = unsaid_or_said_twice(invocation);
  if (!faults.empty()) return fail(std::move(faults));
  Words words = words_of(invocation);
  words.schedule.clear();  // here it is what is made
  Question question = TW_TRY(read_question(words, invocation.data));
  for (const LayoutViolation& violation : violations(question)) {
    if (violation.severity != Severity::Forbidden) continue;
    faults.push_back({"--layout", violation.reason, violation.hint});
  }
  const Layout& layout = question.read.layout;
  if (layout.pp < 2) faults.push_back({"--layout", "it has no pipeline", "give pp=2 or more"});
  if (stage_count(layout) > kMaxStages || micro_batch_count(layout) > kMaxMicroBatches) {
    faults.push_back({"--layout", "more stages or micro-batches than a schedule has", {}});
  }
  if (!faults.empty()) return fail(std::move(faults));
  return question;
}

Result<LayoutCosts> layout_costs(const Invocation& invocation, int chunks,
                                 StagePlacement placement) {
  Question question = TW_TRY(layout_question(invocation));
  Layout& layout = question.read.layout;
  layout.vpp = chunks;
  layout.schedule = kind_at(placement, chunks);
  layout.placement = chunks == 1 ? StagePlacement::Single : placement;
  const TimeConstants times = TW_TRY(load_time_constants(invocation.data.path()));
  const StackConstants& stack = stack_of(times.stacks, question.trainer).constants;
  StepPieces pieces = TW_TRY(step_pieces(step_question(question, times.kernels, {})));
  auto drawn = drawn_pipeline(pieces, stack, layout.pp);
  if (!drawn) return fail("--layout", "no schedule of these stages can be made");
  const MemoryConstants constants = TW_TRY(memory_constants_in(invocation));
  ClockedBytes bytes =
      TW_TRY(clocked_bytes(memory_question(question, constants), std::move(drawn->costs)));
  return LayoutCosts{std::move(question), std::move(pieces), stack, std::move(bytes)};
}

std::string order_note(const LayoutCosts& of, const Schedule& schedule, int width) {
  const Question& question = of.question;
  const std::string trainer =
      fmt::format("{} {}", question.trainer.title, to_text(question.trainer.version));
  if (find_kind(question.trainer.schedules, ScheduleKind::Csv) == nullptr) {
    return wrapped_lines(trainer +
                             " reads no order from a file: the figures hold for a trainer "
                             "that runs it so.",
                         width);
  }
  Layout layout = question.read.layout;
  layout.schedule = ScheduleKind::Csv;
  std::string text;
  for (const LayoutViolation& violation : violations(
           layout, question.job, question.model, question.cluster, question.trainer, &schedule)) {
    if (violation.severity != Severity::Forbidden) continue;
    const std::string hint = violation.hint.empty() ? "" : fmt::format(" ({})", violation.hint);
    text +=
        wrapped_lines(fmt::format("{} refuses it: {}{}.", trainer, violation.reason, hint), width);
  }
  return text;
}

std::string layout_text(const LayoutCosts& of, const Timeline& timeline, int width) {
  const Question& question = of.question;
  Seconds least = of.bytes.costs.stages.front().forward, most = least;
  for (const StageCosts& stage : of.bytes.costs.stages) {
    least = std::min(least, stage.forward);
    most = std::max(most, stage.forward);
  }
  const StepTime step = step_time(with_makespan(of.pieces, of.stack, timeline.makespan), of.stack);
  return wrapped_lines(
      fmt::format("{} on {} with {} {}; F of a stage takes {} to {}. Peaks are allocated bytes, "
                  "weights and optimizer states among them. With data parallelism and the "
                  "optimizer the step takes {}.",
                  question.model.name, question.cluster.name, question.trainer.title,
                  to_text(question.trainer.version), to_text(least), to_text(most),
                  to_text(step.step)),
      width);
}

}  // namespace trainwright::cli
