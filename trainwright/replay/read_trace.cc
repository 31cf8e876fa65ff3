// Reads a trace line by line and checks every number, so that a replay need not.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"
#include "trainwright/replay/lines.h"
#include "trainwright/replay/replay.h"

namespace trainwright {
namespace {

using Numbers = std::span<const std::int64_t>;

constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kLargestStorage = std::int64_t{1} << 50;  // 1 PiB
constexpr std::int64_t kLargestSum = std::int64_t{1} << 61;      // so that live bytes fit 64 bits
constexpr std::int64_t kLargestRounding = 1 << 20;
constexpr std::int64_t kStreams = 1024;
constexpr std::int64_t kMostStorages = INT32_MAX - 1;

class TraceReader {
 public:
  explicit TraceReader(std::string_view origin) : faults_{.origin = std::string(origin)} {}

  // False when reading should stop.
  bool line(std::string_view text) {
    ++faults_.line;
    if (text.empty()) return true;
    if (!header_seen_) {
      read_header(text);
      header_seen_ = true;
      return faults_.diagnostics.empty();
    }
    if (text.front() == '"') {
      read_text(text);
    } else if (detail::read_numbers(text, numbers_) && !numbers_.empty()) {
      read_event(numbers_);
    } else {
      faults_.add("expected an array of whole numbers or a string",
                  "for example [1,17] or \"aten.mm.default\"");
    }
    return !faults_.full();
  }

  Result<Trace> finish() && {
    if (!header_seen_) faults_.add("the file is empty", "the first line is the header");
    if (!pending_.empty()) faults_.add("an alias is not followed by the op that makes it");
    if (!faults_.diagnostics.empty()) return fail(std::move(faults_.diagnostics));
    return std::move(trace_);
  }

 private:
  enum class Life : std::uint8_t { Alive, Dead };

  void read_header(std::string_view text) {
    const auto json = detail::json_of_line(text, faults_);
    if (!json) return;
    JsonFields fields(*json, faults_.origin, "", faults_.diagnostics);
    fields.integer("trainwright_trace", {.least = kVersion, .most = kVersion});
    trace_.program = fields.optional_string("program").value_or("");
    trace_.device = fields.optional_string("device").value_or("");
    trace_.rounding = Bytes(
        fields.optional_integer("rounding", {.least = 1, .most = kLargestRounding}).value_or(1));
    const std::string frees = fields.optional_string("frees").value_or("recorded");
    trace_.frees = frees == "last_use" ? Frees::LastUse : Frees::Recorded;
    if (frees != "recorded" && frees != "last_use") {
      fields.fault("frees", fmt::format("unknown way of freeing '{}'", frees),
                   "it is \"recorded\" or \"last_use\"");
    }
    if (json->is_object()) fields.finish();
  }

  void read_text(std::string_view text) {
    const auto json = detail::json_of_line(text, faults_);
    if (!json) return;
    if (const std::string hidden = hidden_fault(json->string); !hidden.empty()) {
      faults_.add("the string " + hidden, std::string(kHiddenHint));
    }
    if (!known_texts_.insert(json->string).second) {
      faults_.add(fmt::format("the string '{}' was given before", json->string));
    }
    trace_.texts.push_back(json->string);
  }

  void read_event(Numbers numbers) {
    const Numbers rest = numbers.subspan(1);
    switch (numbers[0]) {
      case 0: return read_op(rest);
      case 1: return read_frees(rest);
      case 2: return read_relabels(rest);
      case 3: return read_resize(rest);
      case 4: return read_exist(rest);
      case 5: return read_mark(rest);
      case 6: return read_alias(rest);
      case 7: return read_persists(rest);
      case 8: return read_uses(rest);
      case 9: return read_done(rest);
      default: faults_.add(fmt::format("unknown event {}", numbers[0]), "events are 0 to 9");
    }
  }

  // Takes a counted list off the front; nullopt after a fault.
  std::optional<Numbers> counted(Numbers& numbers, std::size_t each) {
    const auto left = static_cast<std::int64_t>(numbers.size());
    if (left == 0 || numbers[0] < 0 || numbers[0] > (left - 1) / static_cast<std::int64_t>(each)) {
      faults_.add("a list is longer than its line", "lists begin with their length");
      return std::nullopt;
    }
    const Numbers list = numbers.subspan(1, static_cast<std::size_t>(numbers[0]) * each);
    numbers = numbers.subspan(1 + list.size());
    return list;
  }

  bool has_length(Numbers numbers, std::size_t least, std::size_t most, std::string_view event) {
    if (numbers.size() >= least && numbers.size() <= most) return true;
    faults_.add(fmt::format("{} has {} numbers after the first", event, numbers.size()),
                least == most ? fmt::format("it needs {}", least)
                              : fmt::format("it needs at least {}", least));
    return false;
  }

