// What `trainwright replay` says in words and tables.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/replay.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

constexpr std::size_t kModulesShown = 10;
constexpr int kChartHeight = 6;

std::string text_of(const Trace& trace, TraceTextId text, const char* otherwise) {
  return text.index() < 0 ? otherwise : trace.texts[text.at()];
}

std::string share_of(Bytes part, Bytes whole) {
  return whole == Bytes(0) ? "" : percent(part / whole);
}

std::string op_name(const Trace& trace, OpId op) {
  return op.index() < 0 ? "-"
                        : fmt::format("{} {}", op.index(),
                                      text_of(trace, trace.ops[op.at()].name, "(unnamed)"));
}

std::string peak_lines(const Trace& trace, const Replay& replay, int width) {
  std::string text = fmt::format("{}: {} ops, {} storages\n\n", trace.program,
                                 with_thousands(static_cast<std::int64_t>(trace.ops.size())),
                                 with_thousands(static_cast<std::int64_t>(trace.storages.size())));
  text += fmt::format("peak      {}, {}\n", to_text(replay.peak), op_title(trace, replay.peak_op));
  text += fmt::format("          {} bytes\n", with_thousands(replay.peak.value()));
  text += fmt::format("begin     {}\nend       {}\n", to_text(replay.begin), to_text(replay.end));
  if (!replay.reserved) return text;
  const ReservedBytes& reserved = *replay.reserved;
  text += fmt::format("reserved  {} at most, {} when the live bytes peaked\n",
                      to_text(reserved.stats.reserved_peak), to_text(reserved.at_live_peak));
  if (!reserved.out_of_memory) return text;
  text += fmt::format("\nout of memory at {}:\n", op_title(trace, *reserved.out_of_memory));
  for (const std::string& line : wrapped(reserved.message, width - 2)) text += "  " + line + "\n";
  return text;
}

std::string chart(const Trace& trace, const Replay& replay, int width) {
  if (replay.live.empty()) return "";
  Curve curve;
  curve.label = [](double value) { return to_text(Bytes(static_cast<std::int64_t>(value))); };
  curve.values.reserve(replay.live.size());
  for (const Bytes live : replay.live) curve.values.push_back(static_cast<double>(live.value()));
  for (const TraceOp& op : trace.ops) {
    curve.letters += "FBRO."[static_cast<std::size_t>(op.phase)];
  }
  return fmt::format("\nlive bytes, op by op (F forward, B backward, R recompute, O optimizer)\n{}",
                     block_chart(curve, width, kChartHeight));
}

std::string kinds_table(const Replay& replay, int width) {
  Table table{{{"kind"}, {"at the peak", Align::Right}, {"share", Align::Right}}, {}};
  for (std::size_t kind = 0; kind < kStorageKinds; ++kind) {
    const Bytes bytes = replay.by_kind[kind];
    if (bytes == Bytes(0)) continue;
    table.rows.push_back({std::string(name_of(static_cast<StorageKind>(kind))), to_text(bytes),
                          share_of(bytes, replay.peak)});
  }
  table.rows.push_back({});
  table.rows.push_back({"total", to_text(replay.peak), ""});
  return "\n" + to_text(table, width);
}

std::string modules_table(const Trace& trace, const Replay& replay, int width) {
  const bool no_modules = replay.by_module.size() == 1 && replay.by_module[0].first.index() < 0;
  if (replay.by_module.empty() || no_modules) return "";
  Table table{{{"module", Align::Wrap}, {"at the peak", Align::Right}, {"share", Align::Right}},
              {}};
  Bytes rest;
  for (std::size_t i = 0; i < replay.by_module.size(); ++i) {
    const auto& [module, bytes] = replay.by_module[i];
    if (i >= kModulesShown) {
      rest += bytes;
      continue;
    }
    table.rows.push_back(
        {module_title(trace, module), to_text(bytes), share_of(bytes, replay.peak)});
  }
  if (rest > Bytes(0)) {
    table.rows.push_back({fmt::format("{} others", replay.by_module.size() - kModulesShown),
                          to_text(rest), share_of(rest, replay.peak)});
  }
  return "\n" + to_text(table, width);
}

std::string alive_table(const Trace& trace, const Replay& replay, int width) {
  if (replay.alive.empty()) return "";
  Table table{{{"tensor"},
               {"size", Align::Right},
               {"kind"},
               {"made by", Align::Wrap},
               {"last used by", Align::Wrap},
               {"waits for", Align::Wrap}},
              {}};
  for (const AliveStorage& alive : replay.alive) {
    const TraceTextId name = trace.storages[alive.storage.at()].name;
    const std::string made =
        alive.made_by.index() >= 0 ? op_name(trace, alive.made_by) : text_of(trace, name, "-");
    table.rows.push_back({std::to_string(alive.storage.index()), to_text(alive.size),
                          std::string(name_of(alive.kind)), made, op_name(trace, alive.last_use),
                          op_name(trace, alive.waits_for)});
  }
  return fmt::format("\nlargest of {} storages alive at the peak\n{}",
                     with_thousands(static_cast<std::int64_t>(replay.alive_count)),
                     to_text(table, width));
}

