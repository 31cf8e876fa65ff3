// A PyTorch memory snapshot's own allocs and frees through the model, against its segment events.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "trainwright/base/text.h"
#include "trainwright/replay/lines.h"
#include "trainwright/replay/replay.h"

namespace trainwright {
namespace {

enum class Action {
  Alloc,
  FreeRequested,
  FreeCompleted,
  SegmentAlloc,
  SegmentFree,
  SegmentMap,
  SegmentUnmap,
  OutOfMemory,
  Snapshot
};
constexpr std::int64_t kActions = 9;
constexpr std::int64_t kStreams = 1024;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 50;

class SnapshotReader {
 public:
  explicit SnapshotReader(std::string_view origin) : faults_{.origin = std::string(origin)} {}

  bool line(std::string_view text) {
    ++faults_.line;
    if (text.empty()) return true;
    if (!allocator_) {
      read_header(text);
      return allocator_.has_value();
    }
    if (!detail::read_numbers(text, numbers_) || numbers_.size() < 4 || numbers_.size() > 5) {
      faults_.add("expected [action, address, size, stream] or, of an alloc, also its kind");
    } else if (numbers_.size() == 5 && (numbers_[0] != 0 || !is_kind(numbers_[4]))) {
      faults_.add("only an alloc has a kind", "kinds are 0 to 7");
    } else if (numbers_[0] < 0 || numbers_[0] >= kActions) {
      faults_.add(fmt::format("unknown action {}", numbers_[0]), "actions are 0 to 8");
    } else if (numbers_[2] < 0 || numbers_[2] > kLargestSize) {
      faults_.add(fmt::format("{} bytes are out of range", numbers_[2]), "at most 1 PiB");
    } else if (numbers_[3] < 0 || numbers_[3] >= kStreams) {
      faults_.add(fmt::format("stream {} is out of range", numbers_[3]), "streams are 0 to 1023");
    } else {
      event(static_cast<Action>(numbers_[0]), numbers_[1], numbers_[2],
            StreamId(static_cast<std::int32_t>(numbers_[3])));
      count(static_cast<Action>(numbers_[0]), numbers_[1]);
    }
    return !faults_.full();
  }

  Result<SnapshotReplay> finish() && {
    if (!allocator_ && faults_.diagnostics.empty()) {
      faults_.add("the file is empty", "the first line is the header");
    }
    if (!faults_.diagnostics.empty()) return fail(std::move(faults_.diagnostics));
    settle(0);
    result_.reserved_peak_modelled = allocator_->stats().reserved_peak;
    return std::move(result_);
  }

 private:
  void read_header(std::string_view text) {
    const auto json = detail::json_of_line(text, faults_);
    if (!json) return;
    JsonFields fields(*json, faults_.origin, "", faults_.diagnostics);
    fields.integer("trainwright_snapshot", {.least = 1, .most = 1});
    fields.optional_integer("device", {.least = 0, .most = 1 << 20});
    complete_ = fields.optional_bool("complete").value_or(true);
    auto settings = parse_allocator_settings(fields.optional_string("settings").value_or(""));
    const auto capacity =
        fields.optional_integer("capacity", {.least = 1, .most = std::int64_t{1} << 56});
    if (json->is_object()) fields.finish();
    if (!settings) {
      for (Diagnostic& fault : settings.error().diagnostics) {
        fields.fault("settings", fault.where + ": " + fault.what, fault.hint);
      }
    }
    if (!faults_.diagnostics.empty()) return;
    if (capacity) settings->capacity = Bytes(*capacity);
    allocator_.emplace(*settings);
    allocator_->keep_segment_events();
  }

  // The snapshot writes a segment event before the alloc that caused it, so the model's events are
  // compared after each alloc with those the snapshot has had since the one before.
  void event(Action action, std::int64_t address, std::int64_t size, StreamId stream) {
    switch (action) {
      case Action::Alloc: {
        ++result_.allocations;
        const auto block = allocator_->allocate(Bytes(size), stream);
        if (block) live_[address] = *block;
        return settle(size);
      }
      // A block is back in its pool when its free is completed; the request may be long before.
      case Action::FreeCompleted: {
        ++result_.frees;
        const auto found = live_.find(address);
        if (found == live_.end()) {
          if (complete_) mismatch(fmt::format("address {} is freed but not allocated", address));
          return;
        }
        allocator_->free(found->second);
        live_.erase(found);
        return;
      }
      case Action::SegmentAlloc:
      case Action::SegmentMap: return device_gave(size);
      case Action::SegmentFree:
      case Action::SegmentUnmap: return device_gave(-size);
      case Action::FreeRequested:
      case Action::OutOfMemory:
      case Action::Snapshot: return;
    }
  }

