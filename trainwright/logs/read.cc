// A log as a whole: which trainer wrote it, and what its steps took.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/logs/formats.h"

namespace trainwright {
namespace {

constexpr std::int64_t kWarmUp = 5;  // steps

void gather(const detail::LogLine& line, detail::Gathered& gathered) {
  detail::gather_megatron(line, gathered);
  detail::gather_torchtitan(line, gathered);
  detail::gather_deepspeed(line, gathered);
  detail::gather_nanotron(line, gathered);
  detail::gather_hugging_face(line, gathered);
  detail::gather_memory(line, gathered);
  detail::gather_failure(line, gathered);
}

// Lines end with a line feed; a carriage return draws over what was there, as progress bars do.
void gather_lines(std::string_view text, detail::Gathered& gathered) {
  std::int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    const bool ended = end != std::string_view::npos;
    const std::string line = detail::without_colours(text.substr(0, end));
    for (std::string_view rest = line; !rest.empty();) {
      const std::size_t drawn = rest.find('\r');
      const bool last = drawn == std::string_view::npos;
      const std::string_view part = rest.substr(0, drawn);
      if (!part.empty()) gather({part, number, ended || !last}, gathered);
      rest = last ? std::string_view{} : rest.substr(drawn + 1);
    }
    text = ended ? text.substr(end + 1) : std::string_view{};
  }
}

Seconds seconds_of(const LoggedStep& step, const StepSize& size) {
  if (step.seconds) return *step.seconds;
  if (step.sequences) return Seconds(static_cast<double>(size.sequences) / *step.sequences);
  return Seconds(static_cast<double>(size.tokens) / static_cast<double>(size.ranks) /
                 *step.tokens_per_rank);
}

// The first step that the log tells of. A line tells of the steps since the one before it, the
// first of lines at 10, 20 and so on of all steps up to 10.
std::int64_t first_step(const std::vector<LoggedStep>& steps) {
  const std::int64_t first = steps.front().number;
  const bool regular = steps.size() < 2 || steps[1].number - first == first;
  return regular ? std::min<std::int64_t>(first, 1) : first;
}

Diagnostics nothing_to_time(const LoggedRun& run) {
  if (!run.failures.empty()) {
    const LoggedOutOfMemory& failure = run.failures.front();
    return {{fmt::format("{}:{}", run.origin, failure.line),
             fmt::format("no step to take the time of: out of memory, {}", to_text(failure)),
             "measure a layout that fits; `trainwright estimate` says which does"}};
  }
  const std::size_t count = run.steps.size();
  const std::string lines = count == 1 ? "1 line" : fmt::format("{} lines", count);
  if (count > 0 && run.steps.back().number >= first_step(run.steps) + kWarmUp) {
    return {{run.origin,
             fmt::format("{} of steps, none without the first {} steps, which are warm-up", lines,
                         kWarmUp),
             "let it print another line, or print steps one by one"}};
  }
  return {{run.origin,
           fmt::format("{} of steps, none beyond the first {} steps, which are warm-up", lines,
                       kWarmUp),
           "let it run on for some ten steps, printed one by one"}};
}

double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - std::floor(at)) * (sorted[above] - sorted[below]);
}

}  // namespace

std::string_view name_of(LogFormat format) {
  constexpr std::array<std::string_view, kLogFormats> kNames = {
      "Megatron-LM", "torchtitan", "DeepSpeed", "nanotron", "Hugging Face Trainer"};
  return kNames[static_cast<std::size_t>(format)];
}

std::string to_text(const LoggedOutOfMemory& failure) {
  std::string text = "a rank";
  if (failure.rank) {
    text = fmt::format("rank {}", *failure.rank);
  } else if (failure.device) {
    text = fmt::format("a rank on device {}", *failure.device);
  }
  text += failure.asked ? fmt::format(" asked for {}", to_text(*failure.asked))
                        : std::string(" asked for more than there is");
  return text + (failure.host ? " of the host's memory" : "");
}

Result<LoggedRun> read_log(std::string_view text, std::string_view origin) {
  detail::Gathered gathered;
  gathered.run.origin = std::string(origin);
  gather_lines(text, gathered);
  detail::add_bars(gathered);
  if (!gathered.faults.empty()) return fail(std::move(gathered.faults));
  LoggedRun& run = gathered.run;
  for (const auto& [rank, memory] : gathered.memory) run.memory.push_back(memory);
  const auto most =
      std::max_element(gathered.steps.begin(), gathered.steps.end(),
                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (!most->empty()) {
    run.format = static_cast<LogFormat>(most - gathered.steps.begin());
    run.steps = std::move(*most);
  }
  if (!run.format && run.failures.empty() && run.memory.empty()) {
    return fail(run.origin, "no line of a training step that is known",
                "logs of Megatron-LM, torchtitan, DeepSpeed from 0.8.0, nanotron and the Hugging "
                "Face Trainer are read; write other times into a table (CSV)");
  }
  return std::move(run);
}

Diagnostics contradictions(const LoggedRun& run, const StepSize& size) {
  constexpr double kRounded = 0.02;  // two figures of three digits, multiplied
  Diagnostics found;
  const auto compare = [&](const std::optional<LoggedFact>& fact, std::int64_t asked,
                           const char* what, double tolerated = 0) {
    if (!fact) return;
    const auto off = static_cast<double>(fact->value) - static_cast<double>(asked);
    if (std::abs(off) <= tolerated * static_cast<double>(asked)) return;
    found.push_back({fmt::format("{}:{}", run.origin, fact->line),
                     fmt::format("the log has {} {}, the question {}", with_thousands(fact->value),
                                 what, with_thousands(asked)),
                     "give the cluster and layout that the log is of"});
  };
  compare(run.ranks, size.ranks, "ranks");
  compare(run.sequences, size.sequences, "sequences a step");
  compare(run.tokens, size.tokens, "tokens a step", run.tokens_rounded ? kRounded : 0);
  if (size.sequences > 0) {
    compare(run.sequence_length, size.tokens / size.sequences, "tokens a sequence");
  }
  return found;
}

double tokens_per_second_per_rank(const StepSummary& summary, const StepSize& size) {
  return static_cast<double>(size.tokens) / summary.median.value() /
         static_cast<double>(size.ranks);
}

Result<StepSummary> summarize(const LoggedRun& run, const StepSize& size) {
  StepSummary summary;
  std::vector<double> seconds;
  const std::int64_t warm = run.steps.empty() ? 0 : first_step(run.steps) + kWarmUp;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const LoggedStep& step = run.steps[i];
    const bool first = i == 0 || run.steps[i - 1].number + 1 < warm;
    if (first && !step.whole_run) continue;
    if (seconds.empty()) summary.first_line = step.line;
    summary.last_line = step.line;
    summary.whole_run = step.whole_run;
    seconds.push_back(seconds_of(step, size).value());
  }
  summary.lines = std::ssize(seconds);
  summary.warm_up = std::ssize(run.steps) - summary.lines;
  if (seconds.empty()) return fail(nothing_to_time(run));
  std::sort(seconds.begin(), seconds.end());
  summary.median = Seconds(percentile(seconds, 0.5));
  summary.spread =
      (percentile(seconds, 0.84) - percentile(seconds, 0.16)) / 2 / summary.median.value();
  return summary;
}

}  // namespace trainwright
