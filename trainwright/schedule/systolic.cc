#include "trainwright/schedule/systolic.h"

#include <algorithm>

namespace trainwright::detail {
namespace {

// The level numbers of a plan.
struct Levels {
  std::int64_t slope = 1;           // b: 2 when the warm-up falls by two per rank, else 1
  std::vector<std::int64_t> first;  // l(r), level of the rank's first backward
};

std::optional<Levels> find_levels(const LoopedPlan& plan) {
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  Levels levels;
  levels.slope = ranks > 1 && plan.warmup[ranks - 2] - plan.warmup[ranks - 1] == 2 ? 2 : 1;
  levels.first.resize(ranks);
  for (std::size_t r = ranks; r-- > 0;) {
    const std::int64_t own = 2 * plan.warmup[r] + 1 + levels.slope * static_cast<std::int64_t>(r);
    std::int64_t level = own;
    if (r + 1 < ranks) {
      level = std::max(own, levels.first[r + 1] + 1);
      // Only a rank that has finished its forwards may be late, and what a rank makes must be
      // taken before it makes the next.
      if (level > own && plan.warmup[r] < plan.work()) return std::nullopt;
      if (level - levels.first[r + 1] > 2) return std::nullopt;
    }
    levels.first[r] = level;
  }
  if (plan.chunks == 1) return levels;
  const std::int64_t shortest = *std::min_element(plan.groups.begin(), plan.groups.end());
  const bool down = 2 * shortest > levels.slope * (plan.ranks - 1);
  const bool up = 2 * shortest > levels.first.front() - levels.first.back();
  return down && up ? std::optional(levels) : std::nullopt;
}

// A queue of times between the last and the first rank.
class TimeQueue {
 public:
  void push(double time) {
    if (count_ == items_.size()) grow();
    items_[(head_ + count_++) & (items_.size() - 1)] = time;
  }
  double pop() {
    const double time = items_[head_];
    head_ = (head_ + 1) & (items_.size() - 1);
    --count_;
    return time;
  }

 private:
  void grow() {
    std::vector<double> larger(items_.empty() ? 64 : items_.size() * 2);
    for (std::size_t i = 0; i < count_; ++i) larger[i] = items_[(head_ + i) & (items_.size() - 1)];
    items_ = std::move(larger);
    head_ = 0;
  }
  std::vector<double> items_;
  std::size_t head_ = 0, count_ = 0;
};

// Where a rank is in the order of chunks; every rank walks the same groups.
struct ChunkWalk {
  std::int32_t chunk = 0, left = 0, group = 0;

  // `count` steps at once, which must not be more than are left of the chunk's turn.
  void advance(const LoopedPlan& plan, std::int32_t count = 1) {
    left -= count;
    if (left > 0) return;
    if (++chunk == plan.chunks) {
      chunk = 0;
      ++group;
    }
    if (static_cast<std::size_t>(group) < plan.groups.size()) {
      left = plan.groups[static_cast<std::size_t>(group)];
    }
  }
};

class Systolic {
 public:
  Systolic(const LoopedPlan& plan, const Pricing& pricing, const Levels& levels)
      : plan_(plan),
        levels_(levels),
        ranks_(static_cast<std::size_t>(plan.ranks)),
        last_chunk_(plan.chunks - 1),
        work_(plan.work()),
        lanes_(ranks_),
        forward_out_(ranks_),
        backward_out_(ranks_),
        walks_(ranks_ * 3, ChunkWalk{0, plan.groups.front(), 0}) {
    const std::size_t stages = pricing.stages.size();
    for (int kind = 0; kind < 4; ++kind) {
      auto& times = times_[static_cast<std::size_t>(kind)];
      for (const StagePrice& stage : pricing.stages) times.push_back(stage.time[kind]);
    }
    for (std::size_t s = 0; s < stages; ++s) {
      // What an input of the stage costs to move; zero within a rank.
      const bool local_down = s == 0 || pricing.stages[s - 1].link[0] < 0;
      const bool local_up = s + 1 == stages || pricing.stages[s + 1].link[1] < 0;
      forward_move_.push_back(local_down ? 0 : pricing.stages[s - 1].send[0]);
      backward_move_.push_back(local_up ? 0 : pricing.stages[s + 1].send[1]);
    }
  }

