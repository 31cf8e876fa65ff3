// trainwright replay: the memory of a recorded program, op by op.
#include "trainwright/cli/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <variant>

#include "trainwright/base/text.h"
#include "trainwright/cli/command.h"

namespace trainwright::cli {
namespace {

constexpr Bytes kLargestRounding = Bytes(1 << 20);

Result<std::optional<AllocatorSettings>> allocator_of(const Invocation& invocation) {
  const std::string name = invocation.text("allocator").value_or("pytorch");
  const std::vector<std::string> names = {"pytorch", "pytorch-expandable", "paddle", "none"};
  auto settings = TW_TRY(parse_allocator_settings(invocation.text("alloc-conf").value_or("")));
  if (name == "pytorch-expandable") settings.expandable_segments = true;
  if (name == "paddle") settings.strategy = AllocatorStrategy::Paddle;
  if (const auto capacity = invocation.text("capacity")) {
    settings.capacity = TW_TRY(parse_bytes(*capacity));
  }
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return fail("--allocator", fmt::format("unknown allocator '{}'", name),
                did_you_mean(name, names, fmt::format("one of {}", join(names, ", "))));
  }
  if (Diagnostics faults = check(settings); !faults.empty()) return fail(std::move(faults));
  if (name == "none") return std::optional<AllocatorSettings>();
  return std::optional(settings);
}

Result<ReplayOptions> options_of(const Invocation& invocation) {
  ReplayOptions options;
  options.allocator = TW_TRY(allocator_of(invocation));
  if (const auto rounding = invocation.text("rounding")) {
    options.rounding = TW_TRY(parse_bytes(*rounding));
    if (*options.rounding < Bytes(1) || *options.rounding > kLargestRounding) {
      return fail("--rounding", fmt::format("'{}' is out of range", *rounding),
                  "between 1B and 1MiB");
    }
  }
  const std::int64_t top = invocation.integer("top").value_or(10);
  if (top < 0 || top > 100'000) return fail("--top", "out of range", "between 0 and 100000");
  options.top = static_cast<std::size_t>(top);
  return options;
}

Result<Trace> resolved_trace(const std::string& path, const Invocation& invocation) {
  Trace trace = TW_TRY(read_trace(path));
  if (trace.program.empty()) trace.program = std::filesystem::path(path).filename().string();
  return resolve(std::move(trace),
                 invocation.flag("no-aliases") ? Aliases::Ignore : Aliases::Honour);
}

Result<Output> run_difference(const Invocation& invocation, const std::vector<std::string>& paths) {
  const ReplayOptions options = TW_TRY(options_of(invocation));
  const Trace before = TW_TRY(resolved_trace(paths[0], invocation));
  const Trace after = TW_TRY(resolved_trace(paths[1], invocation));
  const ReplayDifference changed = difference(before, after, options);
  return Output{invocation.json ? document_text(invocation.data, difference_json(changed))
                                : difference_text(changed, invocation.width)};
}

Result<Output> run_snapshot(const Invocation& invocation, const std::string& path) {
  const SnapshotReplay replayed = TW_TRY(replay_snapshot_file(path));
  return Output{invocation.json ? document_text(invocation.data, snapshot_json(replayed))
                                : snapshot_text(replayed),
                replayed.mismatches == 0 ? Exit::Ok : Exit::DoesNotFit};
}

std::string ops_form(const Invocation& invocation, const Trace& trace,
                     const std::vector<OpMemory>& ops, const std::optional<ColumnBeside>& theirs) {
  if (invocation.json) return document_text(invocation.data, ops_json(trace, ops, theirs));
  return ops_text(trace, ops, theirs, invocation.width);
}

Result<Output> run_trace(const Invocation& invocation, const std::string& path) {
  const ReplayOptions options = TW_TRY(options_of(invocation));
  const Trace trace = TW_TRY(resolved_trace(path, invocation));
  const std::vector<OpMemory> ops = op_memory(trace, options.rounding);
  std::optional<ColumnBeside> theirs;
  if (const auto column = invocation.text("beside")) {
    const MemoryColumn read = TW_TRY(read_memory_column(*column));
    theirs = TW_TRY(beside(trace, ops, read));
  }
  const Replay replayed = replay(trace, options);
  std::vector<File> files;
  if (const auto file = invocation.text("svg")) {
    files.push_back({*file, replay_svg(trace, replayed, theirs)});
  }
  if (const auto file = invocation.text("perfetto")) {
    files.push_back({*file, replay_perfetto(trace, replayed)});
  }
  if (const auto file = invocation.text("csv")) {
    files.push_back({*file, ops_csv(trace, ops, theirs)});
  }
  const bool fits = !replayed.reserved || !replayed.reserved->out_of_memory;
  const Exit exit = fits ? Exit::Ok : Exit::DoesNotFit;
  if (invocation.flag("ops") || theirs) {
    return Output{ops_form(invocation, trace, ops, theirs), exit, std::move(files)};
  }
  return Output{invocation.json ? document_text(invocation.data, replay_json(trace, replayed))
                                : replay_text(trace, replayed, invocation.width),
                exit, std::move(files)};
}

Result<Output> run_replay(const Invocation& invocation) {
  const std::vector<std::string> paths = invocation.texts("trace");
  const bool two = invocation.flag("diff");
  if (paths.size() != (two ? 2 : 1)) {
    return fail("trainwright replay", two ? "--diff compares two traces" : "one trace at a time",
                "for example: trainwright replay --diff before.jsonl after.jsonl");
  }
  if (two) return run_difference(invocation, paths);
  const std::string line = TW_TRY(first_line(paths[0]));
  if (line.find("\"trainwright_snapshot\"") != std::string::npos) {
    return run_snapshot(invocation, paths[0]);
  }
  return run_trace(invocation, paths[0]);
}

}  // namespace

Result<std::string> first_line(const std::string& path) {
  if (!is_file(path)) return fail(path, "no such file");
  std::ifstream stream(path, std::ios::binary);
  std::string line(4096, '\0');
  stream.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(stream.gcount()));
  if (line.starts_with('\x80')) {
    return fail(path, "this is a pickle, not text",
                "convert it first: python -m trainwright.engine snapshot FILE");
  }
  return line.substr(0, line.find('\n'));
}

