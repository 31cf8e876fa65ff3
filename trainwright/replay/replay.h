#pragma once
// Liveness of a recorded or static list of ops: what is alive when, and why.
//
// A Trace (docs/trace.md) lists ops in order with the storages each reads, writes and makes, and
// where each storage dies. Replaying it counts:
//
//   live after the makings of op i = sum of the sizes of the storages made so far and not yet freed
//   peak                           = the first strict maximum of that, over all ops
//
// Storages die where the trace says (recorded programs: exact), or after the last op that names
// them (static programs, the way a static-graph executor frees). The same events can be sent
// through a model of a caching allocator, which gives the reserved bytes: what must fit on the
// device.
//
// Everything is linear in the length of the trace.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainwright/allocator/allocator.h"
#include "trainwright/base/ids.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"

namespace trainwright {

using OpId = Id<struct TraceOpTag>;       // the n-th op of a trace; -1: outside any op
using StorageId = Id<struct StorageTag>;  // the n-th storage of a trace
using TraceTextId = Id<struct TextTag>;   // the n-th string of a trace; -1: none

enum class Phase : std::uint8_t { Forward, Backward, Recompute, Optimizer, Other };
enum class StorageKind : std::uint8_t {
  Parameter,
  Buffer,
  Gradient,
  Optimizer,
  Activation,
  Temporary,
  Input,
  Other
};
constexpr std::size_t kStorageKinds = 8;
using BytesByKind = std::array<Bytes, kStorageKinds>;

std::string_view name_of(Phase phase);       // "forward", ...
std::string_view name_of(StorageKind kind);  // "parameter", ...

struct TraceOp {
  TraceTextId name, module;
  Phase phase = Phase::Forward;
  StreamId stream;
  std::uint32_t operands = 0;  // where its reads, then its writes begin in Trace::operands
  std::uint32_t reads = 0, writes = 0;
  StorageId made_first;  // it makes the `made` storages from here on
  std::uint32_t made = 0;
  double flops = 0;  // 0: unknown
};

struct Storage {
  Bytes size;            // when made
  TraceTextId name{-1};  // of a storage that exists outside any op
  TraceTextId module{-1};
  OpId made_by{-1};
  StorageKind kind = StorageKind::Activation;  // when made
};

// What happened, in order. Which fields mean something depends on the kind.
struct TraceEvent {
  enum class Kind : std::uint8_t {
    Op,
    Free,
    Relabel,
    Resize,
    Exist,
    Mark,
    View,
    InPlace,
    Persist,
    Use,
    Done
  };
  Kind kind = Kind::Op;
  StorageKind label = StorageKind::Other;  // Relabel
  std::int32_t subject = 0;                // the op, the storage, the mark's text, the stream
  std::int64_t value = 0;                  // Resize: bytes; View, InPlace: of; Use: stream
};

enum class Frees { Recorded, LastUse };

struct Trace {
  std::string program, device;
  Bytes rounding = Bytes(1);
  Frees frees = Frees::Recorded;
  std::vector<std::string> texts;
  std::vector<TraceOp> ops;
  std::vector<StorageId> operands;
  std::vector<Storage> storages;
  std::vector<TraceEvent> events;
};

// Reads a trace line by line; memory is that of the Trace, not of the file. Every number is
// checked: what is returned can be replayed without further checks. At most 20 faults are gathered.
Result<Trace> read_trace(const std::string& path);
Result<Trace> parse_trace(std::string_view text, std::string_view origin);
std::string to_text(const Trace& trace);  // reads back to the same Trace

enum class Aliases { Honour, Ignore };  // views and in-place pairs of static programs

// A static program as a recorded one: every storage dies after the last op that names it, or any
// variable that shares it. A recorded trace comes back as it is. In-place pairs are taken when the
// op is the last to use the input's storage and the output has its size.
Trace resolve(Trace trace, Aliases aliases = Aliases::Honour);

struct ReplayOptions {
  std::optional<Bytes> rounding = std::nullopt;               // instead of the trace's own
  std::optional<AllocatorSettings> allocator = std::nullopt;  // none: live bytes only
  std::size_t top = 10;                                       // tensors and suggestions to list
};

// A storage alive at the peak, and why it is there.
struct AliveStorage {
  StorageId storage;
  Bytes size;
  StorageKind kind = StorageKind::Other;
  OpId made_by{-1};
  OpId last_use{-1};   // the last op up to the peak that read or wrote it
  OpId waits_for{-1};  // the first op after the peak that does; -1: none does
};

// Dropping the outputs of one kind of op after their last use before the peak and making them again
// when they are next needed. An estimate: memory of the making again is not added, and an input
// that was overwritten in place since is taken to be still there.
struct RecomputeOption {
  TraceTextId maker;          // the op's name
  std::int64_t storages = 0;  // how many of its outputs wait at the peak
  Bytes size;                 // of these
  Bytes saved;                // of the peak: less when another moment becomes the peak
  std::int64_t ops = 0;       // to run again: the makers, and makers of inputs that are gone
  Bytes traffic;              // what these ops read and write
  std::optional<Flops> work;  // when the trace has it for every one of them
};

struct MarkBytes {
  TraceTextId text;
  Bytes live, peak;  // at the mark; the most from it to the next mark
};

struct ReservedBytes {
  AllocatorStats stats;               // at the end, with the peaks
  Bytes at_live_peak;                 // reserved when the live bytes peaked
  std::optional<OpId> out_of_memory;  // the op whose allocation failed; the replay goes on
  std::string message;                // of that failure
  std::vector<Bytes> after_op;        // as Replay::live
};

struct Replay {
  Bytes peak;
  OpId peak_op{-1};          // -1: before the first op
  Bytes begin, end;          // live before the first op and at the end
  std::vector<Bytes> live;   // right after each op made its storages
  std::vector<Bytes> after;  // when the next op begins: what died in between is gone
  BytesByKind by_kind;       // at the peak
  std::vector<std::pair<TraceTextId, Bytes>> by_module;  // at the peak, largest first
  std::vector<AliveStorage> alive;         // at the peak, largest first, at most `top`
  std::size_t alive_count = 0;             // how many storages were alive at the peak
  std::vector<RecomputeOption> recompute;  // most saved first, at most `top`
  std::vector<MarkBytes> marks;
  std::optional<ReservedBytes> reserved;
};

// Of a resolved trace.
Replay replay(const Trace& trace, const ReplayOptions& options = {});

// What two replays differ in; every list is ordered by the size of the change.
struct ReplayDifference {
  struct Change {
    std::string what;
    std::int64_t before = 0, after = 0;  // bytes at the peak, or number of ops
  };
  Change peak;
  std::vector<Change> kinds, modules, makers, tensors, ops;  // makers: by name of the op
};
ReplayDifference difference(const Trace& a, const Trace& b, const ReplayOptions& options = {});

// A PyTorch memory snapshot (docs/trace.md): the allocs and frees are sent through the model, whose
// segment events should be those of the snapshot.
struct SnapshotReplay {
  std::int64_t allocations = 0, frees = 0, segment_events = 0, mismatches = 0;
  std::string first_mismatch;  // in words, with the line
  Bytes reserved_peak_recorded, reserved_peak_modelled, allocated_peak;
  BytesByKind by_kind{};  // at the latter; where no kind is told, other
};
Result<SnapshotReplay> replay_snapshot(std::string_view text, std::string_view origin);
Result<SnapshotReplay> replay_snapshot_file(const std::string& path);

}  // namespace trainwright
