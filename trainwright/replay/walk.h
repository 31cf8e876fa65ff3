#pragma once
// One pass over the events of a resolved trace, keeping for each storage its bytes and kind.
// Private to the module.
#include <vector>

#include "trainwright/base/units.h"
#include "trainwright/replay/replay.h"

namespace trainwright::detail {

struct TraceWalk {
  std::int64_t rounding = 1;
  std::vector<std::int64_t> bytes;  // by storage, rounded; 0 before it is made and after it died
  std::vector<StorageKind> kinds;   // by storage
  std::int64_t live = 0;
  std::array<std::int64_t, kStorageKinds> by_kind{};

  TraceWalk(const Trace& trace, Bytes round)
      : rounding(round.value()),
        bytes(trace.storages.size(), 0),
        kinds(trace.storages.size(), StorageKind::Other) {}

  std::int64_t rounded(std::int64_t size) const { return ceil_div(size, rounding) * rounding; }

  void set(std::size_t storage, std::int64_t size) {
    const std::int64_t change = size - bytes[storage];
    bytes[storage] = size;
    live += change;
    by_kind[static_cast<std::size_t>(kinds[storage])] += change;
  }

  void make(const Trace& trace, std::size_t storage) {
    kinds[storage] = trace.storages[storage].kind;
    set(storage, rounded(trace.storages[storage].size.value()));
  }

  void relabel(std::size_t storage, StorageKind kind) {
    by_kind[static_cast<std::size_t>(kinds[storage])] -= bytes[storage];
    by_kind[static_cast<std::size_t>(kind)] += bytes[storage];
    kinds[storage] = kind;
  }

  // True when the event may have made the live bytes more than ever before.
  bool apply(const Trace& trace, const TraceEvent& event) {
    const auto subject = static_cast<std::size_t>(event.subject);
    switch (event.kind) {
      case TraceEvent::Kind::Op: {
        const TraceOp& op = trace.ops[subject];
        for (std::size_t i = 0; i < op.made; ++i) make(trace, op.made_first.at() + i);
        return true;
      }
      case TraceEvent::Kind::Exist: make(trace, subject); return true;
      case TraceEvent::Kind::Resize: set(subject, rounded(event.value)); return true;
      case TraceEvent::Kind::Free: set(subject, 0); return false;
      case TraceEvent::Kind::Relabel: relabel(subject, event.label); return false;
      case TraceEvent::Kind::Mark:
      case TraceEvent::Kind::View:
      case TraceEvent::Kind::InPlace:
      case TraceEvent::Kind::Persist:
      case TraceEvent::Kind::Use:
      case TraceEvent::Kind::Done: return false;
    }
    return false;
  }
};

// Everything alive at the peak, largest first, with its uses around the peak; `death` is filled
// with the op after which each storage dies (INT32_MAX: it does not).
struct PeakState {
  std::vector<AliveStorage> alive;
  std::vector<std::int32_t> death;
};
PeakState state_at_peak(const Trace& trace, Bytes rounding, std::size_t peak_event, OpId peak_op);

// What would lower the peak (recompute.cc).
std::vector<RecomputeOption> recompute_options(const Trace& trace, const Replay& replay,
                                               const PeakState& state, std::size_t most);

// The trace through a model of an allocator (reserve.cc).
ReservedBytes reserve(const Trace& trace, const AllocatorSettings& settings,
                      std::size_t peak_event);

}  // namespace trainwright::detail
