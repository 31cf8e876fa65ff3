// ZB-VPP: zero bubble over a wave of any number of chunks, dispatched greedily in simulated time.
//
// A free rank runs, of what is ready: I of the lowest chunk (it frees memory and feeds the most
// stages), but F after an I so that forwards keep coming; F of the highest chunk; else a W, which
// so fills bubbles. F must leave room for every later chunk, which is what makes the greedy safe:
// the most advanced micro-batch that waits for memory would otherwise wait for one more advanced
// than itself. Where an I does not fit, W that wait go first. O(actions log ranks).
//
// Bytes: an action leaves some behind and needs more while it runs. F count what they leave; what
// the largest action needs beside that is set aside. The largest may never meet the fullest moment,
// so what the clock finds free is given to a second run, and so on.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>

#include "trainwright/base/check.h"
#include "trainwright/schedule/clock.h"
#include "trainwright/schedule/order.h"
#include "trainwright/schedule/rank_memory.h"
#include "trainwright/schedule/zb_vpp.h"

namespace trainwright::detail {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Arrival times of a stage's inputs in one direction, in micro-batch order.
struct Inbox {
  std::vector<double> at;
  std::size_t next = 0;
  double head() const { return next < at.size() ? at[next] : kNever; }
};

struct RankState {
  std::vector<int> stages;  // lowest first
  std::vector<Action> weights;
  RankMemory memory;
  std::size_t next_weight = 0;
  double busy_until = 0;
  double wake = kNever;
  std::int64_t left = 0;  // behind by what has run and will be released
  bool forward_turn = true;
};

// Released by a stage's I and W of one micro-batch; the rest stays until the step ends.
std::int64_t released(const StagePrice& price) { return price.memory[1] + price.memory[2]; }

using ByRank = std::vector<std::int64_t>;

class Dispatcher {
 public:
  // `caps`: most by the clock. `rooms`: most that F leave behind.
  Dispatcher(const Placement& placement, const Pricing& pricing, const ByRank& caps,
             const ByRank& rooms)
      : schedule_{pricing.microbatches, placement, {}},
        pricing_(pricing),
        caps_(caps),
        rooms_(rooms),
        forward_(pricing.stages.size()),
        backward_(pricing.stages.size()) {
    schedule_.ranks.resize(pricing.standing.size());
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      ranks_.push_back({.stages = {}, .weights = {}, .memory = RankMemory(pricing, rank)});
    }
    for (int stage = 0; stage < placement.stages(); ++stage) {
      ranks_[rank_of(stage)].stages.push_back(stage);
    }
    forward_[0].at.assign(static_cast<std::size_t>(pricing.microbatches), 0.0);
  }

