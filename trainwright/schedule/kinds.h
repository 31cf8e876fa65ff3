#pragma once
// The known kinds of pipeline schedules and their generators. Part of the public face; include
// trainwright/schedule/schedule.h.
//
// Any ranks p, micro-batches m (also m < p) and chunks v that the kind knows. Those that PyTorch
// ships come out as PyTorch's own lists wherever PyTorch accepts the arguments.
#include <span>
#include <string_view>

#include "trainwright/schedule/schedule.h"

namespace trainwright {

enum class Kind : std::uint8_t {
  GPipe,
  OneFOneB,
  EagerOneFOneB,
  InterleavedOneFOneB,
  LoopedBfs,
  ZbH1,
  ZbH2,
  InterleavedZeroBubble,
  ZbV,
  VHalf,
  VMin,
  ZbVpp,
  DualPipeV,
};
struct KindFacts {
  Kind kind;
  std::string_view name;     // "zb-h1"
  std::string_view what;     // one line
  std::string_view runs_on;  // trainers that can run it as it is
  int chunks_least, chunks_most;
  PlacementStyle placement;
  bool splits_backward;  // uses I and W
  bool streams;          // has a closed order, see simulate_kind
};
std::span<const KindFacts> kinds();
const KindFacts& facts_of(Kind kind);
Result<Kind> parse_kind(std::string_view name);

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
Result<Schedule> make(Kind kind, Shape shape, const MakeOptions& options = {});
// The list of one rank, for kinds that stream: make(...).ranks[rank] without the others.
Result<std::vector<Action>> make_rank(Kind kind, Shape shape, int rank,
                                      const MakeOptions& options = {});
// simulate(make(...)) without the lists, for kinds that stream: O(actions) time, O(actions in
// flight) memory. Totals only.
Result<Timeline> simulate_kind(Kind kind, Shape shape, const Costs& costs,
                               const ClockOptions& clock = {}, const MakeOptions& options = {});

}  // namespace trainwright