  std::vector<Lane> run() && {
    std::int64_t last = 0;
    for (const std::int64_t first : levels_.first) last = std::max(last, first + 2 * (work_ - 1));
    std::size_t from = ranks_;  // ranks from here on have begun their backwards
    for (std::int64_t level = 0; level <= last; ++level) {
      step_forwards(level);
      while (from > 0 && levels_.first[from - 1] <= level) --from;
      step_backwards(level, from);
    }
    if (plan_.split) {
      for (std::size_t r = 0; r < ranks_; ++r) finish_weights(r);
    }
    return std::move(lanes_);
  }

 private:
  // From the last rank up, so that a result is taken before it is overwritten.
  void step_forwards(std::int64_t level) {
    const std::int64_t slope = levels_.slope;
    auto r = std::min<std::int64_t>(plan_.ranks - 1, level / slope);
    const std::int64_t least = std::max<std::int64_t>(
        0, ceil_div(std::max<std::int64_t>(0, level - 2 * work_ + 1), slope));
    if ((level - slope * r) % 2 != 0) {
      if (slope == 2) return;
      --r;
    }
    for (; r >= least; r -= 3 - slope) {
      forward(static_cast<std::size_t>(r), (level - slope * r) / 2);
    }
  }

  void step_backwards(std::int64_t level, std::size_t from) {
    for (std::size_t r = from; r < ranks_; ++r) {
      const std::int64_t steps = level - levels_.first[r];
      if ((steps & 1) == 0 && steps < 2 * work_) backward(r, steps / 2);
    }
  }

  void forward(std::size_t r, std::int64_t index) {
    Lane& lane = lanes_[r];
    ChunkWalk& walk = walks_[r * 3];
    const std::size_t stage = static_cast<std::size_t>(walk.chunk) * ranks_ + r;
    if (stage > 0) {
      const double sent = r > 0 ? forward_out_[r - 1] : wrap_down_.pop();
      const bool before = index <= plan_.warmup[r];
      wait(lane, sent, forward_move_[stage], before ? lane.warmup : lane.steady);
    }
    lane.clock += times_[0][stage];
    lane.busy += times_[0][stage];
    forward_out_[r] = lane.clock;
    if (r + 1 == ranks_ && walk.chunk < last_chunk_) wrap_down_.push(lane.clock);
    walk.advance(plan_);
  }

  void backward(std::size_t r, std::int64_t index) {
    Lane& lane = lanes_[r];
    ChunkWalk& walk = walks_[r * 3 + 1];
    const std::size_t stage = static_cast<std::size_t>(last_chunk_ - walk.chunk) * ranks_ + r;
    if (stage + 1 < forward_move_.size()) {
      const double sent = r + 1 < ranks_ ? backward_out_[r + 1] : wrap_up_.pop();
      const bool drains = index + plan_.warmup[r] + 1 >= work_;
      wait(lane, sent, backward_move_[stage],
           index == 0 ? lane.warmup : (drains ? lane.drain : lane.steady));
    }
    const double time = times_[plan_.split ? 1 : 3][stage];
    lane.clock += time;
    lane.busy += time;
    backward_out_[r] = lane.clock;
    if (r == 0 && walk.chunk < last_chunk_) wrap_up_.push(lane.clock);
    walk.advance(plan_);
    if (plan_.split && index >= plan_.lag[r]) weight(r);
  }

  void weight(std::size_t r) {
    Lane& lane = lanes_[r];
    ChunkWalk& walk = walks_[r * 3 + 2];
    const double time = times_[2][static_cast<std::size_t>(last_chunk_ - walk.chunk) * ranks_ + r];
    lane.clock += time;
    lane.busy += time;
    walk.advance(plan_);
  }

  void finish_weights(std::size_t r) {
    const std::int64_t left = std::min(work_, plan_.lag[r]);
    for (std::int64_t i = 0; i < left; ++i) weight(r);
  }

  static void wait(Lane& lane, double sent, double move, double& idle) {
    const double at = sent + move;
    if (at <= lane.clock) return;
    const double moving_from = std::max(lane.clock, sent);
    idle += moving_from - lane.clock;
    lane.transfer += at - moving_from;
    lane.clock = at;
  }

