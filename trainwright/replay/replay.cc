#include "trainwright/replay/replay.h"

#include <algorithm>
#include <map>

#include "trainwright/base/check.h"
#include "trainwright/replay/walk.h"

namespace trainwright {
namespace detail {

PeakState state_at_peak(const Trace& trace, Bytes rounding, std::size_t peak_event, OpId peak_op) {
  PeakState state;
  if (trace.events.empty()) return state;
  TraceWalk walk(trace, rounding);
  for (std::size_t i = 0; i <= peak_event; ++i) walk.apply(trace, trace.events[i]);
  std::vector<std::int32_t> before(trace.storages.size(), -1);
  std::vector<std::int32_t> after(trace.storages.size(), -1);
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& op = trace.ops[i];
    const auto now = static_cast<std::int32_t>(i);
    for (std::size_t k = 0; k < op.reads + op.writes; ++k) {
      const std::size_t storage = trace.operands[op.operands + k].at();
      if (now <= peak_op.index()) {
        before[storage] = now;
      } else if (after[storage] < 0) {
        after[storage] = now;
      }
    }
  }
  state.death.assign(trace.storages.size(), INT32_MAX);
  std::int32_t now = -1;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::Op) now = event.subject;
    if (event.kind == TraceEvent::Kind::Free) {
      state.death[static_cast<std::size_t>(event.subject)] = now;
    }
  }
  for (std::size_t s = 0; s < trace.storages.size(); ++s) {
    if (walk.bytes[s] == 0) continue;
    const OpId maker = trace.storages[s].made_by;
    state.alive.push_back({.storage = StorageId(static_cast<std::int32_t>(s)),
                           .size = Bytes(walk.bytes[s]),
                           .kind = walk.kinds[s],
                           .made_by = maker,
                           .last_use = std::max(maker, OpId(before[s])),
                           .waits_for = OpId(after[s])});
  }
  std::sort(state.alive.begin(), state.alive.end(),
            [](const AliveStorage& a, const AliveStorage& b) {
              return a.size != b.size ? a.size > b.size : a.storage < b.storage;
            });
  return state;
}

}  // namespace detail

namespace {

// What the first pass finds.
struct Totals {
  Replay replay;
  std::size_t peak_event = 0;
};

Totals first_pass(const Trace& trace, Bytes rounding) {
  Totals totals;
  Replay& replay = totals.replay;
  detail::TraceWalk walk(trace, rounding);
  replay.live.reserve(trace.ops.size());
  replay.after.reserve(trace.ops.size());
  OpId now(-1);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.kind == TraceEvent::Kind::Op) {
      if (now.index() < 0) {
        replay.begin = Bytes(walk.live);
      } else {
        replay.after.emplace_back(walk.live);
      }
      now = OpId(event.subject);
    }
    if (event.kind == TraceEvent::Kind::Mark) {
      replay.marks.push_back({TraceTextId(event.subject), Bytes(walk.live), Bytes(walk.live)});
    }
    if (!walk.apply(trace, event)) continue;
    const Bytes live(walk.live);
    if (event.kind == TraceEvent::Kind::Op) replay.live.push_back(live);
    if (!replay.marks.empty()) {
      replay.marks.back().peak = std::max(replay.marks.back().peak, live);
    }
    if (live <= replay.peak) continue;
    replay.peak = live;
    replay.peak_op = now;
    totals.peak_event = i;
    std::transform(walk.by_kind.begin(), walk.by_kind.end(), replay.by_kind.begin(),
                   [](std::int64_t bytes) { return Bytes(bytes); });
  }
  replay.end = Bytes(walk.live);
  if (now.index() >= 0) replay.after.push_back(replay.end);
  if (now.index() < 0) replay.begin = replay.end;
  return totals;
}

std::vector<std::pair<TraceTextId, Bytes>> bytes_by_module(const Trace& trace,
                                                           const std::vector<AliveStorage>& alive) {
  std::map<TraceTextId, Bytes> sums;
  for (const AliveStorage& storage : alive) {
    sums[trace.storages[storage.storage.at()].module] += storage.size;
  }
  std::vector<std::pair<TraceTextId, Bytes>> modules(sums.begin(), sums.end());
  std::sort(modules.begin(), modules.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return modules;
}

}  // namespace

Replay replay(const Trace& trace, const ReplayOptions& options) {
  TW_CHECK(trace.frees == Frees::Recorded, "a static program is resolved before");
  const Bytes rounding = options.rounding.value_or(trace.rounding);
  Totals totals = first_pass(trace, rounding);
  Replay& result = totals.replay;
  detail::PeakState state =
      detail::state_at_peak(trace, rounding, totals.peak_event, result.peak_op);
  result.by_module = bytes_by_module(trace, state.alive);
  result.alive_count = state.alive.size();
  result.recompute = detail::recompute_options(trace, result, state, options.top);
  result.alive = std::move(state.alive);
  if (result.alive.size() > options.top) result.alive.resize(options.top);
  if (options.allocator) {
    result.reserved = detail::reserve(trace, *options.allocator, totals.peak_event);
  }
  return std::move(result);
}

}  // namespace trainwright
