#include <fmt/format.h>

#include <array>

#include "trainwright/schedule/clock.h"
#include "trainwright/schedule/violations.h"

namespace trainwright {
namespace detail {
namespace {

constexpr std::uint8_t bit(ActionKind kind) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind));
}
constexpr std::uint8_t kFused = bit(ActionKind::Forward) | bit(ActionKind::Backward);
constexpr std::uint8_t kSplit =
    bit(ActionKind::Forward) | bit(ActionKind::BackwardInput) | bit(ActionKind::BackwardWeight);

// The kinds seen so far, one byte per stage and micro-batch.
class Seen {
 public:
  explicit Seen(const Schedule& schedule)
      : microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        kinds_(schedule.placement.rank_of.size() * microbatches_) {}
  std::uint8_t& at(std::size_t stage, std::size_t microbatch) {
    return kinds_[stage * microbatches_ + microbatch];
  }
  std::uint8_t& at(Action action) {
    return at(action.stage, static_cast<std::size_t>(action.microbatch));
  }

 private:
  std::size_t microbatches_;
  std::vector<std::uint8_t> kinds_;
};

// Whether the ids of an action can be looked up at all.
bool check_ids(const Schedule& schedule, std::size_t rank, std::size_t index, Violations& found) {
  const Action action = schedule.ranks[rank][index];
  const int stages = schedule.placement.stages();
  if (!computes(action.kind)) {
    found.add(Fault::NotCompute, rank, index, action,
              fmt::format("{} is not a compute action", letters_of(action.kind)));
  } else if (action.stage >= stages) {
    found.add(
        Fault::StageOutOfRange, rank, index, action,
        fmt::format("there is no stage {}, the schedule has {} stages", action.stage, stages));
  } else if (action.microbatch < 0 || action.microbatch >= schedule.microbatches) {
    found.add(Fault::MicroBatchOutOfRange, rank, index, action,
              fmt::format("there is no micro-batch {}, the schedule has {}", action.microbatch,
                          schedule.microbatches));
  } else if (schedule.placement.rank_of[action.stage].at() != rank) {
    found.add(Fault::WrongRank, rank, index, action,
              fmt::format("stage {} lies on rank {}", action.stage,
                          schedule.placement.rank_of[action.stage].index()));
  } else {
    return true;
  }
  return false;
}

// What must have been seen on the rank before, and must not.
void check_history(std::size_t rank, std::size_t index, Action action, std::uint8_t seen,
                   Violations& found) {
  const bool forward = (seen & bit(ActionKind::Forward)) != 0;
  const bool input = (seen & bit(ActionKind::BackwardInput)) != 0;
  const std::uint8_t other = action.kind == ActionKind::Backward
                                 ? bit(ActionKind::BackwardInput) | bit(ActionKind::BackwardWeight)
                                 : bit(ActionKind::Backward);
  if ((seen & bit(action.kind)) != 0) {
    found.add(Fault::Duplicate, rank, index, action, "the same action came before");
  } else if (action.kind != ActionKind::Forward && (seen & other) != 0) {
    found.add(Fault::MixedBackward, rank, index, action,
              "this micro-batch has a full backward B as well as a split one (I, W)");
  } else if (is_backward(action.kind) && !forward) {
    found.add(
        Fault::OutOfOrder, rank, index, action,
        fmt::format("{} has not run before it",
                    to_text(make_action(ActionKind::Forward, action.stage, action.microbatch))));
  } else if (action.kind == ActionKind::BackwardWeight && !input) {
    found.add(Fault::OutOfOrder, rank, index, action,
              fmt::format("{} has not run before it",
                          to_text(make_action(ActionKind::BackwardInput, action.stage,
                                              action.microbatch))));
  }
}

// A group is F then B or I, of different micro-batches (or stages far apart), and nothing else.
void check_group(const Schedule& schedule, std::size_t rank, std::size_t index, Violations& found) {
  const auto& list = schedule.ranks[rank];
  const Action first = list[index];
  if (!first.overlaps_next) return;
  if (index + 1 == list.size()) {
    found.add(Fault::Group, rank, index, first, "it overlaps a next action, but it is the last");
    return;
  }
  const Action second = list[index + 1];
  if (first.kind != ActionKind::Forward || !is_backward(second.kind) || second.overlaps_next) {
    found.add(Fault::Group, rank, index, first,
              fmt::format("{} overlaps {}; only F overlaps a following B or I", to_text(first),
                          to_text(second)));
  } else if (first.stage == second.stage && first.microbatch == second.microbatch) {
    found.add(
        Fault::Group, rank, index, first,
        fmt::format("{} overlaps {}, which needs its result", to_text(first), to_text(second)));
  }
}

