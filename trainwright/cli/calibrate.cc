// trainwright calibrate: constants of software stacks from measured runs: tables and logs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/text.h"
#include "trainwright/cli/log.h"
#include "trainwright/cli/own_runs.h"
#include "trainwright/cli/setting.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

struct Given {
  TimeConstants constants;
  TimedRuns runs;
  std::vector<ReadLog> logs;
  bool published = false;  // whose constants all stacks are fitted to anew
};

bool is_table(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(".csv") || std::filesystem::is_directory(path, ignored);
}

// All faults of all logs at once.
Diagnostics add_logs(const Invocation& invocation, const std::vector<std::string>& paths,
                     Given& given) {
  Diagnostics faults;
  if (paths.empty()) return faults;
  const auto question = value_or_faults(question_beside(invocation, "calibrate"), faults);
  if (!question) return faults;
  for (const std::string& path : paths) {
    auto log = value_or_faults(read_log_of(path, *question), faults);
    if (!log) continue;
    const auto run =
        value_or_faults(own_run(path, *question, log->summary.median, given.constants, {}), faults);
    if (run) given.runs.runs.push_back(*run);
    given.logs.push_back(*std::move(log));
  }
  return faults;
}

Result<Given> read_given(const Invocation& invocation) {
  const std::string data = invocation.data.path();
  Given given{TW_TRY(load_time_constants(data, invocation.text("calibration"))), {}, {}, false};
  std::vector<std::string> logs;
  std::vector<MeasuredRun> rows;
  for (const std::string& path : invocation.texts("runs")) {
    if (!is_table(path)) {
      logs.push_back(path);
      continue;
    }
    std::vector<MeasuredRun> read = TW_TRY(read_measured_runs(path));
    rows.insert(rows.end(), read.begin(), read.end());
  }
  if (!rows.empty()) {
    const Knowledge knowledge = TW_TRY(load_knowledge(data));
    const Cases cases = cases_of(rows, knowledge);
    given.runs = time_runs(cases, given.constants.kernels, given.constants.stacks);
    given.runs.skipped.insert(given.runs.skipped.end(), cases.skipped.begin(), cases.skipped.end());
    given.published =
        std::any_of(rows.begin(), rows.end(), [](const MeasuredRun& run) { return !run.asked; });
  }
  if (given.published && !logs.empty()) {
    return fail(logs.front(), "a log goes with tables of one's own, not with published ones",
                "calibrate by them one after the other, with --calibration");
  }
  Diagnostics faults = add_logs(invocation, logs, given);
  if (!faults.empty()) return fail(std::move(faults));
  if (given.runs.runs.empty()) {
    for (const SkippedRun& skipped : given.runs.skipped) {
      faults.push_back({skipped.label, skipped.reason, ""});
    }
    if (faults.empty()) faults.push_back({"runs", "there is no run in it", ""});
    return fail(std::move(faults));
  }
  return given;
}

// What the runs have made of the constants of their stacks, and which they determine.
struct Changes {
  std::string stack;
  std::vector<std::string> determined;  // "scale 0.942 (1)"
  std::vector<std::string> at_prior;
  double scale = 1;
};
std::vector<Changes> changes_of(const TimedRuns& runs, const LearnedTimes& learned) {
  std::vector<Changes> list;
  for (std::size_t i = 0; i < learned.now.list.size(); ++i) {
    const Stack& now = learned.now.list[i];
    std::vector<const TimedRun*> own;
    for (const TimedRun& run : runs.runs) {
      if (run.stack == now.name) own.push_back(&run);
    }
    if (own.empty()) continue;
    const double width = std::ssize(own) < kFewRuns ? kWidthOfFew : 1.0;
    const std::vector<StackConstant> told = determined_by(own, now.constants, {.width = width});
    Changes& changes = list.emplace_back();
    changes.stack = now.name;
    changes.scale = now.constants.at(StackConstant::Scale);
    for (std::size_t k = 0; k < kStackConstants; ++k) {
      const auto which = static_cast<StackConstant>(k);
      const StackPrior& prior = stack_priors()[k];
      const bool known = std::find(told.begin(), told.end(), which) != told.end();
      if (!known) changes.at_prior.emplace_back(prior.name);
      if (known) {
        changes.determined.push_back(
            fmt::format("{} {} (before: {})", prior.name, significant(now.constants.at(which), 3),
                        significant(learned.before.list[i].constants.at(which), 3)));
      }
    }
  }
  return list;
}

std::string learned_text(const Given& given, const LearnedTimes& learned, int width) {
  std::string prose;
  for (const ReadLog& log : given.logs) prose += log_text(log);
  std::string text = prose.empty() ? "" : wrapped_lines(prose, width) + '\n';
  Table table{{{"run", Align::Wrap},
               {"measured", Align::Right},
               {"before", Align::Right},
               {"now", Align::Right}},
              {}};
  for (const LearnedRun& run : learned.runs) {
    table.rows.push_back(
        {run.label, seconds_text(run.measured), seconds_text(run.before), seconds_text(run.now)});
  }
  text += to_text(table, width) + '\n';
  prose.clear();
  for (const Changes& changes : changes_of(given.runs, learned)) {
    prose += fmt::format("{}: the runs determine {}. As before, or nearly: {}.\n", changes.stack,
                         join(changes.determined, ", "), join(changes.at_prior, ", "));
  }
  for (const SkippedRun& skipped : given.runs.skipped) {
    prose += fmt::format("{} skipped: {}\n", skipped.label, skipped.reason);
  }
  return text + wrapped_lines(prose, width);
}

