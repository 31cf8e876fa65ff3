#include "trainwright/measured/orders.h"

#include <algorithm>

namespace trainwright::detail {

Schedule with_more_in_flight(const Schedule& schedule, const std::vector<std::int64_t>& more) {
  Schedule shifted = schedule;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::size_t chunks =
        static_cast<std::size_t>(schedule.placement.stages()) / schedule.ranks.size();
    const std::int64_t by = std::max<std::int64_t>(0, rank < more.size() ? more[rank] : 0);
    shifted.ranks[rank] =
        forwards_earlier(schedule.ranks[rank], chunks * static_cast<std::size_t>(by));
  }
  return shifted;
}

Schedule first_weights_last(const Schedule& one_f_one_b) {
  Schedule made = one_f_one_b;
  const auto ranks = static_cast<int>(made.ranks.size());
  const int last = made.microbatches - 1;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& list = made.ranks[static_cast<std::size_t>(rank)];
    list.clear();
    int forward = 0;
    const auto add = [&](ActionKind kind, int microbatch) {
      list.push_back(make_action(kind, rank, microbatch));
    };
    while (forward < std::min(ranks - rank, made.microbatches)) add(ActionKind::Forward, forward++);
    for (int backward = 0; backward < made.microbatches; ++backward) {
      const bool split = backward < rank || (backward == last && rank > 0);
      add(split ? ActionKind::BackwardInput : ActionKind::Backward, backward);
      if (forward < made.microbatches) add(ActionKind::Forward, forward++);
    }
    if (rank > 0 && last >= rank) add(ActionKind::BackwardWeight, last);
    for (int i = 0; i < std::min(rank, made.microbatches); ++i) add(ActionKind::BackwardWeight, i);
  }
  return made;
}

namespace {

// Micro-batches in flight beyond those of 1F1B, where rank r of p holds p - r.
std::vector<std::int64_t> more_in_flight(const Json& order, std::int64_t pp) {
  if (const Json* more = order.find("more"); more != nullptr) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(pp), more->integer);
  }
  std::vector<std::int64_t> more;
  const Json* limit = order.find("up_to");
  for (std::int64_t rank = 0; rank < pp && limit != nullptr; ++rank) {
    more.push_back(limit->integer - (pp - rank));
  }
  return more;
}

}  // namespace

Result<Schedule> order_of(const Json& order, const Layout& layout) {
  const std::int64_t microbatches = micro_batch_count(layout);
  if (layout.pp > kMaxRanks || microbatches < 1 || microbatches > kMaxMicroBatches) {
    return fail("pp", "more ranks or micro-batches than a schedule has");
  }
  const ScheduleKind kind =
      layout.schedule == ScheduleKind::VHalf ? ScheduleKind::VHalf : ScheduleKind::OneFOneB;
  const Shape shape{static_cast<int>(layout.pp), static_cast<int>(microbatches),
                    static_cast<int>(layout.vpp)};
  const Schedule schedule = TW_TRY(make(kind, shape));
  if (order.find("weights_last") != nullptr) return first_weights_last(schedule);
  return with_more_in_flight(schedule, more_in_flight(order, layout.pp));
}

}  // namespace trainwright::detail
