// The forms of a replay that programs read: JSON, SVG and Perfetto's counters.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "trainwright/base/text.h"
#include "trainwright/cli/replay.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

constexpr std::size_t kPerfettoPoints = 100'000;

Json text_json(const Trace& trace, TraceTextId text) {
  return text.index() < 0 ? Json{} : Json::of(trace.texts[text.at()]);
}

Json op_json(const Trace& trace, OpId op) {
  if (op.index() < 0) return Json{};
  const TraceOp& at = trace.ops[op.at()];
  Json json = Json::object();
  json.add("index", Json::of(op.index()))
      .add("name", text_json(trace, at.name))
      .add("phase", Json::of(name_of(at.phase)))
      .add("module", text_json(trace, at.module));
  return json;
}

Json kinds_json(const BytesByKind& by_kind) {
  Json json = Json::object();
  for (std::size_t kind = 0; kind < kStorageKinds; ++kind) {
    json.add(std::string(name_of(static_cast<StorageKind>(kind))), Json::of(by_kind[kind].value()));
  }
  return json;
}

Json alive_json(const Trace& trace, const Replay& replay) {
  Json list = Json::array();
  for (const AliveStorage& alive : replay.alive) {
    Json json = Json::object();
    json.add("storage", Json::of(alive.storage.index()))
        .add("name", text_json(trace, trace.storages[alive.storage.at()].name))
        .add("module", text_json(trace, trace.storages[alive.storage.at()].module))
        .add("bytes", Json::of(alive.size.value()))
        .add("kind", Json::of(name_of(alive.kind)))
        .add("made_by", op_json(trace, alive.made_by))
        .add("last_used_by", op_json(trace, alive.last_use))
        .add("waits_for", op_json(trace, alive.waits_for));
    list.push(std::move(json));
  }
  return list;
}

Json recompute_json(const Trace& trace, const Replay& replay) {
  Json list = Json::array();
  for (const RecomputeOption& option : replay.recompute) {
    Json json = Json::object();
    json.add("maker", text_json(trace, option.maker))
        .add("tensors", Json::of(option.storages))
        .add("bytes", Json::of(option.size.value()))
        .add("peak_lowered_by", Json::of(option.saved.value()))
        .add("ops_again", Json::of(option.ops))
        .add("bytes_moved", Json::of(option.traffic.value()))
        .add("flops", option.work ? Json::of(option.work->value()) : Json{});
    list.push(std::move(json));
  }
  return list;
}

Json reserved_json(const Trace& trace, const ReservedBytes& reserved) {
  const AllocatorStats& stats = reserved.stats;
  Json json = Json::object();
  json.add("reserved_peak", Json::of(stats.reserved_peak.value()))
      .add("reserved_at_live_peak", Json::of(reserved.at_live_peak.value()))
      .add("allocated_peak", Json::of(stats.allocated_peak.value()))
      .add("requested_peak", Json::of(stats.requested_peak.value()))
      .add("reserved_end", Json::of(stats.reserved.value()))
      .add("segments_made", Json::of(stats.segments_made))
      .add("segments_freed", Json::of(stats.segments_freed))
      .add("retries", Json::of(stats.retries));
  const bool failed = reserved.out_of_memory.has_value();
  json.add("out_of_memory", failed ? Json::of(reserved.message) : Json{})
      .add("out_of_memory_at", failed ? op_json(trace, *reserved.out_of_memory) : Json{});
  return json;
}

Json changes_json(const std::vector<ReplayDifference::Change>& changes) {
  Json list = Json::array();
  for (const auto& [what, before, after] : changes) {
    Json json = Json::object();
    json.add("what", Json::of(what)).add("before", Json::of(before)).add("after", Json::of(after));
    list.push(std::move(json));
  }
  return list;
}

std::string quoted(const Trace& trace, TraceTextId text) {
  std::string quoted_text =
      to_text(text_json(trace, text).is_null() ? Json::of("(unnamed)") : text_json(trace, text));
  quoted_text.pop_back();  // its line end
  return quoted_text;
}

}  // namespace

Json replay_json(const Trace& trace, const Replay& replay) {
  Json json = Json::object();
  json.add("program", Json::of(trace.program))
      .add("ops", Json::of(static_cast<std::int64_t>(trace.ops.size())))
      .add("storages", Json::of(static_cast<std::int64_t>(trace.storages.size())))
      .add("peak", Json::of(replay.peak.value()))
      .add("peak_op", op_json(trace, replay.peak_op))
      .add("begin", Json::of(replay.begin.value()))
      .add("end", Json::of(replay.end.value()))
      .add("by_kind", kinds_json(replay.by_kind));
  Json modules = Json::array();
  for (const auto& [module, bytes] : replay.by_module) {
    Json entry = Json::object();
    entry.add("module", text_json(trace, module)).add("bytes", Json::of(bytes.value()));
    modules.push(std::move(entry));
  }
  json.add("by_module", std::move(modules))
      .add("alive_count", Json::of(static_cast<std::int64_t>(replay.alive_count)))
      .add("alive", alive_json(trace, replay))
      .add("recompute", recompute_json(trace, replay));
  Json marks = Json::array();
  for (const MarkBytes& mark : replay.marks) {
    Json entry = Json::object();
    entry.add("mark", text_json(trace, mark.text))
        .add("live", Json::of(mark.live.value()))
        .add("peak", Json::of(mark.peak.value()));
    marks.push(std::move(entry));
  }
  json.add("marks", std::move(marks));
  json.add("reserved", replay.reserved ? reserved_json(trace, *replay.reserved) : Json{});
  return json;
}

