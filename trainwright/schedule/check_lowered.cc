#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "trainwright/schedule/clock.h"
#include "trainwright/schedule/violations.h"

namespace trainwright {
namespace detail {
namespace {

constexpr bool is_transfer(ActionKind kind) {
  return kind >= ActionKind::SendForward && kind <= ActionKind::RecvBackward;
}
constexpr bool sends(ActionKind kind) {
  return kind == ActionKind::SendForward || kind == ActionKind::SendBackward;
}
constexpr bool goes_forward(ActionKind kind) {
  return kind == ActionKind::SendForward || kind == ActionKind::RecvForward;
}

// The stage at the other end of a transfer; may be out of range at the ends of the model.
int other_stage(Action action) {
  const bool up = goes_forward(action.kind) == sends(action.kind);
  return up ? action.stage + 1 : action.stage - 1;
}

Action partner(Action action) {
  const ActionKind kind =
      goes_forward(action.kind)
          ? (sends(action.kind) ? ActionKind::RecvForward : ActionKind::SendForward)
          : (sends(action.kind) ? ActionKind::RecvBackward : ActionKind::SendBackward);
  return make_action(kind, other_stage(action), action.microbatch);
}

Schedule compute_part(const Schedule& schedule) {
  Schedule part{schedule.microbatches, schedule.placement, {}};
  for (const auto& list : schedule.ranks) {
    auto& kept = part.ranks.emplace_back();
    std::copy_if(list.begin(), list.end(), std::back_inserter(kept),
                 [](Action action) { return computes(action.kind); });
  }
  return part;
}

// What the lists have said so far about each stage and micro-batch, one bit per kind.
class Said {
 public:
  explicit Said(const Schedule& schedule)
      : microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        kinds_(schedule.placement.rank_of.size() * microbatches_) {}
  bool has(ActionKind kind, int stage, int microbatch) const {
    return (kinds_[slot(stage, microbatch)] & 1U << static_cast<unsigned>(kind)) != 0;
  }
  void add(Action action) {
    auto& kinds = kinds_[slot(action.stage, action.microbatch)];
    kinds = static_cast<std::uint16_t>(kinds | 1U << static_cast<unsigned>(action.kind));
  }

 private:
  std::size_t slot(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * microbatches_ + static_cast<std::size_t>(microbatch);
  }
  std::size_t microbatches_;
  std::vector<std::uint16_t> kinds_;
};

class LoweredChecker {
 public:
  LoweredChecker(const Schedule& schedule, Violations& found)
      : schedule_(schedule), found_(found), seen_(schedule) {}

  void run() {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) walk(rank);
    if (!found_.full()) find_missing();
    if (found_.empty()) compare_orders();
    if (found_.empty()) rendezvous();
  }

 private:
  std::size_t rank_of(int stage) const {
    return schedule_.placement.rank_of[static_cast<std::size_t>(stage)].at();
  }
  bool crosses(int stage, int other) const {
    return other >= 0 && other < schedule_.placement.stages() && rank_of(stage) != rank_of(other);
  }
  bool backward_done(int stage, int microbatch) const {
    return seen_.has(ActionKind::Backward, stage, microbatch) ||
           seen_.has(ActionKind::BackwardInput, stage, microbatch);
  }

  void walk(std::size_t rank) {
    const auto& list = schedule_.ranks[rank];
    std::map<int, std::int64_t> backwards;  // by stage, W and B still to come before ReduceGrad
    std::map<int, bool> gathered;           // by stage, once an Unshard or Reshard was seen
    for (std::size_t index = 0; index < list.size() && !found_.full(); ++index) {
      const Action action = list[index];
      const bool in_group = action.overlaps_next || (index > 0 && list[index - 1].overlaps_next);
      if (!computes(action.kind) && in_group) {
        found_.add(Fault::Group, rank, index, action, "only compute actions overlap");
      } else if (is_transfer(action.kind)) {
        check_transfer(rank, index, action);
      } else if (computes(action.kind)) {
        check_inputs(rank, index, action);
        const auto stage = gathered.find(action.stage);
        if (stage != gathered.end() && !stage->second) {
          found_.add(Fault::OutOfOrder, rank, index, action, "its stage is not unsharded here");
        }
        seen_.add(action);
        if (action.kind != ActionKind::Forward && action.kind != ActionKind::BackwardInput) {
          ++backwards[action.stage];
        }
      } else {
        check_stage_action(rank, index, action, backwards, gathered);
      }
    }
    check_reduced(rank);
  }