  static bool is_kind(std::int64_t number) {
    return number >= 0 && number < static_cast<std::int64_t>(kStorageKinds);
  }

  // What is allocated, by kind: until its free is asked for, as PyTorch counts.
  void count(Action action, std::int64_t address) {
    if (action == Action::Alloc) {
      const bool told = numbers_.size() == 5;
      const auto kind = told ? static_cast<std::size_t>(numbers_[4])
                             : static_cast<std::size_t>(StorageKind::Other);
      let_go(address);
      counted_[address] = {Bytes(numbers_[2]), kind};
      kinds_[kind] += Bytes(numbers_[2]);
      allocated_ += Bytes(numbers_[2]);
      if (allocated_ > Bytes(kLargestSize * 64))
        faults_.add("more is allocated than any device has");
      if (allocated_ <= result_.allocated_peak) return;
      result_.allocated_peak = allocated_;
      result_.by_kind = kinds_;
    } else if (action == Action::FreeRequested || action == Action::FreeCompleted) {
      let_go(address);
    }
  }

  void let_go(std::int64_t address) {
    const auto found = counted_.find(address);
    if (found == counted_.end()) return;
    kinds_[found->second.kind] -= found->second.size;
    allocated_ -= found->second.size;
    counted_.erase(found);
  }

  void device_gave(std::int64_t size) {
    ++result_.segment_events;
    recorded_.push_back(size);
    reserved_recorded_ += size;
    if (std::abs(reserved_recorded_) > kLargestSize * 64) {
      faults_.add("the segments add up to more than any device has");
      reserved_recorded_ = 0;
    }
    result_.reserved_peak_recorded =
        std::max(result_.reserved_peak_recorded, Bytes(reserved_recorded_));
  }

  void settle(std::int64_t request) {
    std::vector<std::int64_t> modelled;
    for (const SegmentEvent& made : allocator_->take_segment_events())
      modelled.push_back(made.size);
    if (modelled != recorded_) {
      mismatch(fmt::format("for {} the device gave {} but the model wants {}",
                           to_text(Bytes(request)), sizes(recorded_), sizes(modelled)));
    }
    recorded_.clear();
  }

  static std::string sizes(const std::vector<std::int64_t>& list) {
    if (list.empty()) return "nothing";
    std::vector<std::string> words;
    for (std::size_t i = 0; i < std::min<std::size_t>(list.size(), 4); ++i) {
      words.push_back((list[i] < 0 ? "-" : "") + to_text(Bytes(std::abs(list[i]))));
    }
    if (list.size() > 4) words.push_back("...");
    return join(words, ", ");
  }

  void mismatch(std::string what) {
    if (result_.mismatches++ > 0) return;
    result_.first_mismatch = fmt::format("{}:{}: {}", faults_.origin, faults_.line, what);
  }

  detail::LineFaults faults_;
  std::optional<Allocator> allocator_;
  bool complete_ = true;
  std::vector<std::int64_t> numbers_;
  std::unordered_map<std::int64_t, BlockId> live_;  // by address; never walked
  struct Counted {
    Bytes size;
    std::size_t kind = 0;
  };
  std::unordered_map<std::int64_t, Counted> counted_;  // by address; never walked
  BytesByKind kinds_{};
  Bytes allocated_;
  std::vector<std::int64_t> recorded_;
  std::int64_t reserved_recorded_ = 0;
  SnapshotReplay result_;
};

}  // namespace

Result<SnapshotReplay> replay_snapshot(std::string_view text, std::string_view origin) {
  SnapshotReader reader(origin);
  detail::for_each_line(text, [&](std::string_view line) { return reader.line(line); });
  return std::move(reader).finish();
}

Result<SnapshotReplay> replay_snapshot_file(const std::string& path) {
  SnapshotReader reader(path);
  TW_TRY(detail::for_each_line_of_file(path,
                                       [&](std::string_view line) { return reader.line(line); }));
  return std::move(reader).finish();
}

}  // namespace trainwright
