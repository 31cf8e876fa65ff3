#pragma once
// The looped kinds (gpipe, 1f1b, eager-1f1b, interleaved-1f1b, looped-bfs, zb-h1, zb-h2,
// interleaved-zb) are one family. A rank runs `warmup` forwards, then alternates one forward and
// one backward, then the backwards that are left; a split kind adds one W per backward, `lag`
// backwards late. Forwards take the micro-batches in groups: every chunk runs a whole group before
// the next chunk does, backwards the same with the chunks from last to first.
//
// Within a stage each kind of action runs the micro-batches in the same order everywhere, so the
// order needs O(1) state per rank and messages between two stages are a queue.
#include <cstdint>
#include <vector>

#include "trainwright/schedule/schedule.h"

namespace trainwright::detail {

struct LoopedPlan {
  int ranks = 1, chunks = 1, microbatches = 1;
  std::vector<std::int32_t> groups;  // their sizes, which add up to the micro-batches
  bool split = false;                // I and W instead of B
  bool last_first = false;           // backwards take a group's micro-batches in reverse
  std::vector<std::int64_t> warmup;  // by rank
  std::vector<std::int64_t> lag;     // by rank

  std::int64_t work() const { return static_cast<std::int64_t>(chunks) * microbatches; }
};

// Walks (chunk, micro-batch) pairs in the order of groups.
class GroupWalk {
 public:
  GroupWalk(const LoopedPlan& plan, bool backward)
      : plan_(&plan), backward_(backward), size_(plan.groups.front()) {}
  int chunk() const { return backward_ ? plan_->chunks - 1 - chunk_ : chunk_; }
  int microbatch() const {
    return backward_ && plan_->last_first ? start_ + size_ - 1 - offset_ : start_ + offset_;
  }
  void next() {
    if (++offset_ < size_) return;
    offset_ = 0;
    if (++chunk_ < plan_->chunks) return;
    chunk_ = 0;
    start_ += size_;
    if (++group_ < plan_->groups.size()) size_ = plan_->groups[group_];
  }

 private:
  const LoopedPlan* plan_;
  bool backward_;
  std::int32_t chunk_ = 0, offset_ = 0, start_ = 0, size_ = 0;
  std::size_t group_ = 0;
};

// One rank's list, one action at a time.
class LoopedCursor {
 public:
  LoopedCursor(const LoopedPlan& plan, int rank)
      : plan_(&plan),
        rank_(rank),
        forward_(plan, false),
        backward_(plan, true),
        weight_(plan, true),
        work_(plan.work()),
        warmup_(plan.warmup[static_cast<std::size_t>(rank)]),
        lag_(plan.lag[static_cast<std::size_t>(rank)]) {
    pop();
  }
  bool done() const { return done_; }
  Action front() const { return front_; }
  void pop() {
    if (weight_due_) {
      weight_due_ = false;
      take(weight_, ActionKind::BackwardWeight);
      ++weights_;
    } else if (forwards_ < work_ && forwards_ <= backwards_ + warmup_) {
      take(forward_, ActionKind::Forward);
      ++forwards_;
    } else if (backwards_ < work_) {
      take(backward_, plan_->split ? ActionKind::BackwardInput : ActionKind::Backward);
      weight_due_ = plan_->split && backwards_ >= lag_;
      ++backwards_;
    } else if (plan_->split && weights_ < work_) {
      take(weight_, ActionKind::BackwardWeight);
      ++weights_;
    } else {
      done_ = true;
    }
  }

 private:
  void take(GroupWalk& walk, ActionKind kind) {
    front_ = make_action(kind, walk.chunk() * plan_->ranks + rank_, walk.microbatch());
    walk.next();
  }

  const LoopedPlan* plan_;
  int rank_;
  GroupWalk forward_, backward_, weight_;
  std::int64_t work_, warmup_, lag_;
  std::int64_t forwards_ = 0, backwards_ = 0, weights_ = 0;
  bool weight_due_ = false, done_ = false;
  Action front_;
};

// The plan of a looped kind; the shape and options must be valid for it.
LoopedPlan looped_plan(ScheduleKind kind, Shape shape, const MakeOptions& options);
// The kinds with a V placement, made as whole lists.
Schedule make_zb_v(Shape shape);
Schedule make_dualpipe_v(Shape shape);
Schedule make_controlled_v(ScheduleKind kind, Shape shape);  // v-half, v-min
Schedule make_zb_vpp(Shape shape, const MakeOptions& options);

}  // namespace trainwright::detail
