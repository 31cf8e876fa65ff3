#pragma once
// Private: the watcher's own program, after the fork.
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

[[noreturn]] void watch(const Launch& launch, int gate);
std::string end_text(const CommandEnd& end);

}  // namespace trainwright::detail
