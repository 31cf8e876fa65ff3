#pragma once
// The known kinds of pipeline schedules and their generators. Part of the public face; include
// trainwright/schedule/schedule.h.
//
// Any ranks p, micro-batches m (also m < p) and chunks v that the kind knows. Those that PyTorch
// ships come out as PyTorch's own lists wherever PyTorch accepts the arguments.
#include <optional>
#include <span>
#include <string_view>

#include "trainwright/schedule/schedule.h"

namespace trainwright {

// None: one rank, whose micro-batches follow each other. Csv: the order of a file.
// clang-format off
enum class ScheduleKind : std::uint8_t {
  None, GPipe, OneFOneB, EagerOneFOneB, InterleavedOneFOneB, LoopedBfs, ZbH1, ZbH2,
  InterleavedZeroBubble, ZbV, VHalf, VMin, ZbVpp, DualPipeV, Csv,
};
// clang-format on

// Where the order of a kind comes from. Formula: rank by rank, so that it can be streamed (see
// simulate_kind). Generator: all ranks at once. File: it is read (files.h).
enum class OrderFrom : std::uint8_t { Formula, Generator, File };

// All there is to know of a kind without making it; legality, memory, the clock and the command
// line read it here. Several chunks are at least two: with one the order has another name.
struct KindFacts {
  ScheduleKind kind;
  std::string_view name;     // "zb-h1"
  std::string_view what;     // one line
  std::string_view runs_on;  // trainers that can run it as it is
  int chunks_least, chunks_most;
  std::optional<StagePlacement> placement;  // nullopt: any
  bool splits_backward;                     // uses I and W
  bool grouped;  // micro-batches pass a chunk in groups (MakeOptions::group)
  OrderFrom order;
};
std::span<const KindFacts> all_kinds();  // by kind
std::span<const KindFacts> kinds();      // those of pipelines that `make` makes
const KindFacts& facts_of(ScheduleKind kind);
constexpr bool streams(const KindFacts& facts) { return facts.order == OrderFrom::Formula; }
std::span<const std::string_view> all_names(ScheduleKind);
Result<ScheduleKind> parse_kind(std::string_view name);  // one of `kinds()`

struct Shape {
  int ranks = 1, microbatches = 1, chunks = 1;
};
struct MakeOptions {
  // Interleaved kinds: micro-batches that a chunk runs before the next chunk does; 0 is PyTorch's
  // choice, m / max(1, m / p), with one more in the first groups where that does not divide. Else
  // at least p; a remainder shorter than p joins the last group.
  int group = 0;
  int limit = 0;  // zb-vpp: most activations kept per rank; 0 is p x chunks, the memory of 1f1b
  Costs costs;    // zb-vpp: what it places W by; no stages is F = I = W = 1, free transfers
};
// Why `make` would refuse, all at once: sizes, chunks, options.
Diagnostics faults_of(ScheduleKind kind, Shape shape, const MakeOptions& options = {});
Result<Schedule> make(ScheduleKind kind, Shape shape, const MakeOptions& options = {});
// The list of one rank, for kinds that stream: make(...).ranks[rank] without the others.
Result<std::vector<Action>> make_rank(ScheduleKind kind, Shape shape, int rank,
                                      const MakeOptions& options = {});
// The same actions with `by` forwards more in flight: each comes that much earlier, and the order
// of forwards and that of all else stays.
std::vector<Action> forwards_earlier(std::span<const Action> list, std::size_t by);
// simulate(make(...)) without the lists, for kinds that stream: O(actions) time, O(actions in
// flight) memory. Totals only.
Result<Timeline> simulate_kind(ScheduleKind kind, Shape shape, const Costs& costs,
                               const ClockOptions& clock = {}, const MakeOptions& options = {});

}  // namespace trainwright
