#pragma once
// Pipeline schedules: which rank runs which action in which order, and what that costs.
//
// A model is cut into stages 0..S-1, each held by one rank; a rank may hold several stages (its
// chunks). Every micro-batch walks through all stages forward (F) and back. The backward of a stage
// is either one action (B) or split into the gradient of its input (I), which the stage below waits
// for, and the gradient of its weights (W), which nobody waits for ("zero bubble", Qi et al. 2024).
//
//   F(s, m) needs F(s-1, m);   I or B(s, m) needs F(s, m) and I or B(s+1, m);   W(s, m) needs I(s,
//   m)
//
// A Schedule fixes the order on every rank and nothing else; time and memory follow from Costs by
// `simulate`. Nothing here knows a model: durations and sizes are arguments.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/ids.h"
#include "trainwright/base/names.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/schedule/costs.h"

namespace trainwright {

// In the letters of torch.distributed.pipelining: F I W B compute; SEND_F RECV_F SEND_B RECV_B and
// the last three, which are of a stage and have no micro-batch, appear in lowered schedules only.
enum class ActionKind : std::uint8_t {
  Forward,
  BackwardInput,
  BackwardWeight,
  Backward,
  SendForward,
  RecvForward,
  SendBackward,
  RecvBackward,
  Unshard,
  Reshard,
  ReduceGrad,
};
std::string_view letters_of(ActionKind kind);
constexpr bool computes(ActionKind kind) { return kind <= ActionKind::Backward; }

constexpr int kMaxRanks = 1 << 14, kMaxStages = 1 << 15, kMaxMicroBatches = 1 << 20;
constexpr int kMaxChunks = 64;  // of one rank

// Eight bytes. `overlaps_next` joins an action and its successor on the rank into one group whose
// members run at the same time (an OVERLAP_F_B of PyTorch: F of one micro-batch, B of another).
struct Action {
  std::int32_t microbatch = 0;  // -1 for Unshard, Reshard, ReduceGrad
  std::uint16_t stage = 0;
  ActionKind kind = ActionKind::Forward;
  bool overlaps_next = false;
  friend bool operator==(Action, Action) = default;
};
constexpr Action make_action(ActionKind kind, int stage, int microbatch) {
  return {microbatch, static_cast<std::uint16_t>(stage), kind, false};
}
std::string to_text(Action action);  // "3F0"

// Which rank holds a stage. Single: each holds one. Loop: stage mod ranks. V: down and up again
// (0..p-1, p-1..0, ...), so that every second pair of neighbours needs no transfer; with more than
// two chunks a wave.
enum class StagePlacement : std::uint8_t { Single, Loop, V };
std::span<const std::string_view> all_names(StagePlacement);  // "single", "loop", "v"
constexpr std::int64_t rank_of_stage(StagePlacement placement, std::int64_t ranks,
                                     std::int64_t stage) {
  const std::int64_t step = stage % ranks;
  const bool upwards = placement == StagePlacement::V && stage / ranks % 2 == 1;
  return upwards ? ranks - 1 - step : step;
}
struct Placement {
  int ranks = 0;
  std::vector<RankId> rank_of;  // by stage
  int stages() const { return static_cast<int>(rank_of.size()); }
  friend bool operator==(const Placement&, const Placement&) = default;
};
Placement placed(StagePlacement placement, int ranks, int chunks);
std::optional<StagePlacement> style_of(const Placement& placement);  // nullopt: none of them

struct Schedule {
  int microbatches = 0;
  Placement placement;
  std::vector<std::vector<Action>> ranks;  // by rank, in order of execution
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Checking. `check` is for compute actions: each stage lies on its rank, every micro-batch has F
// and B, or F, I and W, exactly once, in order, no dependency waits for itself across ranks, the
// last stage runs F in the order 0, 1, 2, ... (PyTorch pairs losses by position), and groups are an
// F and a B or I that do not need each other. Empty means proven. `check_lowered` adds: every
// crossing edge has its SEND and RECV between producer and consumer, pairs agree on their order,
// and no deadlock even if every SEND and RECV blocks until its partner comes. O(actions).
enum class Fault : std::uint8_t {
  Shape,
  StageOutOfRange,
  MicroBatchOutOfRange,
  WrongRank,
  Duplicate,
  MixedBackward,
  Missing,
  OutOfOrder,
  LossOrder,
  Group,
  NotCompute,
  TransferMissing,
  TransferUnneeded,
  TransferOrder,
  Deadlock,
};
std::string_view name_of(Fault fault);
struct Violation {
  Fault fault = Fault::Shape;
  RankId rank;
  std::int64_t index = -1;  // place in the rank's list, -1 for something that is not there
  Action action;
  std::string why;  // a sentence
};
std::vector<Violation> check(const Schedule& schedule, int most = 10);  // first offender first
std::vector<Violation> check_lowered(const Schedule& schedule, int most = 10);
// Adds SEND, RECV and ReduceGrad. Every transfer has one place in one global order (simulated end
// of its producer); each rank's list is a projection of it. Fails where `check` does.
Result<Schedule> lower(const Schedule& schedule, const Costs& costs);

// The clock.
enum class Transfers : std::uint8_t { Overlapped, Blocking };  // Blocking: the sender stands still
enum class Links : std::uint8_t { Unlimited, Serialised };  // one transfer at a time per (a -> b)
// PyTorch: I of stage 0 is free and W costs B; groups run in turn and send at their end; buffers of
// all micro-batches and sent tensors stay (docs/engine.md). `kept` counts the output of the stage.
enum class EngineRules : std::uint8_t { None, PyTorch };
enum class Detail : std::uint8_t { Totals, Full };
struct ClockOptions {
  Transfers transfers = Transfers::Overlapped;
  Links links = Links::Unlimited;
  EngineRules engine = EngineRules::None;
  Detail detail = Detail::Totals;
};
// Idle time counts as transfer while the awaited tensor is on its way; else as warm-up before the
// rank's first backward, drain after its last forward, steady between.
enum class Cause : std::uint8_t { WarmUp, Steady, Drain, Transfer };
std::string_view name_of(Cause cause);
struct RankTotals {  // busy + warmup + steady + drain + transfer = makespan
  Seconds busy, warmup, steady, drain, transfer;
  Bytes peak;
};
struct Span {
  Seconds start, end;
};
struct Bubble {
  Seconds start, end;
  Cause cause = Cause::Steady;
};
struct MemoryPoint {
  Seconds at;
  Bytes live;  // from then on
};
struct PathStep {  // an action of the longest chain and what it waited for
  enum class After : std::uint8_t { Nothing, Rank, Transfer } after = After::Nothing;
  RankId rank;
  std::int32_t index = 0;
};
struct Timeline {
  bool in_forwards = false;  // as Costs
  Seconds makespan;
  std::vector<RankTotals> ranks;
  // With Detail::Full only:
  std::vector<std::vector<Span>> spans;      // by rank and place in its list
  std::vector<std::vector<Bubble>> bubbles;  // by rank, in order of time
  std::vector<std::vector<MemoryPoint>> memory;
  std::vector<PathStep> critical_path;  // in order of time
};
double bubble(const Timeline& timeline);  // idle share of all ranks
Bytes peak(const Timeline& timeline);     // of the fullest rank
// The schedule must pass `check`, costs must fit its stages. O(actions).
Timeline simulate(const Schedule& schedule, const Costs& costs, const ClockOptions& options = {});

}  // namespace trainwright

// The rest of the public face, one idea each; include this header only.
#include "trainwright/schedule/auto.h"   // the best schedule under a memory cap
#include "trainwright/schedule/files.h"  // CSV in and out, traces, drawings
#include "trainwright/schedule/kinds.h"  // the known kinds of schedules and their generators
