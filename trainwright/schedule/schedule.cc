#include "trainwright/schedule/schedule.h"

#include <algorithm>

#include "trainwright/base/check.h"

namespace trainwright {

std::string_view letters_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward: return "F";
    case ActionKind::BackwardInput: return "I";
    case ActionKind::BackwardWeight: return "W";
    case ActionKind::Backward: return "B";
    case ActionKind::SendForward: return "SEND_F";
    case ActionKind::RecvForward: return "RECV_F";
    case ActionKind::SendBackward: return "SEND_B";
    case ActionKind::RecvBackward: return "RECV_B";
    case ActionKind::Unshard: return "UNSHARD";
    case ActionKind::Reshard: return "RESHARD";
    case ActionKind::ReduceGrad: return "REDUCE_GRAD";
  }
  TW_CHECK(false, "an action kind without letters");
}

std::string to_text(Action action) {
  std::string text = std::to_string(action.stage);
  text += letters_of(action.kind);
  if (action.microbatch >= 0) text += std::to_string(action.microbatch);
  return text;
}

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::Shape: return "shape";
    case Fault::StageOutOfRange: return "stage out of range";
    case Fault::MicroBatchOutOfRange: return "micro-batch out of range";
    case Fault::WrongRank: return "wrong rank";
    case Fault::Duplicate: return "duplicate";
    case Fault::MixedBackward: return "mixed backward";
    case Fault::Missing: return "missing";
    case Fault::OutOfOrder: return "out of order";
    case Fault::LossOrder: return "loss order";
    case Fault::Group: return "group";
    case Fault::NotCompute: return "not a compute action";
    case Fault::TransferMissing: return "transfer missing";
    case Fault::TransferUnneeded: return "transfer unneeded";
    case Fault::TransferOrder: return "transfer order";
    case Fault::Deadlock: return "deadlock";
  }
  TW_CHECK(false, "a fault without a name");
}

std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::WarmUp: return "warm-up";
    case Cause::Steady: return "steady";
    case Cause::Drain: return "drain";
    case Cause::Transfer: return "transfer";
  }
  TW_CHECK(false, "a cause without a name");
}

std::span<const std::string_view> all_names(StagePlacement) {
  static constexpr std::string_view kNames[] = {"single", "loop", "v"};
  return kNames;
}

Placement placed(StagePlacement placement, int ranks, int chunks) {
  Placement made{ranks, {}};
  for (int stage = 0; stage < ranks * chunks; ++stage) {
    made.rank_of.push_back(
        RankId(static_cast<std::int32_t>(rank_of_stage(placement, ranks, stage))));
  }
  return made;
}

std::optional<StagePlacement> style_of(const Placement& placement) {
  if (placement.ranks < 1 || placement.stages() % placement.ranks != 0) return std::nullopt;
  const int chunks = placement.stages() / placement.ranks;
  for (const StagePlacement style : {StagePlacement::Loop, StagePlacement::V}) {
    if (placement != placed(style, placement.ranks, chunks)) continue;
    return chunks == 1 ? StagePlacement::Single : style;
  }
  return std::nullopt;
}

Costs even_costs(int stages, Seconds forward, Seconds backward_input, Seconds backward_weight,
                 Seconds transfer) {
  TW_CHECK(stages >= 1, "costs need a stage");
  const StageCosts stage{forward,         backward_input,
                         backward_weight, backward_input + backward_weight,
                         Bytes(1),        Bytes(0)};
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(stages), stage);
  costs.boundaries.assign(static_cast<std::size_t>(stages - 1), {transfer, transfer, Bytes(0)});
  return costs;
}

double bubble(const Timeline& timeline) {
  if (timeline.makespan.value() <= 0 || timeline.ranks.empty()) return 0;
  Seconds busy;
  for (const RankTotals& rank : timeline.ranks) busy += rank.busy;
  return 1 - busy / (timeline.makespan * static_cast<double>(timeline.ranks.size()));
}

Bytes peak(const Timeline& timeline) {
  Bytes most;
  for (const RankTotals& rank : timeline.ranks) most = std::max(most, rank.peak);
  return most;
}

}  // namespace trainwright
