#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "trainwright/base/json.h"
#include "trainwright/base/text.h"
#include "trainwright/tune/tune.h"

namespace trainwright {
namespace {

constexpr std::size_t kLongest = 2000;  // characters of a line that a pattern looks at

std::string_view line_with(std::string_view log, std::string_view what) {
  const std::size_t at = log.find(what);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = log.rfind('\n', at) + 1;
  return trim(log.substr(begin, std::min(log.find('\n', at), log.size()) - begin));
}

std::optional<TrialResult> out_of_memory(const std::optional<LoggedRun>& run) {
  if (!run || run->failures.empty()) return std::nullopt;
  const LoggedOutOfMemory& first = run->failures.front();
  return TrialResult{.end = TrialEnd::OutOfMemory,
                     .cause = fmt::format("{} (line {})", to_text(first), first.line),
                     .host = first.host};
}

// Every line that the user's own pattern finds is a step.
std::vector<LoggedStep> steps_by_pattern(std::string_view log, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<LoggedStep> steps;
  std::int64_t at = 0;
  for (const std::string_view line : split(log, '\n')) {
    ++at;
    std::cmatch match;
    const std::string_view part = line.substr(0, kLongest);
    if (!std::regex_search(part.begin(), part.end(), match, expression) || match.size() < 2)
      continue;
    const auto number = parse_number(match[1].str());
    if (!number || !(*number > 0)) continue;
    steps.push_back({.line = at, .number = std::ssize(steps) + 1, .seconds = Seconds(*number)});
  }
  return steps;
}

TrialResult measured(const std::optional<LoggedRun>& run, const Reading& reading) {
  if (!run) return {.end = TrialEnd::Crash, .cause = "it ended well, but its log tells of no step"};
  if (const Diagnostics faults = contradictions(*run, reading.size); !faults.empty()) {
    return {.end = TrialEnd::Refused, .cause = to_text(faults.front())};
  }
  const auto steps = summarize(*run, reading.size);
  if (!steps) return {.end = TrialEnd::Crash, .cause = to_text(steps.error().diagnostics.front())};
  return {.end = TrialEnd::Ok,
          .step = steps->median,
          .spread = steps->spread,
          .cause = fmt::format("{} lines after {} of warm-up", steps->lines, steps->warm_up),
          .memory = run->memory};
}

// The first of the known lines that is in the log and passes.
template <class Passes>
std::optional<TrialResult> said_by(std::string_view log, const std::vector<EndingLine>& known,
                                   Passes passes) {
  for (const EndingLine& line : known) {
    if (!passes(line)) continue;
    const std::string_view found = line_with(log, line.says);
    if (found.empty()) continue;
    return TrialResult{
        .end = line.end, .cause = std::string(found.substr(0, 300)), .host = line.host};
  }
  return std::nullopt;
}

// A shell's codes for a command that is not there or cannot be run.
bool cannot_run(const CommandEnd& end) {
  return end.kind == CommandEnd::Kind::Exited && (end.code == 126 || end.code == 127);
}

std::optional<TrialResult> by_watcher(const CommandEnd& end) {
  switch (end.kind) {
    case CommandEnd::Kind::TimeLimit:
      return TrialResult{.end = TrialEnd::TimeLimit,
                         .cause = "not done after " + to_text(end.took)};
    case CommandEnd::Kind::Hang:
      return TrialResult{.end = TrialEnd::Hang, .cause = "its log fell silent"};
    case CommandEnd::Kind::Stopped:
      return TrialResult{.end = TrialEnd::Preempted, .cause = "it was stopped"};
    case CommandEnd::Kind::NotStarted:
    case CommandEnd::Kind::NodeFailure:
      return TrialResult{.end = TrialEnd::NodeFailure, .cause = end.said};
    case CommandEnd::Kind::OutOfMemory:
      return TrialResult{.end = TrialEnd::OutOfMemory, .cause = end.said, .host = true};
    case CommandEnd::Kind::Cancelled:
      return TrialResult{.end = TrialEnd::Preempted, .cause = end.said};
    default: return std::nullopt;
  }
}

TrialResult failed(std::string_view log, const CommandEnd& end, bool stepped) {
  if (cannot_run(end) && !stepped) {
    return {.end = TrialEnd::NodeFailure,
            .cause = fmt::format("the command cannot be started (exit code {}): {}", end.code,
                                 last_line(log))};
  }
  const bool killed = end.kind == CommandEnd::Kind::Killed;
  return {.end = TrialEnd::Crash,
          .cause = fmt::format("{} {}: {}", killed ? "killed by signal" : "exit code", end.code,
                               last_line(log))};
}

// Trainers count from 0 or from 1.
bool is_complete(const std::optional<LoggedRun>& run, const Reading& reading) {
  return reading.steps > 0 && run && !run->steps.empty() &&
         run->steps.back().number + 1 >= reading.steps;
}

TrialResult judged(std::string_view log, const CommandEnd& end, const Reading& reading) {
  std::optional<LoggedRun> run;
  if (auto read = read_log(log, "log")) run = *std::move(read);
  if (!reading.pattern.empty()) {
    if (!run) run = LoggedRun{.origin = "log"};
    run->steps = steps_by_pattern(log, reading.pattern);
  }
  const bool stepped = run && !run->steps.empty();
  const bool well = end.kind == CommandEnd::Kind::Exited && end.code == 0;
  if (well && is_complete(run, reading)) {
    if (TrialResult result = measured(run, reading); result.end == TrialEnd::Ok) return result;
  }
  // What ended well has got over a lack of the host's memory.
  if (auto oom = out_of_memory(run); oom && !(oom->host && well)) return *std::move(oom);
  // A job that the watcher itself ends is cancelled too, but not one that died of memory.
  const auto of_memory = [](const EndingLine& line) { return line.end == TrialEnd::OutOfMemory; };
  if (auto said = said_by(log, reading.endings, of_memory)) return *std::move(said);
  if (auto seen = by_watcher(end)) return *std::move(seen);
  const auto other = [&](const EndingLine& line) {
    return !of_memory(line) && (line.end != TrialEnd::Refused || (!well && !stepped));
  };
  if (auto said = said_by(log, reading.endings, other)) {
    said->stepped = stepped;
    return *std::move(said);
  }
  TrialResult result = well ? measured(run, reading) : failed(log, end, stepped);
  result.stepped = stepped;
  return result;
}

}  // namespace

std::string last_line(std::string_view log) {
  const std::string_view text = trim(log);
  std::string line(text.substr(text.find_last_of("\r\n") + 1).substr(0, 300));
  std::erase_if(line, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
  return line;
}

Result<std::vector<EndingLine>> load_endings(const std::string& data_directory) {
  const std::string path = data_directory + "/logs/endings.json";
  const Json json = TW_TRY(read_json_file(path));
  Diagnostics faults;
  JsonFields fields(json, path, "", faults);
  std::vector<EndingLine> endings;
  const Json* list = fields.array("endings");
  for (std::size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    JsonFields row(list->items[i], path, fmt::format("endings[{}]", i), faults);
    EndingLine& line = endings.emplace_back();
    line.says = row.string("says");
    const auto end = trial_end_named(row.string("end"));
    if (!end || *end == TrialEnd::Ok)
      row.fault("end", "it is no way a trial fails", "such as out-of-memory");
    line.end = end.value_or(TrialEnd::Crash);
    line.host = row.optional_bool("host").value_or(false);
    line.program = row.string("program");
    line.source = row.string("source");
    line.sample = row.string("sample");
    if (line.says.empty()) row.fault("says", "it is empty, and would be in every log");
    row.finish();
  }
  fields.finish();
  if (!faults.empty()) return fail(std::move(faults));
  return endings;
}

std::optional<std::string> step_pattern_fault(const std::string& pattern) {
  try {
    const std::regex expression(pattern);
    if (expression.mark_count() < 1) return "it has no group for the seconds";
    return std::nullopt;
  } catch (const std::regex_error& fault) {
    return fault.what();
  }
}

TrialResult ending_of(std::string_view log, const std::optional<CommandEnd>& end,
                      const Reading& reading) {
  if (!end) return {.end = TrialEnd::NodeFailure, .cause = "its watcher is gone"};
  TrialResult result = judged(log, *end, reading);
  if (!end->said.empty() && result.cause != end->said) result.cause += "; " + end->said;
  return result;
}

}  // namespace trainwright