Command replay_command() {
  return {
      .name = "replay",
      .summary = "op-by-op memory of a recorded program",
      .details =
          "Reads a trace of ops and storages (docs/trace.md) and says how many bytes are live "
          "when, what is alive at the peak and why, what would lower it, and what a caching "
          "allocator would reserve. A static program's variables die after their last use. "
          "A converted PyTorch memory snapshot is checked against the allocator model. "
          "--ops lists every operator; --beside puts another column of bytes next to it.",
      .examples = {"trainwright replay trace.jsonl",
                   "trainwright replay trace.jsonl --capacity 80GiB --svg memory.svg",
                   "trainwright replay trace.jsonl --allocator pytorch-expandable --json",
                   "trainwright replay trace.jsonl --ops --beside measured.csv --csv ops.csv",
                   "trainwright replay --diff before.jsonl after.jsonl"},
      .arguments =
          {{"trace", Argument::Kind::Texts, "trace file, or two with --diff", true, "FILE"},
           {"--allocator", Argument::Kind::Text,
            "pytorch (default), pytorch-expandable, paddle or none", false, "NAME"},
           {"--alloc-conf", Argument::Kind::Text, "settings as in PYTORCH_ALLOC_CONF", false,
            "TEXT"},
           {"--capacity", Argument::Kind::Text, "memory of the device, such as 80GiB", false,
            "SIZE"},
           {"--rounding", Argument::Kind::Text,
            "round storages up to a multiple of this, such as 512B", false, "SIZE"},
           {"--no-aliases", Argument::Kind::Flag, "static programs: no views, nothing in place"},
           {"--top", Argument::Kind::Integer, "tensors and suggestions to list (default: 10)",
            false, "N"},
           {"--diff", Argument::Kind::Flag, "what changed from the first trace to the second"},
           {"--ops", Argument::Kind::Flag,
            "every op in order: live bytes before and after, what it allocates, frees and writes "
            "into"},
           {"--beside", Argument::Kind::Text,
            "with --ops: a measured or published column (CSV: op, before or after) and where it "
            "first differs, and why",
            false, "FILE"},
           {"--csv", Argument::Kind::Text, "write the table of ops", false, "FILE"},
           {"--svg", Argument::Kind::Text, "write a picture of the live bytes", false, "FILE"},
           {"--perfetto", Argument::Kind::Text, "write counter tracks for ui.perfetto.dev", false,
            "FILE"}},
      .run = run_replay,
  };
}

}  // namespace trainwright::cli