  void check_transfer(std::size_t rank, std::size_t index, Action action) {
    if (action.stage >= schedule_.placement.stages()) {
      found_.add(Fault::StageOutOfRange, rank, index, action,
                 fmt::format("there is no stage {}", action.stage));
      return;
    }
    if (action.microbatch < 0 || action.microbatch >= schedule_.microbatches) {
      found_.add(Fault::MicroBatchOutOfRange, rank, index, action,
                 fmt::format("there is no micro-batch {}", action.microbatch));
      return;
    }
    if (rank_of(action.stage) != rank) {
      found_.add(Fault::WrongRank, rank, index, action,
                 fmt::format("stage {} lies on rank {}", action.stage, rank_of(action.stage)));
      return;
    }
    if (!crosses(action.stage, other_stage(action))) {
      found_.add(Fault::TransferUnneeded, rank, index, action,
                 "its tensor does not go to another rank");
      return;
    }
    check_transfer_place(rank, index, action);
    seen_.add(action);
  }

  void check_transfer_place(std::size_t rank, std::size_t index, Action action) {
    const bool made = goes_forward(action.kind)
                          ? seen_.has(ActionKind::Forward, action.stage, action.microbatch)
                          : backward_done(action.stage, action.microbatch);
    if (seen_.has(action.kind, action.stage, action.microbatch)) {
      found_.add(Fault::Duplicate, rank, index, action, "the same transfer came before");
    } else if (sends(action.kind) && !made) {
      found_.add(Fault::TransferOrder, rank, index, action, "what it sends has not been made yet");
    }
  }

  // A compute action whose input comes from another rank needs the RECV before it.
  void check_inputs(std::size_t rank, std::size_t index, Action action) {
    const bool forward = action.kind == ActionKind::Forward;
    if (!forward && !is_backward(action.kind)) return;
    const int source = forward ? action.stage - 1 : action.stage + 1;
    if (!crosses(action.stage, source)) return;
    const ActionKind wanted = forward ? ActionKind::RecvForward : ActionKind::RecvBackward;
    if (seen_.has(wanted, action.stage, action.microbatch)) return;
    const Action missing = make_action(wanted, action.stage, action.microbatch);
    found_.add(Fault::TransferMissing, rank, index, action,
               fmt::format("{} does not come before it", to_text(missing)));
  }

  void check_stage_action(std::size_t rank, std::size_t index, Action action,
                          const std::map<int, std::int64_t>& backwards,
                          std::map<int, bool>& gathered) {
    if (action.stage >= schedule_.placement.stages() || rank_of(action.stage) != rank) {
      found_.add(Fault::WrongRank, rank, index, action,
                 fmt::format("stage {} does not lie on this rank", action.stage));
      return;
    }
    if (action.kind == ActionKind::ReduceGrad) {
      const auto done = backwards.find(action.stage);
      if (done == backwards.end() || done->second != schedule_.microbatches) {
        found_.add(Fault::OutOfOrder, rank, index, action,
                   "gradients of its stage are still to come after it");
      } else if (!reduced_.insert_or_assign(action.stage, true).second) {
        found_.add(Fault::Duplicate, rank, index, action,
                   "the gradients would be scaled a second time");
      }
      return;
    }
    const bool unshards = action.kind == ActionKind::Unshard;
    const auto [stage, fresh] = gathered.try_emplace(action.stage, false);
    if (stage->second == unshards) {
      found_.add(unshards ? Fault::Duplicate : Fault::OutOfOrder, rank, index, action,
                 unshards ? "its stage is unsharded already" : "its stage is not unsharded");
    }
    stage->second = unshards;
  }

  void check_reduced(std::size_t rank) {
    for (int stage = 0; stage < schedule_.placement.stages(); ++stage) {
      if (rank_of(stage) != rank || reduced_.count(stage) != 0) continue;
      found_.add_missing(Fault::Missing, rank, make_action(ActionKind::ReduceGrad, stage, -1),
                         fmt::format("without {}REDUCE_GRAD the gradients of stage {} are not "
                                     "scaled by the number of micro-batches",
                                     stage, stage));
    }
  }

