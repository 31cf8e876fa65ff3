#include "trainwright/cli/own_runs.h"

#include <fmt/format.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/setting.h"
#include "trainwright/cli/time_text.h"

namespace trainwright::cli {
namespace {

// No stack of any source is further off than this, but for runs that were stalled.
constexpr double kBelievable = 5;
constexpr const char* kOtherRun =
    "is it of this model, cluster, batch and length, and of one whole step?";

}  // namespace

Result<TimedRun> own_run(std::string label, const Question& question, Seconds measured,
                         const TimeConstants& constants, const ExpertLoad& load) {
  TimedRun run;
  run.source = "own";
  run.label = std::move(label);
  run.measured = measured.value();
  run.pieces = TW_TRY(step_pieces(step_question(question, constants.kernels, load)));
  const Stack& stack = stack_of(constants.stacks, question.trainer);
  run.stack = stack.name;
  run.host = stack.constants.host;
  if (measured < run.pieces.bound) {
    return fail(run.label,
                fmt::format("a step of {} is shorter than its products take at the peak of the "
                            "accelerators, {}",
                            seconds_text(measured), seconds_text(run.pieces.bound)),
                kOtherRun);
  }
  const Seconds predicted = step_time(run.pieces, stack.constants).step;
  if (measured > predicted * kBelievable || predicted > measured * kBelievable) {
    return fail(run.label,
                fmt::format("a step of {} is nothing like the {} that are predicted",
                            seconds_text(measured), seconds_text(predicted)),
                kOtherRun);
  }
  return run;
}

Json to_json(const LearnedRun& run) {
  return Json::object()
      .add("label", Json::of(run.label))
      .add("stack", Json::of(run.stack))
      .add("measured", Json::of(run.measured.value()))
      .add("predicted_before", Json::of(run.before.value()))
      .add("predicted_now", Json::of(run.now.value()));
}

namespace {

struct MeasuredWords {
  std::string layout, on;
  Seconds step;
};

Result<MeasuredWords> read_measured(const std::string& text) {
  constexpr const char* kForm = "for instance 'tp=8,pp=4,mbs=1:step=14.2s'";
  MeasuredWords words;
  Diagnostics faults;
  bool timed = false;
  const std::vector<std::string_view> parts = split(text, ':');
  words.layout = std::string(trim(parts.front()));
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string_view part = trim(parts[i]);
    if (part.starts_with("on=")) {
      words.on = std::string(part.substr(3));
    } else if (part.starts_with("step=")) {
      timed = true;
      const auto step = value_or_faults(parse_seconds(part.substr(5)), faults);
      if (step && *step <= Seconds(0)) faults.push_back({"", "a step takes more than 0 s", kForm});
      words.step = step.value_or(Seconds(1));
    } else {
      faults.push_back({"", fmt::format("'{}' is not understood", part), kForm});
    }
  }
  if (words.layout.empty()) faults.push_back({"", "it names no layout", kForm});
  if (!timed) faults.push_back({"", "it does not say how long a step took", kForm});
  for (Diagnostic& fault : faults) fault.where = "--measured";
  if (!faults.empty()) return fail(std::move(faults));
  return words;
}

}  // namespace

Argument measured_argument() {
  return {"--measured", Argument::Kind::Text,
          "a step that you measured, to adjust times by: 'tp=8,pp=4,mbs=1:step=14.2s'; batch and "
          "length as asked, elsewhere with ':on=8xH100'",
          false, "LAYOUT:step=TIME"};
}

Result<KnownTimes> known_times(const Invocation& invocation, Words words, const std::string& same) {
  KnownTimes known{
      TW_TRY(load_time_constants(invocation.data.path(), invocation.text("calibration"))), {}, {}};
  if (!words.tuned.empty()) known.constants.stacks = as_tuned(std::move(known.constants.stacks));
  known.before = known.constants.stacks;
  const auto text = invocation.text("measured");
  if (!text) return known;
  const MeasuredWords given = TW_TRY(read_measured(*text));
  words.layout = amended(same, given.layout);
  words.schedule.clear();
  if (!given.on.empty()) words.on = given.on;
  auto question = read_question(words, invocation.data);
  if (!question) {
    for (Diagnostic& fault : question.error().diagnostics) {
      fault.where = "--measured" + (fault.where.empty() ? "" : " " + fault.where);
    }
    return tl::unexpected(question.error());
  }
  const std::int64_t ranks = world_size(question->read.layout);
  const std::int64_t accelerators = accelerator_count(question->cluster);
  if (ranks != accelerators) {
    return fail("--measured",
                fmt::format("{} is {} ranks, the cluster has {} accelerators", given.layout,
                            with_thousands(ranks), with_thousands(accelerators)),
                "say on which cluster it ran: LAYOUT:step=2s:on=CLUSTER");
  }
  TimedRuns runs;
  const ExpertLoad load = TW_TRY(expert_load_in(invocation));
  runs.runs.push_back(TW_TRY(own_run("--measured", *question, given.step, known.constants, load)));
  runs.runs.front().label = given.layout + (given.on.empty() ? "" : " on " + given.on);
  const LearnedTimes learned = TW_TRY(learn_times(runs, known.before));
  known.constants.stacks = learned.now;
  const auto scale = [&](const Stacks& stacks) {
    return stack_of(stacks, question->trainer).constants.at(StackConstant::Scale);
  };
  known.measured = MeasuredHere{learned.runs.front(), scale(learned.now) / scale(learned.before)};
  return known;
}

std::string to_text(const MeasuredHere& measured) {
  const LearnedRun& run = measured.run;
  return fmt::format(
      "Measured {} for {}: predicted {} before, {} now. This one run scales all times of the stack "
      "'{}' by {}; intervals are those with one run measured.",
      seconds_text(run.measured), run.label, seconds_text(run.before), seconds_text(run.now),
      run.stack, significant(measured.scale, 3));
}

std::string tuned_text(const StackConstants& stack, bool tuned) {
  const double factor = stack.at(StackConstant::Tuned);
  if (tuned) {
    return fmt::format(
        "Step times are those of a vendor's own recipe on a machine set up for it (--tuned); an "
        "ordinary run of the same layout takes {} longer.",
        percent(1 / factor - 1));
  }
  return fmt::format(
      "Step times are those of an ordinary run; a vendor's own recipe on a machine set up for it "
      "takes {} less (--tuned).",
      percent(1 - factor));
}

Json to_json(const MeasuredHere& measured) {
  Json json = to_json(measured.run);
  json.add("scale", Json::of(measured.scale));
  return json;
}

}  // namespace trainwright::cli