std::string recompute_table(const Trace& trace, const Replay& replay, int width) {
  if (replay.recompute.empty()) return "";
  Table table{{{"make again", Align::Wrap},
               {"tensors", Align::Right},
               {"lowers peak by", Align::Right},
               {"ops again", Align::Right},
               {"bytes moved", Align::Right},
               {"work", Align::Right}},
              {}};
  for (const RecomputeOption& option : replay.recompute) {
    table.rows.push_back({text_of(trace, option.maker, "(unnamed)"),
                          with_thousands(option.storages), to_text(option.saved),
                          with_thousands(option.ops), to_text(option.traffic),
                          option.work ? to_text(*option.work) : "unknown"});
  }
  return "\nwhat would lower the peak: outputs dropped and made again when needed\n" +
         to_text(table, width);
}

std::string marks_table(const Trace& trace, const Replay& replay, int width) {
  if (replay.marks.empty()) return "";
  Table table{{{"mark", Align::Wrap}, {"live there", Align::Right}, {"peak after", Align::Right}},
              {}};
  for (std::size_t i = 0; i < std::min<std::size_t>(replay.marks.size(), 40); ++i) {
    const MarkBytes& mark = replay.marks[i];
    table.rows.push_back(
        {text_of(trace, mark.text, "(unnamed)"), to_text(mark.live), to_text(mark.peak)});
  }
  if (replay.marks.size() > 40) {
    table.rows.push_back({fmt::format("{} more", replay.marks.size() - 40), "", ""});
  }
  return "\n" + to_text(table, width);
}

std::string signed_bytes(std::int64_t change) {
  return (change < 0 ? "-" : "+") + to_text(Bytes(change < 0 ? -change : change));
}

std::string changes_table(const char* heading, const std::vector<ReplayDifference::Change>& changes,
                          bool bytes, int width) {
  if (changes.empty()) return "";
  Table table{{{heading, Align::Wrap},
               {"before", Align::Right},
               {"after", Align::Right},
               {"change", Align::Right}},
              {}};
  const auto value = [&](std::int64_t number) {
    return bytes ? to_text(Bytes(number)) : with_thousands(number);
  };
  for (std::size_t i = 0; i < std::min<std::size_t>(changes.size(), 20); ++i) {
    const auto& [what, before, after] = changes[i];
    table.rows.push_back(
        {what, value(before), value(after),
         bytes ? signed_bytes(after - before) : fmt::format("{:+}", after - before)});
  }
  if (changes.size() > 20) {
    table.rows.push_back({fmt::format("{} more", changes.size() - 20), "", "", ""});
  }
  return "\n" + to_text(table, width);
}

}  // namespace

std::string op_title(const Trace& trace, OpId op) {
  if (op.index() < 0) return "before the first op";
  const TraceOp& at = trace.ops[op.at()];
  std::string title = fmt::format("op {} {} ({})", with_thousands(op.index()),
                                  text_of(trace, at.name, "(unnamed)"), name_of(at.phase));
  if (at.module.index() >= 0) title += " in " + module_title(trace, at.module);
  return title;
}

std::string module_title(const Trace& trace, TraceTextId module) {
  const std::string name = text_of(trace, module, "(no module)");
  return name.empty() ? "(root)" : name;
}

std::string replay_text(const Trace& trace, const Replay& replay, int width) {
  return peak_lines(trace, replay, width) + chart(trace, replay, width) +
         kinds_table(replay, width) + modules_table(trace, replay, width) +
         alive_table(trace, replay, width) + recompute_table(trace, replay, width) +
         marks_table(trace, replay, width);
}

std::string difference_text(const ReplayDifference& difference, int width) {
  const auto& [what, before, after] = difference.peak;
  std::string text = fmt::format("peak {} -> {}", to_text(Bytes(before)), to_text(Bytes(after)));
  text += before == after ? ", unchanged\n" : fmt::format(" ({})\n", signed_bytes(after - before));
  text += changes_table("kind", difference.kinds, true, width);
  text += changes_table("module", difference.modules, true, width);
  text += changes_table("made by", difference.makers, true, width);
  text += changes_table("tensor", difference.tensors, true, width);
  text += changes_table("number of ops", difference.ops, false, width);
  return text;
}

std::string snapshot_text(const SnapshotReplay& snapshot) {
  std::string text = fmt::format(
      "allocations: {}, frees: {}, segment events: {}\n", with_thousands(snapshot.allocations),
      with_thousands(snapshot.frees), with_thousands(snapshot.segment_events));
  text += fmt::format("reserved at most: {} recorded, {} by the model\n",
                      to_text(snapshot.reserved_peak_recorded),
                      to_text(snapshot.reserved_peak_modelled));
  if (snapshot.mismatches == 0) {
    return text + "the model's segment events are those of the snapshot\n";
  }
  return text + fmt::format("mismatches: {}, the first at {}\n",
                            with_thousands(snapshot.mismatches), snapshot.first_mismatch);
}

}  // namespace trainwright::cli
