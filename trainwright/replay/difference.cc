// What two programs differ in.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "trainwright/replay/replay.h"

namespace trainwright {
namespace {

using Sums = std::map<std::string, std::int64_t>;
using Change = ReplayDifference::Change;

std::string text_or(const Trace& trace, TraceTextId text, const char* otherwise) {
  return text.index() < 0 ? otherwise : trace.texts[text.at()];
}

std::vector<Change> changes(const Sums& before, const Sums& after) {
  std::map<std::string, Change> all;
  for (const auto& [what, value] : before) all[what] = {what, value, 0};
  for (const auto& [what, value] : after) {
    all.try_emplace(what, Change{what, 0, 0}).first->second.after = value;
  }
  std::vector<Change> changed;
  for (const auto& [what, change] : all) {
    if (change.before != change.after) changed.push_back(change);
  }
  std::sort(changed.begin(), changed.end(), [](const Change& a, const Change& b) {
    const std::int64_t by_a = std::abs(a.after - a.before);
    const std::int64_t by_b = std::abs(b.after - b.before);
    return by_a != by_b ? by_a > by_b : a.what < b.what;
  });
  return changed;
}

struct Summary {
  std::int64_t peak = 0;
  Sums kinds, modules, makers, tensors, ops;
};

// A tensor's place in its program, which another program may have too: "model.layers.0.mlp: mm 2
// (forward)" is what the second mm of that module's forward made. Storages have no names of their
// own, and numbers of ops shift with every change before them.
class TensorNames {
 public:
  explicit TensorNames(const Trace& trace) : trace_(trace), turn_(trace.ops.size()) {
    std::map<std::tuple<TraceTextId, TraceTextId, Phase>, std::int64_t> seen;
    for (std::size_t i = 0; i < trace.ops.size(); ++i) {
      const TraceOp& op = trace.ops[i];
      turn_[i] = ++seen[{op.module, op.name, op.phase}];
    }
  }

  std::string of(const AliveStorage& alive) const {
    if (alive.made_by.index() < 0) {
      const Storage& storage = trace_.storages[alive.storage.at()];
      return text_or(trace_, storage.name, "(before the first op)");
    }
    const TraceOp& op = trace_.ops[alive.made_by.at()];
    const std::int32_t output = alive.storage.index() - op.made_first.index();
    return text_or(trace_, op.module, "(no module)") + ": " +
           text_or(trace_, op.name, "(unnamed)") + " " + std::to_string(turn_[alive.made_by.at()]) +
           (op.made > 1 ? "." + std::to_string(output + 1) : "") + " (" +
           std::string(name_of(op.phase)) + ")";
  }

 private:
  const Trace& trace_;
  std::vector<std::int64_t> turn_;  // by op: the n-th of its name in its module and phase
};

Summary summary_of(const Trace& trace, ReplayOptions options) {
  options.top = SIZE_MAX;  // all that is alive
  options.allocator.reset();
  const Replay replayed = replay(trace, options);
  Summary summary{.peak = replayed.peak.value(),
                  .kinds = {},
                  .modules = {},
                  .makers = {},
                  .tensors = {},
                  .ops = {}};
  for (std::size_t kind = 0; kind < kStorageKinds; ++kind) {
    summary.kinds[std::string(name_of(static_cast<StorageKind>(kind)))] =
        replayed.by_kind[kind].value();
  }
  for (const auto& [module, bytes] : replayed.by_module) {
    summary.modules[text_or(trace, module, "(no module)")] += bytes.value();
  }
  const TensorNames names(trace);
  for (const AliveStorage& alive : replayed.alive) {
    summary.tensors[names.of(alive)] += alive.size.value();
    const bool made = alive.made_by.index() >= 0;
    summary.makers[made ? text_or(trace, trace.ops[alive.made_by.at()].name, "(unnamed)")
                        : "(before the first op)"] += alive.size.value();
  }
  for (const TraceOp& op : trace.ops) ++summary.ops[text_or(trace, op.name, "(unnamed)")];
  return summary;
}

}  // namespace

ReplayDifference difference(const Trace& a, const Trace& b, const ReplayOptions& options) {
  const Summary before = summary_of(a, options);
  const Summary after = summary_of(b, options);
  return {.peak = {"peak", before.peak, after.peak},
          .kinds = changes(before.kinds, after.kinds),
          .modules = changes(before.modules, after.modules),
          .makers = changes(before.makers, after.makers),
          .tensors = changes(before.tensors, after.tensors),
          .ops = changes(before.ops, after.ops)};
}

}  // namespace trainwright
