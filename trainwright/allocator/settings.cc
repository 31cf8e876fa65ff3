// The text of PYTORCH_ALLOC_CONF.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "trainwright/allocator/allocator.h"
#include "trainwright/base/text.h"

namespace trainwright {
namespace {

constexpr std::int64_t kLargestMebibytes = std::int64_t{1} << 30;  // 1 PiB, beyond any device
constexpr Bytes kLeastSplitSize = Bytes(20 << 20);  // PyTorch: more than its large segment
constexpr Bytes kLeastLargeSegment = Bytes(10 << 20);
constexpr Bytes kMostCapacity = Bytes(std::int64_t{1} << 56);

std::vector<std::string> known_names() {
  return {"expandable_segments", "max_split_size_mb", "max_non_split_rounding_mb",
          "roundup_power2_divisions", "garbage_collection_threshold", "large_segment_size_mb",
          "per_process_memory_fraction",
          // These change when and where the host waits, not what is reserved.
          "backend", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register",
          "pinned_num_register_threads", "pinned_use_background_threads",
          "pinned_reserve_segment_size_mb", "graph_capture_record_stream_reuse",
          "throw_on_cudamalloc_oom"};
}

struct SettingsReader {
  AllocatorSettings settings;
  Diagnostics faults;

  void fault(std::string_view name, std::string what, std::string hint) {
    faults.push_back({fmt::format("allocator setting {}", name), std::move(what), std::move(hint)});
  }

  std::optional<Bytes> mebibytes(std::string_view name, std::string_view text) {
    const auto number = parse_integer(text);
    if (number && *number >= 0 && *number <= kLargestMebibytes) return Bytes(*number << 20);
    fault(name, fmt::format("'{}' is not a size in MiB", text), "a whole number, for example 128");
    return std::nullopt;
  }

  void fraction(std::string_view name, std::string_view text, double& field) {
    const auto number = parse_number(text);
    if (number && *number > 0 && *number <= 1) {
      field = *number;
    } else {
      fault(name, fmt::format("'{}' is not a share", text), "more than 0 and at most 1");
    }
  }

  std::optional<std::int32_t> divisions(std::string_view text) {
    const auto number = parse_integer(text);
    const bool fits = number && *number >= 0 && *number <= 1024;
    if (fits && (*number == 0 || std::has_single_bit(static_cast<std::uint64_t>(*number)))) {
      return static_cast<std::int32_t>(*number);
    }
    fault("roundup_power2_divisions", fmt::format("'{}' is not a number of divisions", text),
          "a power of two up to 1024");
    return std::nullopt;
  }

  // "4", or "[256:1,512:2,>:4]": from 256 MiB on 1 division (below it too), from 512 MiB on 2, for
  // everything larger 4.
  void roundup(std::string_view text) {
    auto& table = settings.roundup_power2_divisions;
    if (!text.starts_with('[')) {
      if (const auto count = divisions(text)) table.fill(*count);
      return;
    }
    std::size_t filled = 0;
    for (const std::string_view entry : split(text.substr(1, text.size() - 2), ',')) {
      const auto parts = split(entry, ':');
      const std::string_view from = trim(parts.front());
      const auto size = parse_integer(from);
      const bool last = from == ">";
      if (parts.size() != 2 || (!last && !(size && *size >= 1))) {
        fault("roundup_power2_divisions", fmt::format("'{}' is not 'MiB:divisions'", entry),
              "for example [256:1,512:2,>:4]");
        return;
      }
      const auto count = divisions(trim(parts[1]));
      if (!count) return;
      if (last) {
        std::fill(table.begin() + static_cast<std::ptrdiff_t>(filled), table.end(), *count);
        return;
      }
      const auto log2 = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(*size)));
      const std::size_t index = std::min(log2 - 1, table.size() - 1);
      if (filled == 0) std::fill_n(table.begin(), index, *count);
      table[index] = *count;
      filled = index + 1;
    }
  }

