#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "trainwright/base/text.h"
#include "trainwright/tune/tune.h"

namespace trainwright {
namespace {

constexpr std::size_t kLongest = 2000;  // characters of a line that a pattern looks at

// Lines that a trainer writes when it does not take its settings: argparse's, and what its own
// checks raise before the first step.
constexpr std::string_view kRefusals[] = {"error: unrecognized arguments",
                                          "error: argument ",
                                          "error: the following arguments are required",
                                          "AssertionError",
                                          "ValueError",
                                          "NotImplementedError"};

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

// What a full disk makes programs say, and what srun and Slurm's daemons write into the log, as
// seen with 22.05. A step whose node is lost ends with exit code 0.
struct HostLine {
  std::string_view text;
  TrialEnd end;
};
constexpr HostLine kHost[] = {{"No space left on device", TrialEnd::NodeFailure},
                              {"exceeded memory limit (", TrialEnd::OutOfMemory},
                              {" oom-kill event", TrialEnd::OutOfMemory},
                              {" oom_kill event", TrialEnd::OutOfMemory},
                              {"srun: error: Node failure on", TrialEnd::NodeFailure},
                              {"DUE TO TIME LIMIT", TrialEnd::TimeLimit},
                              {" CANCELLED AT ", TrialEnd::Preempted}};
std::optional<TrialResult> by_host(std::string_view log) {
  for (const HostLine& line : kHost) {
    const std::string_view found = line_with(log, line.text);
    if (found.empty()) continue;
    return TrialResult{.end = line.end,
                       .cause = std::string(found.substr(0, 300)),
                       .host = line.end == TrialEnd::OutOfMemory};
  }
  return std::nullopt;
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

TrialResult failed(std::string_view log, const CommandEnd& end, bool came_to_a_step) {
  for (const std::string_view refusal : kRefusals) {
    const std::string_view line = line_with(log, refusal);
    if (line.empty() || came_to_a_step) continue;
    return {.end = TrialEnd::Refused, .cause = std::string(line.substr(0, 300))};
  }
  const bool killed = end.kind == CommandEnd::Kind::Killed;
  return {.end = TrialEnd::Crash,
          .cause = fmt::format("{} {}: {}", killed ? "killed by signal" : "exit code", end.code,
                               last_line(log))};
}

TrialResult judged(std::string_view log, const CommandEnd& end, const Reading& reading) {
  std::optional<LoggedRun> run;
  if (auto read = read_log(log, "log")) run = *std::move(read);
  if (!reading.pattern.empty()) {
    if (!run) run = LoggedRun{.origin = "log"};
    run->steps = steps_by_pattern(log, reading.pattern);
  }
  const bool well = end.kind == CommandEnd::Kind::Exited && end.code == 0;
  // What ended well has got over a lack of the host's memory.
  if (auto oom = out_of_memory(run); oom && !(oom->host && well)) return *std::move(oom);
  // A job that the watcher itself ends is cancelled too, but not one that died of memory.
  auto said = by_host(log);
  if (said && said->end == TrialEnd::OutOfMemory) return *std::move(said);
  if (auto seen = by_watcher(end)) return *std::move(seen);
  if (said) return *std::move(said);
  const bool stepped = run && !run->steps.empty();
  if (!well) return failed(log, end, stepped);
  return measured(run, reading);
}

}  // namespace

std::string last_line(std::string_view log) {
  const std::string_view text = trim(log);
  std::string line(text.substr(text.find_last_of("\r\n") + 1).substr(0, 300));
  std::erase_if(line, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
  return line;
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
