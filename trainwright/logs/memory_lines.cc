// Memory: what trainers print of it, and PyTorch's message when it runs out.
#include <algorithm>
#include <cmath>

#include "trainwright/logs/formats.h"

namespace trainwright::detail {
namespace {

std::optional<Bytes> in_units(std::optional<double> number, double unit) {
  if (!number || *number * unit > 1e15) return std::nullopt;
  return Bytes(std::llround(*number * unit));
}
constexpr double kMiB = 1024.0 * 1024, kGiB = 1024.0 * kMiB;

void raise(std::optional<Bytes>& highest, const std::optional<Bytes>& by, LoggedMemory& of,
           std::int64_t line) {
  if (!by || (highest && *by <= *highest)) return;
  highest = by;
  of.line = line;
}

void add_memory(const LoggedMemory& read, std::vector<LoggedMemory>& list) {
  if (!read.allocated && !read.reserved) return;
  auto at = std::find_if(list.begin(), list.end(),
                         [&](const LoggedMemory& known) { return known.rank >= read.rank; });
  if (at == list.end() || at->rank != read.rank) {
    list.insert(at, read);
    return;
  }
  raise(at->allocated, read.allocated, *at, read.line);
  raise(at->reserved, read.reserved, *at, read.line);
}

}  // namespace

void gather_memory(const LogLine& line, Gathered& gathered) {
  LoggedMemory read{.line = line.number, .rank = rank_of(line.text)};
  if (after(line.text, " memory (MB) |")) {  // Megatron-LM
    read.allocated = in_units(number_after("| max allocated: ", line), kMiB);
    read.reserved = in_units(number_after("| max reserved: ", line), kMiB);
  } else if (after(line.text, "  tps: ") || after(line.text, "  wps: ")) {  // torchtitan
    read.reserved = size_after("  memory: ", line);
  } else if (after(line.text, ", MaxMemAllocated=")) {  // DeepSpeed, which speaks on rank 0 alone
    read.rank = 0;
    read.allocated = in_units(number_after(", MaxMemAllocated=", line), kGiB);
  } else if (after(line.text, " Max_MA ") && after(line.text, " Max_CA ")) {
    read.rank = 0;
    read.allocated = in_units(number_after(" Max_MA ", line), kGiB);
    read.reserved = in_units(number_after(" Max_CA ", line), kGiB);
  } else if (after(line.text, " Memory usage: ") &&
             after(line.text, "Peak allocated")) {  // nanotron
    read.rank = 0;
    read.allocated = size_after(
        after(line.text, "Peak allocated: ") ? "Peak allocated: " : "Peak allocated ", line);
    read.reserved = size_after("Peak reserved: ", line);
  }
  add_memory(read, gathered.run.memory);
}

void gather_failure(const LogLine& line, Gathered& gathered) {
  const auto rest = after(line.text, "out of memory. Tried to allocate ");
  if (!rest) return;
  const auto asked = size_at(*rest, line);
  if (!asked) return;
  LoggedOutOfMemory failure{.line = line.number, .rank = rank_of(line.text), .asked = *asked};
  const LogLine of{*rest, line.number, line.ended};
  if (const auto device = count_after("GPU ", of)) failure.device = *device;
  if (after(of.text, "(GPU ")) {  // up to PyTorch 2.0: "(GPU 0; 6.00 GiB total capacity; ..."
    const auto named = [&](std::string_view what) -> std::optional<Bytes> {
      const std::size_t end = of.text.find(what);
      if (end == std::string_view::npos) return std::nullopt;
      const std::size_t begin = of.text.rfind("; ", end);
      return begin == std::string_view::npos ? std::nullopt
                                             : size_at(of.text.substr(begin + 2), of);
    };
    failure.capacity = named(" total capacity");
    failure.allocated = named(" already allocated");
    failure.free = named(" free");
    failure.reserved = named(" reserved in total");
  } else {  // "capacty" in 2.1
    const auto capacity = after(of.text, "has a total cap");
    if (capacity) failure.capacity = size_after(" of ", {*capacity, of.number, of.ended});
    failure.free = size_after("of which ", of);
    failure.allocated = size_after("Of the allocated memory ", of);
    const auto unused = size_after("is allocated by PyTorch, and ", of);
    if (failure.allocated && unused) failure.reserved = *failure.allocated + *unused;
  }
  gathered.run.failures.push_back(failure);
}

}  // namespace trainwright::detail