  const LoopedPlan& plan_;
  const Levels& levels_;
  std::size_t ranks_;
  std::int32_t last_chunk_;
  std::int64_t work_;
  std::vector<Lane> lanes_;
  std::vector<double> forward_out_, backward_out_;
  std::vector<ChunkWalk> walks_;  // three per rank: F, B or I, W
  std::vector<double> times_[4], forward_move_, backward_move_;
  TimeQueue wrap_down_, wrap_up_;
};

// A rank's memory in turns: while forwards, backwards and weights each stay in one chunk, every
// round changes it by the same amount, so the most is reached in the first or the last round.
class TurnMemory {
 public:
  TurnMemory(const LoopedPlan& plan, const Pricing& pricing, std::size_t rank)
      : plan_(plan),
        pricing_(pricing),
        rank_(rank),
        live_(pricing.standing[rank]),
        peak_(live_),
        forward_{0, plan.groups.front(), 0},
        backward_(forward_),
        weight_(forward_) {}

  // O(turns).
  std::int64_t peak() && {
    const std::int64_t work = plan_.work(), warmup = plan_.warmup[rank_];
    const std::int64_t late = plan_.split ? warmup + plan_.lag[rank_] : work + warmup;
    for (std::int64_t step = 0; step < work + warmup;) {
      std::int64_t rounds = work + warmup - step;
      for (const std::int64_t change : {work, warmup, late}) {
        if (change > step) rounds = std::min(rounds, change - step);
      }
      step += turn(rounds, step < work, step >= warmup, plan_.split && step >= late);
    }
    std::int64_t weights = plan_.split ? std::min(work, plan_.lag[rank_]) : 0;
    while (weights > 0) weights -= turn(weights, false, false, true);
    return peak_;
  }

 private:
  std::int64_t memory(int chunk, ActionKind kind) const {
    return pricing_.stages[static_cast<std::size_t>(chunk * plan_.ranks) + rank_]
        .memory[static_cast<std::size_t>(kind)];
  }

  // Runs up to `rounds` rounds and says how many.
  std::int64_t turn(std::int64_t rounds, bool forward, bool backward, bool weight) {
    const ActionKind kind = plan_.split ? ActionKind::BackwardInput : ActionKind::Backward;
    std::int64_t change[3] = {0, 0, 0};
    if (forward) {
      rounds = std::min<std::int64_t>(rounds, forward_.left);
      change[0] = memory(forward_.chunk, ActionKind::Forward);
    }
    if (backward) {
      rounds = std::min<std::int64_t>(rounds, backward_.left);
      change[1] = -memory(plan_.chunks - 1 - backward_.chunk, kind);
    }
    if (weight) {
      rounds = std::min<std::int64_t>(rounds, weight_.left);
      change[2] = -memory(plan_.chunks - 1 - weight_.chunk, ActionKind::BackwardWeight);
    }
    const std::int64_t round = change[0] + change[1] + change[2];
    for (const std::int64_t before : {live_, live_ + (rounds - 1) * round}) {
      peak_ = std::max({peak_, before + change[0], before + change[0] + change[1], before + round});
    }
    live_ += rounds * round;
    const auto count = static_cast<std::int32_t>(rounds);
    if (forward) forward_.advance(plan_, count);
    if (backward) backward_.advance(plan_, count);
    if (weight) weight_.advance(plan_, count);
    return rounds;
  }

  const LoopedPlan& plan_;
  const Pricing& pricing_;
  std::size_t rank_;
  std::int64_t live_, peak_;
  ChunkWalk forward_, backward_, weight_;
};

}  // namespace

std::optional<Timeline> run_systolic(const LoopedPlan& plan, const Pricing& pricing) {
  if (pricing.inner_memory || pricing.options.links != Links::Unlimited ||
      pricing.options.transfers != Transfers::Overlapped) {
    return std::nullopt;
  }
  const auto levels = find_levels(plan);
  if (!levels) return std::nullopt;
  std::vector<Lane> lanes = Systolic(plan, pricing, *levels).run();
  for (std::size_t r = 0; r < lanes.size(); ++r) {
    lanes[r].peak = TurnMemory(plan, pricing, r).peak();
  }
  return totals_of(lanes);
}

}  // namespace trainwright::detail
