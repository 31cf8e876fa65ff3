#pragma once
// The clock's engine, shared by `simulate`, `simulate_kind`, `check` and `lower`, so that the
// streamed form cannot drift from the materialised one.
//
// Every rank runs its list until an input is missing; a finished action posts its result, which
// wakes the rank that waits for exactly that one. Each action is visited once, each wake-up is
// paid by one posted result: O(actions). The order of visits is a topological order of the
// dependencies, and whatever is computed does not depend on it, because times only flow along
// dependencies and link queues only along a sender's own list.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainwright/schedule/schedule.h"

namespace trainwright::detail {

// Costs in bare numbers (seconds, bytes), with the engine's rules and the placement worked in.
struct StagePrice {
  double time[4] = {};               // by ActionKind F I W B
  std::int64_t memory[4] = {};       // taken at the start (F) or released at the end (I W B)
  std::int64_t above[4] = {};        // more within the action, above what was there at its start
  std::int64_t gradients = 0;        // taken at the start of the first W or B
  std::int64_t first_above[2] = {};  // `above` of that W or B
  double send[2] = {};  // [0] the activation to stage + 1, [1] the gradient to stage - 1
  std::int32_t rank = 0;
  std::int32_t target[2] = {-1, -1};  // rank that gets it, -1 at the ends of the model
  std::int32_t link[2] = {-1, -1};    // number of the directed link, -1 within a rank
};
struct Pricing {
  std::vector<StagePrice> stages;
  std::vector<std::int64_t> standing;   // bytes by rank that are there all the time
  std::vector<std::int32_t> stages_of;  // number of stages by rank
  int ranks = 0;
  int microbatches = 0;
  int links = 0;
  double overlap = 0;
  bool inner_memory = false;  // some `above` or `gradients` is not 0
  ClockOptions options;
};
Pricing price(const Placement& placement, int microbatches, const Costs& costs,
              const ClockOptions& options);
// For callers that only need the order of dependencies.
Pricing price_nothing(const Placement& placement, int microbatches);

constexpr bool is_backward(ActionKind kind) {
  return kind == ActionKind::BackwardInput || kind == ActionKind::Backward;
}

// Where the list of its rank has the F [0] and the I or B [1] of a stage and micro-batch, at
// (stage x micro-batches + micro-batch) x 2; -1 if nowhere.
std::vector<std::int32_t> positions(const Schedule& schedule);

// A result on its way or arrived; `at` < 0 when there is none.
struct Arrival {
  double at = -1;
  double sent = 0;
};

// One slot per (stage, micro-batch) serves both directions: the gradient of a micro-batch can only
// come after its activation has been consumed.
class TableMail {
 public:
  TableMail(int stages, int microbatches)
      : microbatches_(static_cast<std::size_t>(microbatches)),
        slots_(static_cast<std::size_t>(stages) * microbatches_) {}
  Arrival peek(Action action) const { return slots_[slot(action)]; }
  void take(Action action) { slots_[slot(action)].at = -1; }
  void put(Action action, Arrival arrival) { slots_[slot(action)] = arrival; }
  static std::int64_t key(Action action) {
    return (static_cast<std::int64_t>(action.stage) << 32) | action.microbatch;
  }

 private:
  std::size_t slot(Action action) const {
    return action.stage * microbatches_ + static_cast<std::size_t>(action.microbatch);
  }
  std::size_t microbatches_;
  std::vector<Arrival> slots_;
};

class ListOrders {
 public:
  explicit ListOrders(const Schedule& schedule)
      : schedule_(&schedule), next_(schedule.ranks.size()) {}
  bool done(std::size_t rank) const { return next_[rank] == schedule_->ranks[rank].size(); }
  Action front(std::size_t rank) const { return schedule_->ranks[rank][next_[rank]]; }
  // How many actions the group at the front has.
  std::size_t group(std::size_t rank) const {
    std::size_t last = next_[rank];
    while (schedule_->ranks[rank][last].overlaps_next) ++last;
    return last - next_[rank] + 1;
  }
  Action ahead(std::size_t rank, std::size_t offset) const {
    return schedule_->ranks[rank][next_[rank] + offset];
  }
  void pop(std::size_t rank) { ++next_[rank]; }
  std::size_t position(std::size_t rank) const { return next_[rank]; }

