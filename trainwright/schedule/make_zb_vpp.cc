// ZB-VPP: zero bubble over a wave of any number of chunks, dispatched greedily in simulated time.
//
// A free rank runs, of what is ready: I of the lowest chunk (it frees memory and feeds the most
// stages), but F after an I so that forwards keep coming; F of the highest chunk; else a W. F must
// leave one slot of the limit for every later chunk, which is what makes the greedy safe: the most
// advanced micro-batch that waits for memory would otherwise wait for one more advanced than
// itself. O(actions log ranks).
#include <algorithm>
#include <limits>
#include <queue>

#include "trainwright/base/check.h"
#include "trainwright/schedule/clock.h"
#include "trainwright/schedule/order.h"

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
  std::size_t next_weight = 0;
  double busy_until = 0;
  double wake = kNever;
  int live = 0;
  bool forward_turn = true;
};

class Dispatcher {
 public:
  Dispatcher(Shape shape, const MakeOptions& options)
      : limit_(options.limit > 0 ? options.limit : shape.ranks * shape.chunks),
        schedule_{shape.microbatches, placed(StagePlacement::V, shape.ranks, shape.chunks), {}},
        ranks_(static_cast<std::size_t>(shape.ranks)),
        forward_(schedule_.placement.rank_of.size()),
        backward_(schedule_.placement.rank_of.size()) {
    const int stages = schedule_.placement.stages();
    const Costs costs = options.costs.stages.empty()
                            ? even_costs(stages, Seconds(1), Seconds(1), Seconds(1))
                            : options.costs;
    pricing_ = price(schedule_.placement, shape.microbatches, costs, {});
    schedule_.ranks.resize(ranks_.size());
    for (int stage = 0; stage < stages; ++stage) {
      ranks_[rank_of(stage)].stages.push_back(stage);
    }
    forward_[0].at.assign(static_cast<std::size_t>(shape.microbatches), 0.0);
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

  int ready_backward(const RankState& state, double time) const {
    for (const int stage : state.stages) {
      if (backward_[static_cast<std::size_t>(stage)].head() <= time) return stage;
    }
    return -1;
  }
  int ready_forward(const RankState& state, double time) const {
    const auto chunks = static_cast<int>(state.stages.size());
    for (int chunk = chunks - 1; chunk >= 0; --chunk) {
      const int stage = state.stages[static_cast<std::size_t>(chunk)];
      if (forward_[static_cast<std::size_t>(stage)].head() > time) continue;
      if (state.live + chunks - chunk <= limit_) return stage;
    }
    return -1;
  }

  void step(std::size_t rank, double time) {
    RankState& state = ranks_[rank];
    const int back = ready_backward(state, time);
    const int ahead = ready_forward(state, time);
    if (ahead >= 0 && (back < 0 || state.forward_turn)) {
      state.forward_turn = false;
      ++state.live;
      start(rank, time, ActionKind::Forward, ahead, forward_[static_cast<std::size_t>(ahead)]);
    } else if (back >= 0) {
      state.forward_turn = true;
      start(rank, time, ActionKind::BackwardInput, back, backward_[static_cast<std::size_t>(back)]);
    } else if (state.next_weight < state.weights.size()) {
      const Action weight = state.weights[state.next_weight++];
      --state.live;
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
  int limit_;
  Schedule schedule_;
  Pricing pricing_;
  std::vector<RankState> ranks_;
  std::vector<Inbox> forward_, backward_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

Schedule make_zb_vpp(Shape shape, const MakeOptions& options) {
  return Dispatcher(shape, options).run();
}

}  // namespace trainwright::detail
