#include <fmt/format.h>

#include <algorithm>

#include "trainwright/schedule/clock.h"

namespace trainwright {
namespace {

// One tensor that crosses ranks.
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
  std::vector<std::vector<double>> ends;  // by rank and place
  std::int64_t visits = 0;

  TransferRecord(const Schedule& lists, const detail::Pricing& prices)
      : schedule(lists), pricing(prices), ends(lists.ranks.size()) {}

  void action(std::size_t rank, Action action, double, double end, PathStep::After) {
    auto place = static_cast<std::int32_t>(ends[rank].size());
    ends[rank].push_back(end);
    ++visits;
    if (action.kind == ActionKind::BackwardWeight) return;
    const std::size_t way = action.kind == ActionKind::Forward ? 0 : 1;
    if (pricing.stages[action.stage].link[way] < 0) return;
    while (schedule.ranks[rank][static_cast<std::size_t>(place)].overlaps_next) ++place;
    transfers.push_back({end, visits, action, place});
  }
  void memory(std::size_t, double, std::int64_t) {}
  void bubble(std::size_t, double, double, Cause) {}
};

// A SEND or RECV and the compute action it must follow (-1: it may stand first).
struct Placed {
  Action action;
  std::int32_t after = -1;
};

// A RECV stands before the action that runs on its rank when the tensor is ready, so that the
// transfer is hidden behind it and holds up no earlier SEND; at the latest before its consumer.
std::int32_t receive_after(const TransferRecord& record, std::size_t rank, double ready,
                           std::int32_t consumer) {
  const auto& list = record.schedule.ranks[rank];
  while (consumer > 0 && list[static_cast<std::size_t>(consumer) - 1].overlaps_next) --consumer;
  const auto& ends = record.ends[rank];
  const auto running = std::upper_bound(ends.begin(), ends.end(), ready) - ends.begin();
  return std::min(consumer, static_cast<std::int32_t>(running)) - 1;
}

std::vector<std::vector<Placed>> project(const TransferRecord& record) {
  const Schedule& schedule = record.schedule;
  const std::vector<std::int32_t> position = detail::positions(schedule);
  std::vector<std::vector<Placed>> by_rank(schedule.ranks.size());
  for (const Transfer& transfer : record.transfers) {
    const Action made = transfer.producer;
    const bool forward = made.kind == ActionKind::Forward;
    const auto target = static_cast<std::size_t>(forward ? made.stage + 1 : made.stage - 1);
    const std::size_t receiver = schedule.placement.rank_of[target].at();
    const std::size_t pair = target * static_cast<std::size_t>(schedule.microbatches) +
                             static_cast<std::size_t>(made.microbatch);
    by_rank[schedule.placement.rank_of[made.stage].at()].push_back(
        {make_action(forward ? ActionKind::SendForward : ActionKind::SendBackward, made.stage,
                     made.microbatch),
         transfer.after});
    by_rank[receiver].push_back(
        {make_action(forward ? ActionKind::RecvForward : ActionKind::RecvBackward,
                     static_cast<int>(target), made.microbatch),
         receive_after(record, receiver, transfer.end, position[pair * 2 + (forward ? 0 : 1)])});
  }
  for (auto& placed : by_rank) {  // a RECV makes room for one that must stand earlier
    for (std::size_t i = placed.size(); i-- > 1;) {
      if (placed[i - 1].action.kind == ActionKind::RecvForward ||
          placed[i - 1].action.kind == ActionKind::RecvBackward) {
        placed[i - 1].after = std::min(placed[i - 1].after, placed[i].after);
      }
    }
  }
  return by_rank;
}

// Merges compute actions and transfers; a transfer stands where it asks to, or later because of one
// before it. A RECV is in time nevertheless: a SEND before it has a producer that ended no later
// than the RECV's own, thus before the RECV's consumer starts.
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
  const auto placed = project(record);
  Schedule lowered{schedule.microbatches, schedule.placement, {}};
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    lowered.ranks.push_back(merge(schedule, rank, placed[rank]));
  }
  return lowered;
}

}  // namespace trainwright