void check_lists(const Schedule& schedule, Seen& seen, Violations& found) {
  const int last_stage = schedule.placement.stages() - 1;
  std::int32_t next_loss = 0;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const auto& list = schedule.ranks[rank];
    for (std::size_t index = 0; index < list.size() && !found.full(); ++index) {
      check_group(schedule, rank, index, found);
      if (!check_ids(schedule, rank, index, found)) continue;
      const Action action = list[index];
      std::uint8_t& before = seen.at(action);
      check_history(rank, index, action, before, found);
      before |= bit(action.kind);
      if (action.kind != ActionKind::Forward || action.stage != last_stage) continue;
      if (action.microbatch != next_loss) {
        found.add(Fault::LossOrder, rank, index, action,
                  fmt::format("the last stage must run micro-batch {} here; PyTorch pairs losses "
                              "with micro-batches by position",
                              next_loss));
      }
      ++next_loss;
    }
  }
}

void check_complete(const Schedule& schedule, Seen& seen, Violations& found) {
  for (std::size_t stage = 0; stage < schedule.placement.rank_of.size(); ++stage) {
    const std::size_t rank = schedule.placement.rank_of[stage].at();
    for (std::size_t m = 0; m < static_cast<std::size_t>(schedule.microbatches); ++m) {
      const std::uint8_t kinds = seen.at(stage, m);
      if (kinds == kFused || kinds == kSplit) continue;
      if (found.full()) return;
      ActionKind lost = ActionKind::Backward;
      if ((kinds & bit(ActionKind::Forward)) == 0) {
        lost = ActionKind::Forward;
      } else if ((kinds & bit(ActionKind::BackwardInput)) != 0) {
        lost = ActionKind::BackwardWeight;
      }
      if ((kinds & bit(lost)) != 0) continue;  // mixed, and reported as such
      const Action action = make_action(lost, static_cast<int>(stage), static_cast<int>(m));
      found.add_missing(Fault::Missing, rank, action,
                        fmt::format("no {} in the list of rank {}", to_text(action), rank));
    }
  }
}

// The action that a blocked action waits for.
Action awaited(const Schedule& schedule, Action action) {
  if (action.kind == ActionKind::Forward) {
    return make_action(ActionKind::Forward, action.stage - 1, action.microbatch);
  }
  Action source = make_action(ActionKind::Backward, action.stage + 1, action.microbatch);
  for (const Action& other : schedule.ranks[schedule.placement.rank_of[source.stage].at()]) {
    if (other.stage == source.stage && other.microbatch == source.microbatch &&
        is_backward(other.kind)) {
      source.kind = other.kind;
    }
  }
  return source;
}

// Which member of the front group is blocked: the one whose source has not been reached yet.
Action blocked_member(const Schedule& schedule, const ListOrders& orders, std::size_t rank) {
  const std::size_t size = orders.group(rank);
  for (std::size_t i = 0; i < size; ++i) {
    const Action member = orders.ahead(rank, i);
    const bool free =
        member.kind == ActionKind::BackwardWeight ||
        (member.kind == ActionKind::Forward ? member.stage == 0
                                            : member.stage + 1 == schedule.placement.stages());
    if (free) continue;
    const Action source = awaited(schedule, member);
    const std::size_t other = schedule.placement.rank_of[source.stage].at();
    const auto& list = schedule.ranks[other];
    const auto from = list.begin() + static_cast<std::ptrdiff_t>(orders.position(other));
    const bool ahead = std::any_of(from, list.end(), [&](Action a) {
      return a.stage == source.stage && a.microbatch == source.microbatch && a.kind == source.kind;
    });
    if (ahead) return member;
  }
  return orders.front(rank);
}

