#pragma once
// Private: the watcher's own program, after the fork.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>

#include "trainwright/tune/process.h"

namespace trainwright::detail {

// Fields 3, 4 and 22 of /proc/PID/stat, counted after the name, which may hold anything.
struct ProcessStat {
  char state = '?';
  std::int64_t parent = 0;
  std::int64_t born = 0;  // ticks after boot
};
std::optional<ProcessStat> stat_of(std::int64_t pid);

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start);  // seconds
void rest(double seconds);              // shorter where a signal comes
// By SIGTERM to this process.
extern volatile std::sig_atomic_t asked_to_stop;
// Whole and on the disk, or not at all.
bool written(const std::string& path, const std::string& text);
// In the child, where it returns only if it fails: errno.
int become(const std::vector<std::string>& words,
           const std::vector<std::pair<std::string, std::string>>& environment);

[[noreturn]] void watch(const Launch& launch, int gate);
std::string end_text(const CommandEnd& end);

}  // namespace trainwright::detail