 private:
  const Schedule* schedule_;
  std::vector<std::size_t> next_;
};

// What a rank has done so far.
struct Lane {
  double clock = 0, busy = 0, warmup = 0, steady = 0, drain = 0, transfer = 0;
  std::int64_t live = 0, peak = 0, forwards_left = 0;
  std::int64_t above = 0;  // bytes that only live within the action, or group, that runs
  std::int64_t blocked_on = -1;
  bool seen_backward = false;
};

Timeline totals_of(const std::vector<Lane>& lanes);

// Told of every action in the order of visits; see NoRecord for the shape.
struct NoRecord {
  void action(std::size_t, Action, double, double, PathStep::After) {}
  void memory(std::size_t, double, std::int64_t) {}
  void bubble(std::size_t, double, double, Cause) {}
};

template <class Orders, class Mail, class Record>
class Clock {
 public:
  Clock(const Pricing& pricing, Orders& orders, Mail& mail, Record& record)
      : pricing_(pricing), orders_(orders), mail_(mail), record_(record) {
    const auto ranks = static_cast<std::size_t>(pricing.ranks);
    lanes_.resize(ranks);
    link_free_.resize(static_cast<std::size_t>(pricing.links));
    has_gradients_.resize(pricing.stages.size());
    last_stage_ = static_cast<int>(pricing.stages.size()) - 1;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      lanes_[rank].live = lanes_[rank].peak = pricing.standing[rank];
      lanes_[rank].forwards_left =
          static_cast<std::int64_t>(pricing.stages_of[rank]) * pricing.microbatches;
      if (pricing.standing[rank] > 0) record_.memory(rank, 0, pricing.standing[rank]);
    }
  }

  // False when a rank stays blocked for ever.
  bool run() {
    std::vector<std::size_t> now(lanes_.size());
    for (std::size_t rank = 0; rank < now.size(); ++rank) now[rank] = rank;
    while (!now.empty()) {
      woken_.clear();
      for (std::size_t rank : now) run_rank(rank);
      now.swap(woken_);
    }
    for (std::size_t rank = 0; rank < lanes_.size(); ++rank) {
      if (!orders_.done(rank)) return false;
    }
    return true;
  }

  Timeline totals() const { return totals_of(lanes_); }

 private:
  bool needs_input(Action action) const {
    if (action.kind == ActionKind::Forward) return action.stage > 0;
    return is_backward(action.kind) && action.stage < last_stage_;
  }

  void run_rank(std::size_t rank) {
    Lane& lane = lanes_[rank];
    lane.blocked_on = -1;
    while (!orders_.done(rank)) {
      const Action action = orders_.front(rank);
      if (action.overlaps_next) {
        if (!run_group(rank, lane)) return;
        continue;
      }
      Arrival input{0, 0};
      if (needs_input(action)) {
        input = mail_.peek(action);
        if (input.at < 0) {
          lane.blocked_on = Mail::key(action);
          return;
        }
        mail_.take(action);
      }
      const PathStep::After after = wait(rank, lane, input);
      const StagePrice& stage = pricing_.stages[action.stage];
      const auto kind = static_cast<std::size_t>(action.kind);
      const double start = lane.clock;
      take_memory(rank, lane, action, start);
      lane.clock = start + stage.time[kind];
      lane.busy += stage.time[kind];
      note_phase(lane, action);
      record_.action(rank, action, start, lane.clock, after);
      release_memory(rank, lane, action, lane.clock);
      orders_.pop(rank);
      post(rank, lane, action, lane.clock);
    }
  }