Json log_json(const ReadLog& log) {
  Json memory = Json::array();
  for (const LoggedMemory& of : log.run.memory) {
    Json one = Json::object();
    if (of.rank) one.add("rank", Json::of(*of.rank));
    if (of.allocated) one.add("allocated", Json::of(of.allocated->value()));
    if (of.reserved) one.add("reserved", Json::of(of.reserved->value()));
    memory.push(std::move(one));
  }
  return Json::object()
      .add("log", Json::of(log.run.origin))
      .add("format", Json::of(name_of(*log.run.format)))
      .add("step", Json::of(log.summary.median.value()))
      .add("spread", Json::of(log.summary.spread))
      .add("lines", Json::of(log.summary.lines))
      .add("first_line", Json::of(log.summary.first_line))
      .add("last_line", Json::of(log.summary.last_line))
      .add("warm_up_lines", Json::of(log.summary.warm_up))
      .add("whole_run", Json::of(log.summary.whole_run))
      .add("tokens_per_second_per_rank",
           Json::of(tokens_per_second_per_rank(log.summary, log.size)))
      .add("memory", std::move(memory));
}

Json learned_json(const Given& given, const LearnedTimes& learned) {
  Json logs = Json::array(), runs = Json::array(), stacks = Json::array();
  for (const ReadLog& log : given.logs) logs.push(log_json(log));
  for (const LearnedRun& run : learned.runs) runs.push(to_json(run));
  for (const Changes& changes : changes_of(given.runs, learned)) {
    Json at_prior = Json::array();
    for (const std::string& name : changes.at_prior) at_prior.push(Json::of(name));
    stacks.push(Json::object()
                    .add("stack", Json::of(changes.stack))
                    .add("scale", Json::of(changes.scale))
                    .add("at_prior", std::move(at_prior)));
  }
  return Json::object()
      .add("logs", std::move(logs))
      .add("runs", std::move(runs))
      .add("learned", std::move(stacks))
      .add("calibration", to_json(learned.now));
}

Result<Output> run_calibrate(const Invocation& invocation) {
  const Given given = TW_TRY(read_given(invocation));
  const Stacks& before = given.constants.stacks;
  const LearnedTimes learned = given.published
                                   ? LearnedTimes{before, fit_stacks(given.runs, before), {}}
                                   : TW_TRY(learn_times(given.runs, before));
  const std::string text = to_text(to_json(learned.now)) + '\n';
  const auto out = invocation.text("out");
  Output output{text, Exit::Ok, {}};
  if (out) {
    output.files.push_back({*out, text});
    output.text =
        fmt::format("wrote the constants of {} stacks to {}\n", learned.now.list.size(), *out);
    if (!given.published) output.text += '\n' + learned_text(given, learned, invocation.width);
  }
  if (invocation.json) {
    output.text = document_text(
        invocation.data, given.published ? Json::object().add("calibration", to_json(learned.now))
                                         : learned_json(given, learned));
  }
  return output;
}

std::vector<Argument> arguments_of_calibrate() {
  const std::vector<Argument> own = {
      {"runs", Argument::Kind::Texts,
       "tables of measured runs (CSV, or directories of them), and logs of training", true,
       "RUNS..."},
      {"--out", Argument::Kind::Text, "write to this file, for `--calibration` (default: print)",
       false, "FILE"},
      {"--calibration", Argument::Kind::Text, "what to start from (default: what ships)", false,
       "FILE"}};
  return joined({own, beside_a_log_arguments()});
}

}  // namespace

Command calibrate_command() {
  return {
      .name = "calibrate",
      .summary = "constants of software stacks from measured step times: tables and logs",
      .details =
          "Fits the constants of data/calibrations/time.json to runs and prints such a file. A "
          "table of your own (columns model, on, trainer, layout, kind = step, measured) adjusts "
          "the constants that ship, and so does a log of Megatron-LM, torchtitan, DeepSpeed, "
          "nanotron or the Hugging Face Trainer, with the question that it answers beside it, as "
          "to `estimate`. One run is enough, more are better; with --out it is told what they "
          "changed.",
      .examples = {"trainwright calibrate mine.csv --out mine.json",
                   "trainwright calibrate train.log --model llama-2-70b --on 64xA100-80GB "
                   "--trainer megatron@0.12 --layout "
                   "tp=8,pp=4,sp,zero=1,mbs=1,gbs=512,seq=4096 --out mine.json",
                   "trainwright calibrate train.log --config pretrain.sh --on 64xA100-80GB"},
      .topics = {"layout"},
      .arguments = arguments_of_calibrate(),
      .run = run_calibrate};
}

}  // namespace trainwright::cli