std::string replay_svg(const Trace& trace, const Replay& replay,
                       const std::optional<ColumnBeside>& theirs) {
  const auto numbers = [](const std::vector<Bytes>& bytes) {
    std::vector<double> values(bytes.size());
    std::transform(bytes.begin(), bytes.end(), values.begin(),
                   [](Bytes size) { return static_cast<double>(size.value()); });
    return values;
  };
  Curve curve;
  curve.title = fmt::format("{}: live bytes, peak {}", trace.program, to_text(replay.peak));
  curve.caption = fmt::format("{} ops; filled: live bytes during each op",
                              with_thousands(static_cast<std::int64_t>(trace.ops.size())));
  curve.label = [](double value) { return to_text(Bytes(static_cast<std::int64_t>(value))); };
  curve.values = numbers(replay.live);
  if (replay.reserved) {
    curve.values_above = numbers(replay.reserved->after_op);
    curve.caption += "; line: reserved by the allocator";
  }
  if (theirs) {
    // Where the column has no row, its last one holds; its zero is put where this replay's is.
    Bytes last(0);
    curve.values_above.clear();
    for (const std::optional<Bytes>& row : theirs->theirs) {
      last = row ? *row + theirs->base : last;
      curve.values_above.push_back(static_cast<double>(last.value()));
    }
    curve.caption =
        fmt::format("{} ops; filled: live bytes during each op; line: the column beside, {} it",
                    with_thousands(std::ssize(trace.ops)), theirs->before ? "before" : "after");
  }
  if (replay.peak_op.index() >= 0) {
    curve.marks.push_back({replay.peak_op.at(), op_title(trace, replay.peak_op)});
  }
  return to_svg(curve);
}

std::string replay_perfetto(const Trace& trace, const Replay& replay) {
  std::string out = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  out += R"({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "memory"}})";
  const auto into = std::back_inserter(out);
  // Of a long program every point is the largest of its stretch, at its own place.
  const std::size_t ops = replay.live.size();
  const std::size_t points = std::min(ops, kPerfettoPoints);
  for (std::size_t point = 0; point < points; ++point) {
    const auto begin = replay.live.begin() + static_cast<std::ptrdiff_t>(point * ops / points);
    const auto end = replay.live.begin() + static_cast<std::ptrdiff_t>((point + 1) * ops / points);
    const auto most = std::max_element(begin, end);
    const auto index = static_cast<std::size_t>(most - replay.live.begin());
    fmt::format_to(into,
                   ",\n{{\"ph\": \"C\", \"pid\": 1, \"ts\": {}, \"name\": \"live\", \"args\": "
                   "{{\"bytes\": {}}}}}",
                   index, most->value());
    if (replay.reserved) {
      fmt::format_to(into,
                     ",\n{{\"ph\": \"C\", \"pid\": 1, \"ts\": {}, \"name\": \"reserved\", "
                     "\"args\": {{\"bytes\": {}}}}}",
                     index, replay.reserved->after_op[index].value());
    }
    if (points < ops) continue;
    fmt::format_to(into,
                   ",\n{{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": {}, \"dur\": 1, "
                   "\"name\": {}, \"cat\": \"{}\"}}",
                   index, quoted(trace, trace.ops[index].name), name_of(trace.ops[index].phase));
  }
  return out + "\n]}\n";
}

Json difference_json(const ReplayDifference& difference) {
  Json json = Json::object();
  json.add("peak", changes_json({difference.peak}).items[0])
      .add("kinds", changes_json(difference.kinds))
      .add("modules", changes_json(difference.modules))
      .add("makers", changes_json(difference.makers))
      .add("tensors", changes_json(difference.tensors))
      .add("ops", changes_json(difference.ops));
  return json;
}

Json snapshot_json(const SnapshotReplay& snapshot) {
  Json json = Json::object();
  json.add("allocations", Json::of(snapshot.allocations))
      .add("frees", Json::of(snapshot.frees))
      .add("segment_events", Json::of(snapshot.segment_events))
      .add("mismatches", Json::of(snapshot.mismatches))
      .add("first_mismatch", snapshot.mismatches == 0 ? Json{} : Json::of(snapshot.first_mismatch))
      .add("reserved_peak_recorded", Json::of(snapshot.reserved_peak_recorded.value()))
      .add("reserved_peak_modelled", Json::of(snapshot.reserved_peak_modelled.value()));
  return json;
}

}  // namespace trainwright::cli