  // A group whose members run at once starts when all inputs are there and ends as one; PyTorch
  // runs the members one after the other. Results leave at the end of the group either way.
  bool run_group(std::size_t rank, Lane& lane) {
    const std::size_t size = orders_.group(rank);
    members_.clear();
    Arrival latest{0, 0};
    std::size_t awaited = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const Action member = orders_.ahead(rank, i);
      members_.push_back(member);
      if (!needs_input(member)) continue;
      const Arrival input = mail_.peek(member);
      if (input.at < 0) {
        lane.blocked_on = Mail::key(member);
        return false;
      }
      if (input.at > latest.at) {
        latest = input;
        awaited = i;
      }
    }
    if (pricing_.options.engine == EngineRules::PyTorch) {
      run_in_turn(rank, lane);
    } else {
      run_at_once(rank, lane, latest, awaited);
    }
    for (const Action& member : members_) post(rank, lane, member, lane.clock);
    return true;
  }

  void run_in_turn(std::size_t rank, Lane& lane) {
    for (const Action& member : members_) {
      const Arrival input = needs_input(member) ? mail_.peek(member) : Arrival{0, 0};
      if (needs_input(member)) mail_.take(member);
      const PathStep::After after = wait(rank, lane, input);
      const double start = lane.clock;
      const double time = time_of(member);
      take_memory(rank, lane, member, start);
      lane.clock = start + time;
      lane.busy += time;
      note_phase(lane, member);
      record_.action(rank, member, start, lane.clock, after);
      release_memory(rank, lane, member, lane.clock);
      orders_.pop(rank);
    }
  }

  void run_at_once(std::size_t rank, Lane& lane, Arrival latest, std::size_t awaited) {
    const PathStep::After after = wait(rank, lane, latest);
    const double start = lane.clock;
    double longest = 0, sum = 0;
    for (const Action& member : members_) {
      if (needs_input(member)) mail_.take(member);
      longest = std::max(longest, time_of(member));
      sum += time_of(member);
      take_memory(rank, lane, member, start);
    }
    const double time = longest + (1 - pricing_.overlap) * (sum - longest);
    lane.clock = start + time;
    lane.busy += time;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      note_phase(lane, members_[i]);
      record_.action(rank, members_[i], start, lane.clock,
                     i == awaited ? after : PathStep::After::Rank);
      release_memory(rank, lane, members_[i], lane.clock);
      orders_.pop(rank);
    }
  }

  double time_of(Action action) const {
    return pricing_.stages[action.stage].time[static_cast<std::size_t>(action.kind)];
  }

  // Lets the rank's clock stand still until the input is there and books the gap.
  PathStep::After wait(std::size_t rank, Lane& lane, Arrival input) {
    if (input.at <= lane.clock) {
      return lane.clock > 0 ? PathStep::After::Rank : PathStep::After::Nothing;
    }
    const double moving_from = std::max(lane.clock, input.sent);
    idle(rank, lane, moving_from, phase_of(lane));
    idle(rank, lane, input.at, Cause::Transfer);
    return PathStep::After::Transfer;
  }

  static Cause phase_of(const Lane& lane) {
    if (!lane.seen_backward) return Cause::WarmUp;
    return lane.forwards_left == 0 ? Cause::Drain : Cause::Steady;
  }

  void idle(std::size_t rank, Lane& lane, double until, Cause cause) {
    const double gap = until - lane.clock;
    if (gap <= 0) return;
    switch (cause) {
      case Cause::WarmUp: lane.warmup += gap; break;
      case Cause::Steady: lane.steady += gap; break;
      case Cause::Drain: lane.drain += gap; break;
      case Cause::Transfer: lane.transfer += gap; break;
    }
    record_.bubble(rank, lane.clock, until, cause);
    lane.clock = until;
  }

  void note_phase(Lane& lane, Action action) {
    if (action.kind == ActionKind::Forward) {
      --lane.forwards_left;
    } else {
      lane.seen_backward = true;
    }
  }

  void take_memory(std::size_t rank, Lane& lane, Action action, double at) {
    const StagePrice& stage = pricing_.stages[action.stage];
    if (action.kind == ActionKind::Forward) {
      lane.live += stage.memory[0];
    } else if (!pricing_.inner_memory) {
      return;
    } else if (makes_gradients(action)) {
      lane.live += stage.gradients;
    }
    lane.above += above(action, stage);
    lane.peak = std::max(lane.peak, lane.live + lane.above);
    record_.memory(rank, at, lane.live + lane.above);
  }
  bool makes_gradients(Action action) const {
    return action.kind >= ActionKind::BackwardWeight && has_gradients_[action.stage] == 0;
  }
  std::int64_t above(Action action, const StagePrice& stage) const {
    const auto kind = static_cast<std::size_t>(action.kind);
    return makes_gradients(action) ? stage.first_above[kind - 2] : stage.above[kind];
  }
  void release_memory(std::size_t rank, Lane& lane, Action action, double at) {
    const StagePrice& stage = pricing_.stages[action.stage];
    const auto kind = static_cast<std::size_t>(action.kind);
    if (pricing_.inner_memory) {
      lane.above -= above(action, stage);
      if (action.kind >= ActionKind::BackwardWeight) has_gradients_[action.stage] = 1;
    }
    if (action.kind == ActionKind::Forward) {
      if (stage.above[0] > 0) record_.memory(rank, at, lane.live + lane.above);
      return;
    }
    lane.live -= stage.memory[kind];
    lane.peak = std::max(lane.peak, lane.live + lane.above);  // an I may keep more than it frees
    record_.memory(rank, at, lane.live + lane.above);
  }

  // Sends the result of an action that ended at `end` to the stage that waits for it.
  void post(std::size_t rank, Lane& lane, Action action, double end) {
    if (action.kind == ActionKind::BackwardWeight) return;
    const std::size_t way = action.kind == ActionKind::Forward ? 0 : 1;
    const StagePrice& stage = pricing_.stages[action.stage];
    if (stage.target[way] < 0) return;
    double arrival = end;
    if (stage.link[way] >= 0) {
      double depart = end;
      if (pricing_.options.links == Links::Serialised) {
        double& free = link_free_[static_cast<std::size_t>(stage.link[way])];
        depart = std::max(end, free);
        free = depart + stage.send[way];
      }
      arrival = depart + stage.send[way];
      if (pricing_.options.transfers == Transfers::Blocking) {
        idle(rank, lane, arrival, Cause::Transfer);
      }
    }
    Action next = action;
    next.stage = static_cast<std::uint16_t>(way == 0 ? action.stage + 1 : action.stage - 1);
    next.kind = way == 0 ? ActionKind::Forward : ActionKind::Backward;
    mail_.put(next, {arrival, end});
    Lane& receiver = lanes_[static_cast<std::size_t>(stage.target[way])];
    if (receiver.blocked_on == Mail::key(next)) {
      receiver.blocked_on = -1;
      woken_.push_back(static_cast<std::size_t>(stage.target[way]));
    }
  }

  const Pricing& pricing_;
  Orders& orders_;
  Mail& mail_;
  Record& record_;
  std::vector<Lane> lanes_;
  std::vector<double> link_free_;
  std::vector<char> has_gradients_;  // by stage
  std::vector<Action> members_;
  std::vector<std::size_t> woken_;
  int last_stage_ = 0;
};

}  // namespace trainwright::detail