  Schedule run() && {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) wake(rank, 0);
    while (!events_.empty()) {
      const auto [time, rank] = events_.top();
      events_.pop();
      if (ranks_[rank].wake != time) continue;  // was woken earlier
      ranks_[rank].wake = kNever;
      step(rank, time);
    }
    return std::move(schedule_);
  }

 private:
  std::size_t rank_of(int stage) const {
    return schedule_.placement.rank_of[static_cast<std::size_t>(stage)].at();
  }

  void wake(std::size_t rank, double time) {
    RankState& state = ranks_[rank];
    time = std::max(time, state.busy_until);
    if (time >= state.wake) return;
    state.wake = time;
    events_.push({time, rank});
  }

  int ready_backward(std::size_t rank, double time) const {
    const RankState& state = ranks_[rank];
    for (const int stage : state.stages) {
      if (backward_[static_cast<std::size_t>(stage)].head() > time) continue;
      const Action action = make_action(ActionKind::BackwardInput, stage, 0);
      const bool waits = state.next_weight < state.weights.size();
      return waits && state.memory.peak_with(action) > caps_[rank] ? -1 : stage;
    }
    return -1;
  }
  int ready_forward(std::size_t rank, double time) const {
    const RankState& state = ranks_[rank];
    std::int64_t needed = state.left;
    for (std::size_t chunk = state.stages.size(); chunk-- > 0;) {
      const auto stage = static_cast<std::size_t>(state.stages[chunk]);
      needed += released(pricing_.stages[stage]);
      if (forward_[stage].head() > time) continue;
      const Action action = make_action(ActionKind::Forward, state.stages[chunk], 0);
      if (needed <= rooms_[rank] && state.memory.peak_with(action) <= caps_[rank]) {
        return state.stages[chunk];
      }
    }
    return -1;
  }

  void step(std::size_t rank, double time) {
    RankState& state = ranks_[rank];
    const int back = ready_backward(rank, time);
    const int ahead = ready_forward(rank, time);
    if (ahead >= 0 && (back < 0 || state.forward_turn)) {
      state.forward_turn = false;
      state.left += released(pricing_.stages[static_cast<std::size_t>(ahead)]);
      start(rank, time, ActionKind::Forward, ahead, forward_[static_cast<std::size_t>(ahead)]);
    } else if (back >= 0) {
      state.forward_turn = true;
      state.left -= pricing_.stages[static_cast<std::size_t>(back)].memory[1];
      start(rank, time, ActionKind::BackwardInput, back, backward_[static_cast<std::size_t>(back)]);
    } else if (state.next_weight < state.weights.size()) {
      const Action weight = state.weights[state.next_weight++];
      state.left -= pricing_.stages[weight.stage].memory[2];
      state.memory.run(weight);
      schedule_.ranks[rank].push_back(weight);
      state.busy_until =
          time + pricing_.stages[weight.stage].time[static_cast<std::size_t>(weight.kind)];
      wake(rank, state.busy_until);
    } else {
      double next = kNever;  // inputs that are known and on their way
      for (const int stage : state.stages) {
        next = std::min(next, backward_[static_cast<std::size_t>(stage)].head());
        const double forward = forward_[static_cast<std::size_t>(stage)].head();
        if (forward > time) next = std::min(next, forward);
      }
      if (next < kNever) wake(rank, next);
    }
  }

  void start(std::size_t rank, double time, ActionKind kind, int stage, Inbox& inbox) {
    const auto microbatch = static_cast<int>(inbox.next++);
    const Action action = make_action(kind, stage, microbatch);
    RankState& state = ranks_[rank];
    state.memory.run(action);
    schedule_.ranks[rank].push_back(action);
    const StagePrice& priced = pricing_.stages[action.stage];
    const double end = time + priced.time[static_cast<std::size_t>(kind)];
    state.busy_until = end;
    wake(rank, end);
    const bool forward = kind == ActionKind::Forward;
    if (!forward) {
      state.weights.push_back(make_action(ActionKind::BackwardWeight, stage, microbatch));
    }
    const std::size_t way = forward ? 0 : 1;
    if (priced.target[way] >= 0) {
      const int neighbour = forward ? stage + 1 : stage - 1;
      auto& target = forward ? forward_ : backward_;
      const double arrival = end + (priced.link[way] >= 0 ? priced.send[way] : 0);
      target[static_cast<std::size_t>(neighbour)].at.push_back(arrival);
      wake(static_cast<std::size_t>(priced.target[way]), arrival);
    } else if (forward) {
      backward_[static_cast<std::size_t>(stage)].at.push_back(end);
    }
  }

  using Event = std::pair<double, std::size_t>;
  Schedule schedule_;
  const Pricing& pricing_;
  const ByRank &caps_, &rooms_;
  std::vector<RankState> ranks_;
  std::vector<Inbox> forward_, backward_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

// One micro-batch after the other: no order keeps less.
Schedule one_by_one(const Placement& placement, int microbatches, bool split) {
  Schedule schedule{microbatches, placement, {}};
  schedule.ranks.resize(static_cast<std::size_t>(placement.ranks));
  for (int m = 0; m < microbatches; ++m) {
    const auto put = [&](ActionKind kind, int stage) {
      const RankId rank = placement.rank_of[static_cast<std::size_t>(stage)];
      schedule.ranks[rank.at()].push_back(make_action(kind, stage, m));
    };
    for (int stage = 0; stage < placement.stages(); ++stage) put(ActionKind::Forward, stage);
    for (int stage = placement.stages(); stage-- > 0;) {
      put(split ? ActionKind::BackwardInput : ActionKind::Backward, stage);
      if (split) put(ActionKind::BackwardWeight, stage);
    }
  }
  return schedule;
}

// An activation counts one, from F to W.
Costs counting_activations(Costs costs) {
  for (StageCosts& stage : costs.stages) {
    stage.kept = Bytes(1);
    stage.released_by_input = stage.resident = stage.gradients = Bytes(0);
    stage.inside = {};
  }
  return costs;
}

bool complete(const Schedule& schedule) {
  std::size_t actions = 0;
  for (const auto& list : schedule.ranks) actions += list.size();
  return actions ==
         3 * schedule.placement.rank_of.size() * static_cast<std::size_t>(schedule.microbatches);
}

// What each rank has free, or by how much it exceeds its cap.
ByRank free_by_rank(const Timeline& timeline, const ByRank& caps) {
  ByRank free;
  for (std::size_t r = 0; r < caps.size(); ++r) {
    free.push_back(caps[r] - timeline.ranks[r].peak.value());
  }
  return free;
}
bool fits(const ByRank& free) {
  return std::all_of(free.begin(), free.end(), [](std::int64_t bytes) { return bytes >= 0; });
}

