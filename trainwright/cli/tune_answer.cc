// trainwright tune status, show and export: what a history tells.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/text.h"
#include "trainwright/cli/exported_folder.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/cli/tune.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

std::string end_text(const TrialRecord& record) {
  return std::string(record.state == TrialState::Ended ? name_of(record.end)
                                                       : name_of(record.state));
}

bool ran(const TrialRecord& record) {
  return record.state == TrialState::Ended && record.end == TrialEnd::Ok;
}

Json to_json(const TrialRecord& record) {
  Json json = Json::object();
  json.add("trial", Json::of(record.id))
      .add("layout", Json::of(record.layout))
      .add("state", Json::of(name_of(record.state)))
      .add("why", Json::of(record.why))
      .add("predicted_seconds", Json::of(record.predicted.value()))
      .add("oom", Json::of(record.oom));
  if (record.state != TrialState::Ended) return json;
  json.add("end", Json::of(name_of(record.end)))
      .add("cause", Json::of(record.cause))
      .add("took_seconds", Json::of(record.took.value()));
  if (!record.memory.empty()) json.add("memory", to_json(record.memory));
  if (!ran(record)) return json;
  return json.add("step_seconds", Json::of(record.step.value()))
      .add("spread", Json::of(record.spread));
}

// All layouts as they are believed to be by now.
Json candidates_json(const Tuned& tuned) {
  Json list = Json::array();
  for (std::size_t i = 0; i < tuned.trials.size(); ++i) {
    const Belief& belief = tuned.beliefs[i];
    list.push(Json::object()
                  .add("layout", Json::of(tuned.trials[i].layout))
                  .add("predicted_seconds", Json::of(tuned.trials[i].predicted.value()))
                  .add("expected_seconds", Json::of(belief.expected.value()))
                  .add("low_seconds", Json::of(belief.low.value()))
                  .add("high_seconds", Json::of(belief.high.value()))
                  .add("oom", Json::of(belief.oom)));
  }
  return list;
}

// The best layout stays on a line of its own, ready to copy.
std::string conclusion(const std::vector<TrialRecord>& records, const Tuned& tuned, int width) {
  std::string text;
  if (const TrialRecord* best = best_of(records)) {
    text = fmt::format("best: trial {}, {}/step (predicted {})\n  --layout {}\n", best->id,
                       seconds_text(best->step), seconds_text(best->predicted), best->layout);
  } else {
    text = "no trial ran to its end\n";
  }
  if (tuned.interrupted) return text + "interrupted; `trainwright tune resume` goes on\n";
  if (tuned.last.stop != TuneStop::Not) {
    return text +
           wrapped_lines(fmt::format("stopped, {}: {}", name_of(tuned.last.stop), tuned.last.why),
                         width);
  }
  return text + fmt::format("next: {}\n", tuned.trials[tuned.last.trial].layout) +
         wrapped_lines(tuned.last.why, width);
}

Result<Output> run_status(const Invocation& invocation) {
  const History history = TW_TRY(History::look(*invocation.text("history")));
  const auto question = TW_TRY(tune_question(invocation, history));
  question->job.trials = TW_TRY(candidates(*question));
  const Tuned tuned = TW_TRY(known_by_now(history, question->job));
  Output output = TW_TRY(tuned_output(invocation, history, tuned));
  if (const auto path = invocation.text("report")) {
    const std::vector<TrialRecord> records = TW_TRY(history.records());
    output.files.push_back({*path, TW_TRY(tuned_page(*question, history, records, tuned))});
  }
  return output;
}

Result<TrialRecord> record_of(const History& history, std::int64_t id) {
  for (const TrialRecord& record : TW_TRY(history.records())) {
    if (record.id == id) return record;
  }
  return fail("--trial", fmt::format("there is no trial {}", id), "see `trainwright tune status`");
}

