#include <fmt/format.h>

#include <algorithm>

#include "trainwright/schedule/clock.h"

namespace trainwright {
namespace {

// One tensor that crosses ranks: where it is made and where it is used.
struct Transfer {
  double end = 0;          // simulated end of the producer
  std::int64_t visit = 0;  // breaks ties along dependencies: a producer comes before its consumer
  Action producer;
  std::int32_t after = 0;  // place of the producer, or of the last member of its group
};

struct TransferRecord {
  const Schedule& schedule;
  const detail::Pricing& pricing;
  std::vector<Transfer> transfers;
  std::vector<std::int32_t> position;
  std::int64_t visits = 0;

  TransferRecord(const Schedule& lists, const detail::Pricing& prices)
      : schedule(lists), pricing(prices), position(lists.ranks.size(), 0) {}

  void action(std::size_t rank, Action action, double, double end, PathStep::After) {
    std::int32_t place = position[rank]++;
    ++visits;
    if (action.kind == ActionKind::BackwardWeight) return;
    const std::size_t way = action.kind == ActionKind::Forward ? 0 : 1;
    if (pricing.stages[action.stage].link[way] < 0) return;
    while (schedule.ranks[rank][static_cast<std::size_t>(place)].overlaps_next) ++place;
    transfers.push_back({end, visits, action, place});
  }
  void memory(std::size_t, double, std::int64_t) {}
};

// A SEND or RECV and the compute action it must follow (-1: it may stand first).
struct Placed {
  Action action;
  std::int32_t after = -1;
};

std::vector<std::vector<Placed>> project(const Schedule& schedule,
                                         const std::vector<Transfer>& transfers) {
  std::vector<std::vector<Placed>> by_rank(schedule.ranks.size());
  for (const Transfer& transfer : transfers) {
    const Action made = transfer.producer;
    const bool forward = made.kind == ActionKind::Forward;
    const int target = forward ? made.stage + 1 : made.stage - 1;
    auto& sender = by_rank[schedule.placement.rank_of[made.stage].at()];
    auto& receiver = by_rank[schedule.placement.rank_of[static_cast<std::size_t>(target)].at()];
    sender.push_back({make_action(forward ? ActionKind::SendForward : ActionKind::SendBackward,
                                  made.stage, made.microbatch),
                      transfer.after});
    receiver.push_back({make_action(forward ? ActionKind::RecvForward : ActionKind::RecvBackward,
                                    target, made.microbatch),
                        -1});
  }
  return by_rank;
}

// Merges compute actions and transfers, every transfer as early as its producer and the transfers
// before it allow. A RECV is then always in time: if a SEND stands before it, that SEND's producer
// ended no later than the RECV's, thus before the RECV's consumer starts.
std::vector<Action> merge(const Schedule& schedule, std::size_t rank,
                          const std::vector<Placed>& placed) {
  const auto& list = schedule.ranks[rank];
  std::vector<std::int32_t> last(schedule.placement.rank_of.size(), -1);  // last W or B by stage
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].kind == ActionKind::BackwardWeight || list[i].kind == ActionKind::Backward) {
      last[list[i].stage] = static_cast<std::int32_t>(i);
    }
  }
  std::vector<Action> merged;
  merged.reserve(list.size() + placed.size() + 8);
  std::size_t next = 0;
  const auto flush = [&](std::int32_t done) {
    while (next < placed.size() && placed[next].after <= done) {
      merged.push_back(placed[next++].action);
    }
  };
  flush(-1);
  std::vector<Action> reduced;
  for (std::size_t i = 0; i < list.size(); ++i) {
    merged.push_back(list[i]);
    if (last[list[i].stage] == static_cast<std::int32_t>(i)) {
      reduced.push_back(make_action(ActionKind::ReduceGrad, list[i].stage, -1));
    }
    if (list[i].overlaps_next) continue;
    flush(static_cast<std::int32_t>(i));
    merged.insert(merged.end(), reduced.begin(), reduced.end());
    reduced.clear();
  }
  return merged;
}

}  // namespace

Result<Schedule> lower(const Schedule& schedule, const Costs& costs) {
  const std::vector<Violation> violations = check(schedule);
  if (!violations.empty()) {
    Diagnostics diagnostics;
    for (const Violation& violation : violations) {
      diagnostics.push_back(
          {fmt::format("rank {}, action {}", violation.rank.index(), violation.index),
           violation.why,
           {}});
    }
    return fail(std::move(diagnostics));
  }
  if (costs.stages.size() != schedule.placement.rank_of.size() ||
      costs.boundaries.size() + 1 != costs.stages.size()) {
    return fail("costs", "they are for another number of stages");
  }
  const detail::Pricing pricing =
      detail::price(schedule.placement, schedule.microbatches, costs, {});
  detail::ListOrders orders(schedule);
  detail::TableMail mail(schedule.placement.stages(), schedule.microbatches);
  TransferRecord record(schedule, pricing);
  detail::Clock clock(pricing, orders, mail, record);
  clock.run();
  std::sort(record.transfers.begin(), record.transfers.end(),
            [](const Transfer& a, const Transfer& b) {
              return a.end != b.end ? a.end < b.end : a.visit < b.visit;
            });
  const auto placed = project(schedule, record.transfers);
  Schedule lowered{schedule.microbatches, schedule.placement, {}};
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    lowered.ranks.push_back(merge(schedule, rank, placed[rank]));
  }
  return lowered;
}

}  // namespace trainwright