  void find_missing() {
    for (int stage = 0; stage < schedule_.placement.stages(); ++stage) {
      for (int m = 0; m < schedule_.microbatches && !found_.full(); ++m) {
        require(ActionKind::SendForward, stage, m);
        require(ActionKind::SendBackward, stage, m);
      }
    }
  }
  void require(ActionKind kind, int stage, int microbatch) {
    const Action send = make_action(kind, stage, microbatch);
    if (!crosses(stage, other_stage(send)) || seen_.has(kind, stage, microbatch)) return;
    found_.add_missing(Fault::TransferMissing, rank_of(stage), send,
                       fmt::format("no {} in the list of rank {}", to_text(send), rank_of(stage)));
  }

  // Between two ranks messages are matched in order and without a name, so both must agree on it.
  void compare_orders() {
    std::map<std::pair<std::size_t, std::size_t>, std::vector<Action>> sent;
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> taken;
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      for (const Action& action : schedule_.ranks[rank]) {
        if (is_transfer(action.kind) && sends(action.kind)) {
          sent[{rank, rank_of(other_stage(action))}].push_back(action);
        }
      }
    }
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      for (std::size_t index = 0; index < schedule_.ranks[rank].size(); ++index) {
        const Action action = schedule_.ranks[rank][index];
        if (!is_transfer(action.kind) || sends(action.kind)) continue;
        const std::pair pair{rank_of(other_stage(action)), rank};
        const Action send = sent[pair][taken[pair]++];
        if (send == partner(action)) continue;
        found_.add(Fault::TransferOrder, rank, index, action,
                   fmt::format("rank {} sends {} in its place", pair.first, to_text(send)));
        return;
      }
    }
  }

  // Runs the lists as if every SEND and RECV stood still until its partner comes.
  void rendezvous() {
    std::vector<std::size_t> next(schedule_.ranks.size(), 0);
    const auto settle = [&](std::size_t rank) {  // past everything that needs no partner
      const auto& list = schedule_.ranks[rank];
      while (next[rank] < list.size() && !is_transfer(list[next[rank]].kind)) ++next[rank];
      return next[rank] < list.size();
    };
    std::vector<std::size_t> work;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      settle(rank);
      work.push_back(rank);
    }
    while (!work.empty()) {
      const std::size_t rank = work.back();
      work.pop_back();
      while (settle(rank)) {
        const Action action = schedule_.ranks[rank][next[rank]];
        const std::size_t other = rank_of(other_stage(action));
        if (!settle(other) || schedule_.ranks[other][next[other]] != partner(action)) break;
        ++next[rank];
        ++next[other];
        work.push_back(other);
      }
    }
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      if (next[rank] == schedule_.ranks[rank].size()) continue;
      explain_deadlock(next, rank);
      return;
    }
  }

  void explain_deadlock(const std::vector<std::size_t>& next, std::size_t rank) {
    std::vector<char> visited(next.size(), 0);
    const auto front = [&](std::size_t at) { return schedule_.ranks[at][next[at]]; };
    while (visited[rank] == 0) {
      visited[rank] = 1;
      rank = rank_of(other_stage(front(rank)));
    }
    const std::size_t first = rank;
    std::string why;
    int links = 0;
    do {
      const Action action = front(rank);
      rank = rank_of(other_stage(action));
      if (++links <= 6) {
        why += fmt::format("{}{} waits for {} on rank {}", why.empty() ? "" : ", which stands at ",
                           to_text(action), to_text(partner(action)), rank);
      }
    } while (rank != first);
    if (links > 6) why += fmt::format(", and so on over {} ranks", links);
    found_.add(Fault::Deadlock, first, next[first], front(first), why + ", for ever");
  }

  const Schedule& schedule_;
  Violations& found_;
  Said seen_;
  std::map<int, bool> reduced_;
};

}  // namespace
}  // namespace detail

std::vector<Violation> check_lowered(const Schedule& schedule, int most) {
  detail::Violations found(most);
  if (!detail::check_shape(schedule, found)) return std::move(found).list();
  const Schedule part = detail::compute_part(schedule);
  for (const Violation& violation : check(part, most)) {
    // Its place in the whole list: the action is the (index + 1)-th that computes.
    const auto& list = schedule.ranks[violation.rank.at()];
    std::int64_t computed = -1;
    std::size_t index = 0;
    while (violation.index >= 0 &&
           (computed += computes(list[index].kind) ? 1 : 0) < violation.index) {
      ++index;
    }
    if (violation.index < 0) {
      found.add_missing(violation.fault, violation.rank.at(), violation.action, violation.why);
    } else {
      found.add(violation.fault, violation.rank.at(), index, violation.action, violation.why);
    }
  }
  if (found.empty()) detail::LoweredChecker(schedule, found).run();
  return std::move(found).list();
}

}  // namespace trainwright