// Memory that the log prints beside what was predicted of the same rank; empty without any.
Result<std::string> memory_line(const Invocation& invocation, const History& history,
                                const TrialRecord& record) {
  if (record.memory.empty()) return std::string();
  const auto question = TW_TRY(tune_question(invocation, history));
  const Trial trial = TW_TRY(trial_for(*question, record.layout));
  const auto reading =
      trial.memory ? seen_memory(record.memory, *trial.memory) : std::optional<SeenMemory>();
  if (!reading) return std::string();
  return fmt::format("memory: {} {} peak memory of the log, predicted {}; {:+.1f} %\n",
                     to_text(reading->measured), name_of(reading->counter),
                     to_text(reading->predicted),
                     100 * (real(reading->measured) / real(reading->predicted) - 1));
}

Result<Output> run_show(const Invocation& invocation) {
  const History history = TW_TRY(History::look(*invocation.text("history")));
  const TrialRecord record = TW_TRY(record_of(history, *invocation.integer("trial")));
  const std::string folder = history.folder_of(record.id);
  if (invocation.json) {
    return Output{document_text(invocation.data, to_json(record).add("folder", Json::of(folder)))};
  }
  std::string text = fmt::format("trial {}: {}\n{}\nwhy: {}\npredicted: {} a step, OOM {}\n",
                                 record.id, end_text(record), record.layout, record.why,
                                 seconds_text(record.predicted), chance_text(record.oom));
  if (ran(record)) {
    text += fmt::format("measured: {} a step, spread {}; {:+.1f} % of the prediction\n",
                        seconds_text(record.step), percent(record.spread),
                        100 * (record.step / record.predicted - 1));
  }
  text += TW_TRY(memory_line(invocation, history, record));
  if (record.state == TrialState::Ended) {
    text += fmt::format("cause: {}\ntook: {}\n", record.cause, to_text(record.took));
  }
  return Output{text + fmt::format("files: {}\n", folder)};
}

// The stack's constants as the trials have moved them.
Result<std::string> calibration_text(const TuneQuestion& question,
                                     const std::vector<TrialRecord>& records) {
  TimedRuns runs;
  const TimeConstants& constants = question.wanted.times.constants;
  for (const TrialRecord& record : records) {
    if (!ran(record)) continue;
    const Words words = TW_TRY(words_for(question, record.layout));
    const Question asked = TW_TRY(read_question(words, question.invocation.data));
    runs.runs.push_back(TW_TRY(own_run(record.layout, asked, record.step, constants,
                                       question.wanted.constants.expert_load)));
  }
  return to_text(to_json(TW_TRY(learn_times(runs, constants.stacks)).now));
}

// As they were run, but for what the trial itself wrote.
Result<std::vector<File>> files_of(const std::string& from, const std::string& to) {
  constexpr std::string_view kOfTrial[] = {"log", "end", "job", "exit", "stop"};
  std::vector<File> files;
  std::error_code fault;
  for (const auto& entry : std::filesystem::directory_iterator(from, fault)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || std::ranges::find(kOfTrial, name) != std::end(kOfTrial))
      continue;
    files.push_back({to + '/' + name, TW_TRY(read_file(entry.path().string()))});
  }
  if (fault) return fail(from, "it cannot be read: " + fault.message());
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

Result<Output> run_export_best(const Invocation& invocation) {
  const History history = TW_TRY(History::look(*invocation.text("history")));
  const std::vector<TrialRecord> records = TW_TRY(history.records());
  const TrialRecord* best = best_of(records);
  if (best == nullptr) return fail(history.folder(), "no trial ran to its end", "");
  Output output;
  const std::string out = *invocation.text("out");
  std::vector<File> files = TW_TRY(files_of(history.folder_of(best->id), out));
  output.files = TW_TRY(into_folder(out, std::move(files), invocation.flag("force")));
  if (const auto path = invocation.text("calibration")) {
    const auto question = TW_TRY(tune_question(invocation, history));
    output.files.push_back({*path, TW_TRY(calibration_text(*question, records))});
  }
  if (invocation.json) {
    Json list = Json::array();
    for (const File& file : output.files) list.push(Json::of(file.path));
    output.text = document_text(
        invocation.data, Json::object().add("best", to_json(*best)).add("files", std::move(list)));
    return output;
  }
  output.text =
      fmt::format("trial {}, {} a step: {}\n", best->id, seconds_text(best->step), best->layout);
  for (const File& file : output.files) output.text += file.path + '\n';
  return output;
}

}  // namespace