  bool is_text(std::int64_t index) {
    if (index >= -1 && index < static_cast<std::int64_t>(trace_.texts.size())) return true;
    faults_.add(fmt::format("string {} is not known yet", index),
                "strings are counted from 0 and come before their use");
    return false;
  }

  bool is_kind(std::int64_t kind) {
    if (kind >= 0 && kind < static_cast<std::int64_t>(kStorageKinds)) return true;
    faults_.add(fmt::format("unknown kind {}", kind), "kinds are 0 to 7");
    return false;
  }

  bool is_stream(std::int64_t stream) {
    if (stream >= 0 && stream < kStreams) return true;
    faults_.add(fmt::format("stream {} is out of range", stream), "streams are 0 to 1023");
    return false;
  }

  bool is_alive(std::int64_t id) {
    if (id < 0 || id >= static_cast<std::int64_t>(life_.size())) {
      faults_.add(fmt::format("storage {} does not exist yet", id));
      return false;
    }
    if (life_[static_cast<std::size_t>(id)] == Life::Alive) return true;
    faults_.add(fmt::format("storage {} was freed before", id));
    return false;
  }

  bool is_size(std::int64_t size) {
    if (size < 0 || size > kLargestStorage) {
      faults_.add(fmt::format("{} bytes are out of range", size), "at most 1 PiB");
      return false;
    }
    sum_ += size + kLargestRounding;
    if (sum_ <= kLargestSum) return true;
    faults_.add("the sizes add up to more than 64 bits hold");
    return false;
  }

  bool make(std::int64_t id, std::int64_t size, std::int64_t kind, const Storage& storage) {
    const auto next = static_cast<std::int64_t>(trace_.storages.size());
    if (id != next || id > kMostStorages) {
      faults_.add(fmt::format("storage {} is made out of order", id),
                  fmt::format("the next new storage is {}", next));
      return false;
    }
    if (!is_size(size) || !is_kind(kind)) return false;
    trace_.storages.push_back(storage);
    trace_.storages.back().size = Bytes(size);
    trace_.storages.back().kind = static_cast<StorageKind>(kind);
    life_.push_back(Life::Alive);
    return true;
  }

  void read_op(Numbers numbers) {
    if (!has_length(numbers, 6, SIZE_MAX, "an op")) return;
    TraceOp op;
    if (!is_text(numbers[0]) || !is_text(numbers[2])) return;
    op.name = TraceTextId(static_cast<std::int32_t>(numbers[0]));
    op.module = TraceTextId(static_cast<std::int32_t>(numbers[2]));
    if (numbers[1] < 0 || numbers[1] > 4) {
      return faults_.add(fmt::format("unknown phase {}", numbers[1]), "phases are 0 to 4");
    }
    op.phase = static_cast<Phase>(numbers[1]);
    Numbers rest = numbers.subspan(3);
    const auto reads = counted(rest, 1);
    if (!reads) return;
    const auto writes = counted(rest, 1);
    if (!writes) return;
    const auto made = counted(rest, 3);
    if (!made || !has_length(rest, 0, 2, "the end of an op")) return;
    if (!rest.empty() && !is_stream(rest[0])) return;
    if (rest.size() == 2 && rest[1] < 0) return faults_.add("floating-point work is negative");
    op.stream = StreamId(rest.empty() ? 0 : static_cast<std::int32_t>(rest[0]));
    op.flops = rest.size() == 2 ? static_cast<double>(rest[1]) : 0;
    add_op(op, *reads, *writes, *made);
  }

  void add_op(TraceOp op, Numbers reads, Numbers writes, Numbers made) {
    if (trace_.operands.size() + reads.size() + writes.size() > UINT32_MAX) {
      return faults_.add("the ops have more than 4 x 10^9 operands");
    }
    op.operands = static_cast<std::uint32_t>(trace_.operands.size());
    op.reads = static_cast<std::uint32_t>(reads.size());
    op.writes = static_cast<std::uint32_t>(writes.size());
    op.made_first = StorageId(static_cast<std::int32_t>(trace_.storages.size()));
    op.made = static_cast<std::uint32_t>(made.size() / 3);
    for (const Numbers list : {reads, writes}) {
      for (const std::int64_t id : list) {
        if (!is_alive(id)) return;
        trace_.operands.emplace_back(static_cast<std::int32_t>(id));
      }
    }
    Storage storage;
    storage.module = op.module;
    storage.made_by = OpId(static_cast<std::int32_t>(trace_.ops.size()));
    for (std::size_t i = 0; i < made.size(); i += 3) {
      if (!make(made[i], made[i + 1], made[i + 2], storage)) return;
    }
    check_pending(op);
    add({TraceEvent::Kind::Op, {}, storage.made_by.index(), 0});
    trace_.ops.push_back(op);
  }

  // The aliases just before an op speak of variables it makes.
  void check_pending(const TraceOp& op) {
    for (const std::int64_t id : pending_) {
      if (id < op.made_first.index() || id >= op.made_first.index() + std::int64_t{op.made}) {
        faults_.add(fmt::format("the alias of {} is not followed by the op that makes it", id));
      }
    }
    pending_.clear();
  }