// Follows who waits for whom until a rank comes up twice; that rank begins the cycle.
void explain_cycle(const Schedule& schedule, const ListOrders& orders, Violations& found) {
  std::size_t rank = 0;
  while (orders.done(rank)) ++rank;
  std::vector<char> visited(schedule.ranks.size(), 0);
  const auto next_of = [&](std::size_t at) {
    const Action source = awaited(schedule, blocked_member(schedule, orders, at));
    return schedule.placement.rank_of[source.stage].at();
  };
  while (visited[rank] == 0) {
    visited[rank] = 1;
    rank = next_of(rank);
  }
  const std::size_t first = rank;
  std::string why;
  int links = 0;
  do {
    const Action action = blocked_member(schedule, orders, rank);
    const Action source = awaited(schedule, action);
    const std::size_t next = schedule.placement.rank_of[source.stage].at();
    if (++links <= 6) {
      why +=
          fmt::format("{}{} on rank {} waits for {} on rank {}", why.empty() ? "" : ", but there ",
                      to_text(action), rank, to_text(source), next);
    }
    rank = next;
  } while (rank != first);
  if (links > 6) why += fmt::format(", and so on over {} ranks", links);
  why += fmt::format(", which comes after {}", to_text(orders.front(first)));
  found.add(Fault::Deadlock, first, orders.position(first), orders.front(first), why);
}

}  // namespace

bool check_shape(const Schedule& schedule, Violations& found) {
  const auto fault = [&](std::string why) {
    found.add_missing(Fault::Shape, 0, Action{}, std::move(why));
    return false;
  };
  const Placement& placement = schedule.placement;
  const auto stages = static_cast<std::int64_t>(placement.rank_of.size());
  if (placement.ranks < 1 || placement.ranks > kMaxRanks) {
    return fault(fmt::format("a schedule has 1 to {} ranks, not {}", kMaxRanks, placement.ranks));
  }
  if (schedule.ranks.size() != static_cast<std::size_t>(placement.ranks)) {
    return fault(
        fmt::format("there are {} lists for {} ranks", schedule.ranks.size(), placement.ranks));
  }
  if (stages < 1 || stages > kMaxStages) {
    return fault(fmt::format("a schedule has 1 to {} stages, not {}", kMaxStages, stages));
  }
  if (schedule.microbatches < 1 || schedule.microbatches > kMaxMicroBatches) {
    return fault(fmt::format("a schedule has 1 to {} micro-batches, not {}", kMaxMicroBatches,
                             schedule.microbatches));
  }
  std::vector<char> used(schedule.ranks.size(), 0);
  for (const RankId rank : placement.rank_of) {
    if (rank.index() < 0 || rank.index() >= placement.ranks) {
      return fault(fmt::format("a stage lies on rank {}, which does not exist", rank.index()));
    }
    used[rank.at()] = 1;
  }
  for (std::size_t rank = 0; rank < used.size(); ++rank) {
    if (used[rank] == 0) return fault(fmt::format("rank {} holds no stage", rank));
  }
  std::int64_t actions = 0;
  for (const auto& list : schedule.ranks) actions += static_cast<std::int64_t>(list.size());
  // Keeps the tables below in proportion to the input, whatever ids it names.
  if (actions < stages * schedule.microbatches) {
    found.add_missing(Fault::Missing, 0, Action{},
                      fmt::format("{} actions cannot be the forward and backward of {} "
                                  "micro-batches on {} stages",
                                  actions, schedule.microbatches, stages));
    return false;
  }
  return true;
}

void check_compute(const Schedule& schedule, Violations& found) {
  Seen seen(schedule);
  check_lists(schedule, seen, found);
  if (!found.full()) check_complete(schedule, seen, found);
  if (!found.empty()) return;
  const Pricing pricing = price_nothing(schedule.placement, schedule.microbatches);
  ListOrders orders(schedule);
  TableMail mail(schedule.placement.stages(), schedule.microbatches);
  NoRecord record;
  Clock clock(pricing, orders, mail, record);
  if (!clock.run()) explain_cycle(schedule, orders, found);
}

}  // namespace detail

std::vector<Violation> check(const Schedule& schedule, int most) {
  detail::Violations found(most);
  if (detail::check_shape(schedule, found)) detail::check_compute(schedule, found);
  return std::move(found).list();
}

}  // namespace trainwright