const TrialRecord* best_of(const std::vector<TrialRecord>& records) {
  const TrialRecord* best = nullptr;
  for (const TrialRecord& record : records) {
    if (ran(record) && (best == nullptr || record.step < best->step)) best = &record;
  }
  return best;
}

Json tuned_json(const History& history, const std::vector<TrialRecord>& records,
                const Tuned& tuned) {
  Json list = Json::array();
  for (const TrialRecord& record : records) list.push(to_json(record));
  Json json = Json::object();
  json.add("history", Json::of(history.folder()))
      .add("stopped", Json::of(tuned.interrupted ? "interrupt" : name_of(tuned.last.stop)))
      .add("why", Json::of(tuned.last.why))
      .add("candidates", candidates_json(tuned));
  if (const TrialRecord* best = best_of(records)) json.add("best", to_json(*best));
  if (tuned.last.stop == TuneStop::Not) {
    json.add("next", Json::of(tuned.trials[tuned.last.trial].layout));
  }
  return json.add("trials", std::move(list));
}

std::string tuned_text(const std::vector<TrialRecord>& records, const Tuned& tuned, int width) {
  Table table{{{"trial", Align::Right},
               {"layout", Align::Wrap},
               {"end"},
               {"predicted", Align::Right},
               {"measured", Align::Right},
               {"took", Align::Right}},
              {}};
  for (const TrialRecord& record : records) {
    // Broken after commas where it is too long.
    const std::string layout = fmt::format("{}", fmt::join(split(record.layout, ','), ", "));
    table.rows.push_back({std::to_string(record.id), layout, end_text(record),
                          seconds_text(record.predicted),
                          ran(record) ? seconds_text(record.step) : "",
                          record.state == TrialState::Ended ? to_text(record.took) : ""});
  }
  return conclusion(records, tuned, width) +
         (records.empty() ? std::string() : '\n' + to_text(table, width));
}

Result<Output> tuned_output(const Invocation& invocation, const History& history,
                            const Tuned& tuned) {
  const std::vector<TrialRecord> records = TW_TRY(history.records());
  const Exit exit =
      best_of(records) == nullptr && tuned.last.stop != TuneStop::Not ? Exit::DoesNotFit : Exit::Ok;
  return Output{invocation.json
                    ? document_text(invocation.data, tuned_json(history, records, tuned))
                    : tuned_text(records, tuned, invocation.width),
                exit};
}

Command tune_status_command() {
  return {.name = "status",
          .summary = "what was tried, the best so far, what would come next and why",
          .details = "Also while `run` is at work.",
          .examples = {"trainwright tune status --history tuning",
                       "trainwright tune status --history tuning --report tuning.html"},
          .arguments = {history_argument(),
                        {"--report", Argument::Kind::Text,
                         "HTML file to write: trials over time, predicted against measured, what "
                         "was learned",
                         false, "FILE"}},
          .run = run_status};
}

Command tune_show_command() {
  return {.name = "show",
          .summary = "one trial: why it was run, what was predicted, how it ended",
          .examples = {"trainwright tune show --history tuning --trial 3"},
          .arguments = {history_argument(),
                        {"--trial", Argument::Kind::Integer, "its number", true, "N"}},
          .run = run_show};
}

Command tune_export_command() {
  return {
      .name = "export",
      .summary = "the files of the fastest trial, and the constants that were learned",
      .examples = {"trainwright tune export --history tuning --out run --calibration mine.json"},
      .arguments = {history_argument(),
                    {"--out", Argument::Kind::Text, "folder to write into", true, "DIR"},
                    {"--calibration", Argument::Kind::Text,
                     "also what was learned, as `--calibration` of `plan` reads it", false, "FILE"},
                    force_argument()},
      .run = run_export_best};
}

}  // namespace trainwright::cli