  void read_frees(Numbers ids) {
    if (trace_.frees == Frees::LastUse) {
      return faults_.add("a static program has no frees", "the header says last_use");
    }
    for (const std::int64_t id : ids) {
      if (!is_alive(id)) return;
      life_[static_cast<std::size_t>(id)] = Life::Dead;
      add({TraceEvent::Kind::Free, {}, static_cast<std::int32_t>(id), 0});
    }
  }

  void read_relabels(Numbers numbers) {
    if (!has_length(numbers, 1, SIZE_MAX, "a relabelling") || !is_kind(numbers[0])) return;
    for (const std::int64_t id : numbers.subspan(1)) {
      if (!is_alive(id)) return;
      add({TraceEvent::Kind::Relabel, static_cast<StorageKind>(numbers[0]),
           static_cast<std::int32_t>(id), 0});
    }
  }

  void read_resize(Numbers numbers) {
    if (!has_length(numbers, 2, 2, "a resize")) return;
    if (!is_alive(numbers[0]) || !is_size(numbers[1])) return;
    add({TraceEvent::Kind::Resize, {}, static_cast<std::int32_t>(numbers[0]), numbers[1]});
  }

  void read_exist(Numbers numbers) {
    if (!has_length(numbers, 3, 5, "an existing storage")) return;
    Storage storage;
    if (numbers.size() > 3) {
      if (!is_text(numbers[3])) return;
      storage.name = TraceTextId(static_cast<std::int32_t>(numbers[3]));
    }
    if (numbers.size() > 4) {
      if (!is_text(numbers[4])) return;
      storage.module = TraceTextId(static_cast<std::int32_t>(numbers[4]));
    }
    if (!make(numbers[0], numbers[1], numbers[2], storage)) return;
    add({TraceEvent::Kind::Exist, {}, static_cast<std::int32_t>(numbers[0]), 0});
  }

  void read_mark(Numbers numbers) {
    if (!has_length(numbers, 1, 1, "a mark") || !is_text(numbers[0])) return;
    add({TraceEvent::Kind::Mark, {}, static_cast<std::int32_t>(numbers[0]), 0});
  }

  void read_alias(Numbers numbers) {
    if (!has_length(numbers, 3, 3, "an alias") || !is_alive(numbers[2])) return;
    const auto next = static_cast<std::int64_t>(trace_.storages.size());
    if (trace_.frees != Frees::LastUse) {
      return faults_.add("only static programs have aliases",
                         "a recorded program's views have the storage of their base");
    }
    if (numbers[0] < 0 || numbers[0] > 1)
      return faults_.add("an alias is 0 (view) or 1 (in place)");
    if (numbers[1] < next || numbers[1] > kMostStorages) {
      return faults_.add(fmt::format("variable {} is made already", numbers[1]),
                         "an alias comes before the op that makes it");
    }
    pending_.push_back(numbers[1]);
    const auto kind = numbers[0] == 0 ? TraceEvent::Kind::View : TraceEvent::Kind::InPlace;
    add({kind, {}, static_cast<std::int32_t>(numbers[1]), numbers[2]});
  }

  void read_persists(Numbers ids) {
    for (const std::int64_t id : ids) {
      if (!is_alive(id)) return;
      add({TraceEvent::Kind::Persist, {}, static_cast<std::int32_t>(id), 0});
    }
  }

  void read_uses(Numbers numbers) {
    if (!has_length(numbers, 1, SIZE_MAX, "a use") || !is_stream(numbers[0])) return;
    for (const std::int64_t id : numbers.subspan(1)) {
      if (!is_alive(id)) return;
      add({TraceEvent::Kind::Use, {}, static_cast<std::int32_t>(id), numbers[0]});
    }
  }

  void read_done(Numbers numbers) {
    if (!has_length(numbers, 1, 1, "done") || !is_stream(numbers[0])) return;
    add({TraceEvent::Kind::Done, {}, static_cast<std::int32_t>(numbers[0]), 0});
  }

  void add(const TraceEvent& event) { trace_.events.push_back(event); }

  detail::LineFaults faults_;
  Trace trace_;
  bool header_seen_ = false;
  std::vector<std::int64_t> numbers_;
  std::vector<Life> life_;
  std::vector<std::int64_t> pending_;
  std::set<std::string> known_texts_;
  std::int64_t sum_ = 0;
};

}  // namespace

Result<Trace> parse_trace(std::string_view text, std::string_view origin) {
  TraceReader reader(origin);
  detail::for_each_line(text, [&](std::string_view line) { return reader.line(line); });
  return std::move(reader).finish();
}

Result<Trace> read_trace(const std::string& path) {
  TraceReader reader(path);
  TW_TRY(detail::for_each_line_of_file(path,
                                       [&](std::string_view line) { return reader.line(line); }));
  return std::move(reader).finish();
}

}  // namespace trainwright
