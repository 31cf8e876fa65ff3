#pragma once
// Private to logs: what is gathered line by line, for all formats at once.
#include <array>
#include <map>
#include <vector>

#include "trainwright/logs/lines.h"
#include "trainwright/logs/logs.h"

namespace trainwright::detail {

// One drawing of a progress bar.
struct ProgressBar {
  std::int64_t line = 0, done = 0, total = 0;
  Seconds elapsed;
};

struct Gathered {
  LoggedRun run;                                               // all but format, steps and memory
  std::map<std::optional<std::int64_t>, LoggedMemory> memory;  // by rank
  std::array<std::vector<LoggedStep>, kLogFormats> steps;
  std::vector<ProgressBar> bars;
  std::optional<std::int64_t> batch;        // of Megatron-LM's last line: it may grow in a run
  std::optional<std::int64_t> total_steps;  // Hugging Face
  Diagnostics faults;

  std::vector<LoggedStep>& of(LogFormat format) { return steps[static_cast<std::size_t>(format)]; }
  // Unless the line before told of the same step: ranks that print alike.
  void add(LogFormat format, const LoggedStep& step);
  void fault(const LogLine& line, std::string what, std::string hint);
};

void gather_megatron(const LogLine& line, Gathered& gathered);
void gather_torchtitan(const LogLine& line, Gathered& gathered);
void gather_deepspeed(const LogLine& line, Gathered& gathered);
void gather_nanotron(const LogLine& line, Gathered& gathered);
void gather_hugging_face(const LogLine& line, Gathered& gathered);
// Once all bars are known.
void add_bars(Gathered& gathered);

void gather_memory(const LogLine& line, Gathered& gathered);
void gather_failure(const LogLine& line, Gathered& gathered);

}  // namespace trainwright::detail
