// The lines of each trainer.
#include "trainwright/logs/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"

namespace trainwright::detail {
namespace {

constexpr std::size_t kMostFaults = 20;

// A figure above 0 after a key that must be there; otherwise a fault with its line.
std::optional<double> rate_after(std::string_view key, const LogLine& line, Gathered& gathered) {
  const auto rest = after(line.text, key);
  if (!rest) return std::nullopt;
  const LogNumber number = number_at(*rest, line);
  if (number.after.empty() && !line.ended) return std::nullopt;  // cut
  if (number.value && *number.value > 0) return number.value;
  gathered.fault(line, fmt::format("'{}' after '{}' is not a number above 0", number.text, key),
                 "cut the log so that it holds steps that ran");
  return std::nullopt;
}

// nanotron's "11.5K".
std::optional<double> human_after(std::string_view key, const LogLine& line, Gathered& gathered) {
  const auto value = rate_after(key, line, gathered);
  if (!value) return std::nullopt;
  const std::string_view rest = number_at(*after(line.text, key), line).after;
  if (rest.empty()) return value;
  switch (rest.front()) {
    case 'K': return *value * 1e3;
    case 'M': return *value * 1e6;
    case 'G':
    case 'B': return *value * 1e9;
    case 'T': return *value * 1e12;
    default: return value;
  }
}

// Of "[1:52:09<20:27:23": what lies before '<', in seconds.
std::optional<Seconds> clock_at(std::string_view text) {
  const std::string_view clock = text.substr(0, text.find('<'));
  if (clock.size() == text.size() || clock.size() > 12) return std::nullopt;
  double seconds = 0;
  for (const std::string_view part : split(clock, ':')) {
    const auto value = parse_integer(part);
    if (!value || *value < 0) return std::nullopt;
    seconds = seconds * 60 + static_cast<double>(*value);
  }
  return Seconds(seconds);
}

}  // namespace

void Gathered::add(LogFormat format, const LoggedStep& step) {
  std::vector<LoggedStep>& list = of(format);
  if (list.empty() || list.back().number != step.number) list.push_back(step);
}

void Gathered::fault(const LogLine& line, std::string what, std::string hint) {
  if (faults.size() >= kMostFaults) return;
  faults.push_back(
      {fmt::format("{}:{}", run.origin, line.number), std::move(what), std::move(hint)});
}

void gather_megatron(const LogLine& line, Gathered& gathered) {
  if (const auto ranks = count_after("using world size: ", line)) {
    gathered.run.ranks = {*ranks, line.number};
  }
  // The list of arguments: "  seq_length ...... 4096".
  if (const auto dots = after(line.text, "  seq_length .")) {
    const std::string_view value = dots->substr(std::min(dots->find(' '), dots->size()));
    if (const auto length = number_at(value, line).value) {
      gathered.run.sequence_length = {static_cast<std::int64_t>(*length), line.number};
    }
  }
  const auto iteration = after(line.text, "iteration ");
  if (!iteration || !after(line.text, "elapsed time per iteration (ms):")) return;
  const LogNumber number = number_at(*iteration, line);
  if (!number.value || !number.after.starts_with('/')) return;
  const auto milliseconds = rate_after("elapsed time per iteration (ms):", line, gathered);
  if (!milliseconds) return;
  if (const auto batch = count_after("global batch size:", line)) {
    // Steps of a batch that still grew were other steps.
    if (gathered.batch && *gathered.batch != *batch) gathered.of(LogFormat::Megatron).clear();
    gathered.batch = batch;
    gathered.run.sequences = {*batch, line.number};
  }
  gathered.add(LogFormat::Megatron, {.line = line.number,
                                     .number = static_cast<std::int64_t>(*number.value),
                                     .seconds = Seconds(*milliseconds / 1e3)});
}

void gather_torchtitan(const LogLine& line, Gathered& gathered) {
  LoggedRun& run = gathered.run;
  if (after(line.text, "Trainer is initialized with ")) {
    if (const auto batch = count_after("global batch size ", line)) {
      run.sequences = {*batch, line.number};
    }
    if (const auto length = count_after("sequence length ", line)) {
      run.sequence_length = {*length, line.number};
    }
    if (const auto tokens = count_after("tokens per DP rank, ", line)) {
      run.tokens = {*tokens, line.number};
    }
  }
  if (after(line.text, "Building device mesh with parallelism:")) {
    std::int64_t ranks = 1;
    for (const char* degree : {"pp=", "dp_replicate=", "dp_shard=", " cp=", " tp="}) {
      const auto value = count_after(degree, line);
      ranks =
          value && *value > 0 && *value < 1'000'000 && ranks < 1'000'000'000 ? ranks * *value : 0;
    }
    if (ranks > 0) run.ranks = {ranks, line.number};
  }
  const auto step = after(line.text, "step: ");
  if (!step || after(line.text, "validate step: ")) return;
  const LogNumber number = number_at(*step, line);
  if (!number.value || !number.after.starts_with("  loss:")) return;
  const char* key = after(line.text, "  wps: ") ? "  wps: " : "  tps: ";
  const auto tokens = rate_after(key, line, gathered);
  if (!tokens) return;
  gathered.add(LogFormat::Torchtitan, {.line = line.number,
                                       .number = static_cast<std::int64_t>(*number.value),
                                       .tokens_per_rank = tokens});
}

void gather_deepspeed(const LogLine& line, Gathered& gathered) {
  if (const auto number = count_after("/global_step=", line)) {
    if (const auto sequences = rate_after("CurrSamplesPerSec=", line, gathered)) {
      gathered.add(LogFormat::DeepSpeed,
                   {.line = line.number, .number = *number, .sequences = sequences});
    }
    return;
  }
  const auto number = count_after("steps: ", line);
  if (!number || !after(line.text, " samples/sec: ")) return;
  if (const auto seconds = rate_after("iter time (s): ", line, gathered)) {
    gathered.add(LogFormat::DeepSpeed,
                 {.line = line.number, .number = *number, .seconds = Seconds(*seconds)});
  }
}

void gather_nanotron(const LogLine& line, Gathered& gathered) {
  const auto number = count_after("iteration: ", line);
  if (!number || !after(line.text, "time_per_iteration_ms: ")) return;
  const auto milliseconds = human_after("time_per_iteration_ms: ", line, gathered);
  if (!milliseconds) return;
  const Seconds seconds(*milliseconds / 1e3);
  gathered.add(LogFormat::Nanotron, {.line = line.number, .number = *number, .seconds = seconds});
  if (const auto rate = human_after("tokens_per_sec: ", line, gathered)) {
    gathered.run.tokens = {std::llround(std::min(*rate * seconds.value(), 1e15)), line.number};
    gathered.run.tokens_rounded = true;
  }
}

void gather_hugging_face(const LogLine& line, Gathered& gathered) {
  if (const auto batch = count_after("Total train batch size (w. parallel, distributed & "
                                     "accumulation) = ",
                                     line)) {
    gathered.run.sequences = {*batch, line.number};
  }
  if (const auto total = count_after("Total optimization steps = ", line)) {
    gathered.total_steps = total;
  }
  if (after(line.text, "'train_runtime':")) {
    const auto runtime = rate_after("'train_runtime':", line, gathered);
    const auto sequences = number_after("'train_samples_per_second':", line);
    LoggedStep mean{
        .line = line.number, .number = gathered.total_steps.value_or(0), .whole_run = true};
    if (runtime && gathered.total_steps && *gathered.total_steps > 0) {
      mean.seconds = Seconds(*runtime / static_cast<double>(*gathered.total_steps));
    } else if (sequences && *sequences > 0) {
      mean.sequences = sequences;
    } else {
      return;
    }
    gathered.add(LogFormat::HuggingFace, mean);
    return;
  }
  const auto percent = after(line.text, "%|");
  const auto bar = percent ? after(*percent, "| ") : std::nullopt;
  if (!bar || (!after(*bar, "s/it") && !after(*bar, "it/s"))) return;
  const LogNumber done = number_at(*bar, line);
  if (!done.value || !done.after.starts_with('/')) return;
  const LogNumber total = number_at(done.after.substr(1), line);
  const auto elapsed =
      total.after.starts_with(" [") ? clock_at(total.after.substr(2)) : std::nullopt;
  if (!total.value || !elapsed) return;
  gathered.bars.push_back({line.number, static_cast<std::int64_t>(*done.value),
                           static_cast<std::int64_t>(*total.value), *elapsed});
}

void add_bars(Gathered& gathered) {
  if (gathered.bars.empty()) return;
  // Evaluation, loading and tokenizing have bars of their own, but training takes longest.
  const auto longest = std::max_element(
      gathered.bars.begin(), gathered.bars.end(),
      [](const ProgressBar& a, const ProgressBar& b) { return a.elapsed < b.elapsed; });
  const std::int64_t total = longest->total;
  constexpr Seconds kStretch(20);  // a clock of whole seconds is then within 5 %
  std::vector<LoggedStep> steps;
  std::optional<ProgressBar> from;
  for (const ProgressBar& bar : gathered.bars) {
    if (bar.total != total) continue;
    if (!from || bar.done < from->done || bar.elapsed < from->elapsed) from = bar;
    if (bar.done == from->done || bar.elapsed - from->elapsed < kStretch) continue;
    const auto count = static_cast<double>(bar.done - from->done);
    // The step at which the stretch begins counts as a line for warm-up.
    if (steps.empty())
      steps.push_back({.line = from->line,
                       .number = from->done,
                       .seconds = (bar.elapsed - from->elapsed) / count});
    steps.push_back(
        {.line = bar.line, .number = bar.done, .seconds = (bar.elapsed - from->elapsed) / count});
    from = bar;
  }
  // The mean of the whole run says less.
  if (steps.size() > 1) gathered.of(LogFormat::HuggingFace) = std::move(steps);
}

}  // namespace trainwright::detail