// Most that F may leave behind for any order to fit, but always one micro-batch.
ByRank rooms_within(const ByRank& caps, const Pricing& pricing) {
  const ByRank aside = set_aside(pricing);
  ByRank rooms(caps.size(), 0), one = rooms;
  for (const StagePrice& price : pricing.stages) {
    const auto rank = static_cast<std::size_t>(price.rank);
    one[rank] += released(price);
    rooms[rank] -= (price.memory[0] - released(price)) * pricing.microbatches;
  }
  for (std::size_t r = 0; r < caps.size(); ++r) {
    rooms[r] = std::max(one[r], rooms[r] + caps[r] - pricing.standing[r] - aside[r]);
  }
  return rooms;
}

constexpr int kRounds = 8;

// None where not even one micro-batch after the other fits.
std::optional<Schedule> shortest_within(const Placement& placement, int microbatches,
                                        const Costs& costs, const std::vector<Bytes>& cap,
                                        const ClockOptions& clock) {
  const Pricing pricing = price(placement, microbatches, costs, clock);
  ByRank caps;
  for (std::size_t r = 0; r < pricing.standing.size(); ++r) {
    caps.push_back(cap[cap.size() == 1 ? 0 : r].value());
  }
  std::optional<Schedule> best;
  Seconds shortest(kNever);
  const auto offer = [&](Schedule schedule) {
    const Timeline timeline = simulate(schedule, costs, clock);
    ByRank free = free_by_rank(timeline, caps);
    if (fits(free) && timeline.makespan < shortest) {
      best = std::move(schedule);
      shortest = timeline.makespan;
    }
    return free;
  };
  offer(one_by_one(placement, microbatches, true));
  offer(one_by_one(placement, microbatches, false));
  if (!best) return std::nullopt;
  // What the clock finds free is given to the next round; half of it where ranks then wait for each
  // other's memory.
  ByRank rooms = rooms_within(caps, pricing), more(caps.size(), 0);
  for (int round = 0; round < kRounds; ++round) {
    ByRank tried = rooms;
    for (std::size_t r = 0; r < tried.size(); ++r) tried[r] += more[r];
    Schedule schedule = Dispatcher(placement, pricing, caps, tried).run();
    bool good = false;
    if (complete(schedule)) {
      ByRank free = offer(std::move(schedule));
      good = fits(free);
      if (good) more = std::move(free);
    }
    if (good) {
      rooms = tried;
    } else {
      for (std::int64_t& bytes : more) bytes /= 2;
    }
  }
  return best;
}

}  // namespace

Schedule make_zb_vpp(Shape shape, const MakeOptions& options) {
  const Placement placement = placed(StagePlacement::V, shape.ranks, shape.chunks);
  const Costs costs = options.costs.stages.empty()
                          ? even_costs(placement.stages(), Seconds(1), Seconds(1), Seconds(1))
                          : options.costs;
  const Pricing pricing = price(placement, shape.microbatches, counting_activations(costs), {});
  const int limit = options.limit > 0 ? options.limit : shape.ranks * shape.chunks;
  const ByRank most(static_cast<std::size_t>(shape.ranks), limit);
  return Dispatcher(placement, pricing, most, most).run();
}

}  // namespace trainwright::detail

namespace trainwright {

Bytes smallest_cap(const Placement& placement, int microbatches, const Costs& costs,
                   const ClockOptions& clock) {
  const auto needed = [&](bool split) {
    return peak(simulate(detail::one_by_one(placement, microbatches, split), costs, clock));
  };
  return std::min(needed(true), needed(false));
}

Result<Schedule> make_zb_vpp_under(Shape shape, const Costs& costs, const std::vector<Bytes>& cap,
                                   const ClockOptions& clock) {
  Diagnostics faults =
      faults_of(ScheduleKind::ZbVpp, shape, {.group = 0, .limit = 0, .costs = costs});
  if (cap.size() != 1 && std::ssize(cap) != shape.ranks) {
    faults.push_back({"memory cap",
                      fmt::format("there are {} for {} ranks", cap.size(), shape.ranks),
                      "one for all ranks, or one for each"});
  }
  if (!faults.empty()) return fail(std::move(faults));
  const Placement placement = placed(StagePlacement::V, shape.ranks, shape.chunks);
  auto made = detail::shortest_within(placement, shape.microbatches, costs, cap, clock);
  if (made) return *std::move(made);
  return fail("memory cap", "no order of these stages fits it",
              fmt::format("the smallest that can be met is {}",
                          smallest_cap(placement, shape.microbatches, costs, clock).value()));
}

}  // namespace trainwright