  void read(std::string_view name, std::string_view value) {
    if (name == "expandable_segments") {
      if (value == "True" || value == "False") {
        settings.expandable_segments = value == "True";
      } else {
        fault(name, fmt::format("'{}' is neither True nor False", value), "write True or False");
      }
    } else if (name == "max_split_size_mb") {
      settings.max_split_size = mebibytes(name, value);
    } else if (name == "max_non_split_rounding_mb") {
      if (const auto size = mebibytes(name, value)) settings.max_non_split_rounding = *size;
    } else if (name == "large_segment_size_mb") {
      if (const auto size = mebibytes(name, value)) settings.large_segment = *size;
    } else if (name == "garbage_collection_threshold") {
      fraction(name, value, settings.garbage_collection_threshold);
    } else if (name == "per_process_memory_fraction") {
      fraction(name, value, settings.memory_fraction.emplace(1));
    } else if (name == "roundup_power2_divisions") {
      roundup(value);
    } else if (const auto names = known_names();
               std::find(names.begin(), names.end(), name) == names.end()) {
      fault(name, "unknown setting", did_you_mean(name, names));
    }
  }
};

// Cuts at the commas outside brackets.
std::vector<std::string_view> entries_of(std::string_view text) {
  std::vector<std::string_view> entries;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') inside = true;
    if (i < text.size() && text[i] == ']') inside = false;
    if (i < text.size() && (text[i] != ',' || inside)) continue;
    entries.push_back(trim(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return entries;
}

}  // namespace

Result<AllocatorSettings> parse_allocator_settings(std::string_view text) {
  SettingsReader reader;
  for (const std::string_view entry : entries_of(text)) {
    if (entry.empty()) continue;
    const std::size_t colon = entry.find(':');
    const std::string_view value =
        colon == std::string_view::npos ? "" : trim(entry.substr(colon + 1));
    const bool brackets_match = value.starts_with('[') == value.ends_with(']');
    if (value.empty() || !brackets_match || value == "[") {
      reader.fault(entry, "expected 'name:value'", "for example max_split_size_mb:128");
      continue;
    }
    reader.read(trim(entry.substr(0, colon)), value);
  }
  for (Diagnostic& fault : check(reader.settings)) reader.faults.push_back(std::move(fault));
  if (!reader.faults.empty()) return fail(std::move(reader.faults));
  return reader.settings;
}

Diagnostics check(const AllocatorSettings& settings) {
  Diagnostics faults;
  const auto require = [&](bool fine, const char* name, const char* what) {
    if (!fine) faults.push_back({fmt::format("allocator setting {}", name), what, {}});
  };
  const auto is_share = [](double share) { return share > 0 && share <= 1; };
  require(settings.capacity > Bytes(0) && settings.capacity <= kMostCapacity, "capacity",
          "must be between 1 byte and 64 PiB");
  require(!settings.memory_fraction || is_share(*settings.memory_fraction),
          "per_process_memory_fraction", "must be more than 0 and at most 1");
  require(
      settings.garbage_collection_threshold == 0 || is_share(settings.garbage_collection_threshold),
      "garbage_collection_threshold", "must be more than 0 and at most 1");
  require(!settings.max_split_size || *settings.max_split_size > kLeastSplitSize,
          "max_split_size_mb", "must be more than 20");
  require(settings.max_non_split_rounding >= Bytes(0), "max_non_split_rounding_mb",
          "must not be negative");
  require(settings.large_segment >= kLeastLargeSegment && settings.large_segment <= kMostCapacity,
          "large_segment_size_mb", "must be at least 10");
  require(settings.chunk_size >= Bytes(0) && settings.chunk_size <= kMostCapacity, "chunk_size",
          "must be between 0 and 64 PiB");
  for (const std::int32_t count : settings.roundup_power2_divisions) {
    require(count >= 0 && count <= 1024 && (count & (count - 1)) == 0, "roundup_power2_divisions",
            "must be powers of two up to 1024");
  }
  return faults;
}

}  // namespace trainwright
