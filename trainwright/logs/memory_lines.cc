// Memory: what trainers print of it, and what is said when it runs out.
#include <algorithm>
#include <cmath>
#include <span>

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

void add_memory(const LoggedMemory& read, Gathered& gathered) {
  if (!read.allocated && !read.reserved) return;
  LoggedMemory& known = gathered.memory.try_emplace(read.rank, read).first->second;
  raise(known.allocated, read.allocated, known, read.line);
  raise(known.reserved, read.reserved, known, read.line);
}

// After an allocation's "GPU 0" or "NPU 0".
std::optional<std::int64_t> device_in(const LogLine& of) {
  for (const std::string_view word : {"GPU ", "NPU "}) {
    if (const auto device = count_after(word, of)) return device;
  }
  return std::nullopt;
}

// What an accelerator's allocator says after "Tried to allocate ".
void add_state(const LogLine& of, LoggedOutOfMemory& failure) {
  failure.device = device_in(of);
  // CUDA up to PyTorch 2.0, NPUs still: "(GPU 0; 6.00 GiB total capacity; ..."
  if (after(of.text, "(GPU ") || after(of.text, "(NPU ")) {
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
}

// Python's exception as a whole word, not a source line that names it.
bool is_memory_error(std::string_view line) {
  constexpr std::string_view kWord = "MemoryError";
  const std::size_t at = line.find(kWord);
  if (at == std::string_view::npos || line.find("except ") != std::string_view::npos) return false;
  const bool begins = at == 0 || line[at - 1] == ' ' || line[at - 1] == '.';
  const std::string_view rest = line.substr(at + kWord.size());
  return begins && (rest.empty() || rest.front() == ':');
}

// Words that tell no bytes: of accelerators, and of the host.
constexpr std::string_view kOfDevice[] = {"CUDA error: out of memory", "HIP error: out of memory",
                                          "failure 2 'out of memory'",  // NCCL
                                          "CUBLAS_STATUS_ALLOC_FAILED"};

bool says_any(std::string_view line, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return after(line, word).has_value(); });
}

// What asks the host for memory, up to the bytes: PyTorch on Linux and elsewhere, NumPy.
constexpr std::string_view kOfHost[] = {
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate ",
    "DefaultCPUAllocator: not enough memory: you tried to allocate ",
    "MemoryError: Unable to allocate "};

std::optional<LoggedOutOfMemory> host_failure(const LogLine& line) {
  LoggedOutOfMemory failure{.line = line.number, .rank = rank_of(line.text), .host = true};
  for (const std::string_view words : kOfHost) {
    if (!after(line.text, words)) continue;
    failure.asked = size_after(words, line);
    return failure;
  }
  if (after(line.text, "std::bad_alloc") || is_memory_error(line.text)) return failure;
  return std::nullopt;
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
  add_memory(read, gathered);
}

void gather_failure(const LogLine& line, Gathered& gathered) {
  std::vector<LoggedOutOfMemory>& failures = gathered.run.failures;
  if (const auto rest = after(line.text, "out of memory. Tried to allocate ")) {
    const auto asked = size_at(*rest, line);
    if (!asked) return;
    LoggedOutOfMemory failure{.line = line.number, .rank = rank_of(line.text), .asked = asked};
    add_state({*rest, line.number, line.ended}, failure);
    failures.push_back(failure);
  } else if (says_any(line.text, kOfDevice)) {
    failures.push_back({.line = line.number, .rank = rank_of(line.text)});
  } else if (const auto failure = host_failure(line)) {
    failures.push_back(*failure);
  }
}

}  // namespace trainwright::detail
