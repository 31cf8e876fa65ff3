// The clock without lists: the looped kinds tell their next action from O(1) state per rank, and
// what is under way between two stages is a queue.
#include <fmt/format.h>

#include "trainwright/base/check.h"
#include "trainwright/schedule/clock.h"
#include "trainwright/schedule/order.h"
#include "trainwright/schedule/systolic.h"

namespace trainwright {
namespace detail {
namespace {

// A ring that doubles when it is full, so that it holds what is in flight and no more.
class Ring {
 public:
  bool empty() const { return count_ == 0; }
  Arrival front() const { return items_[head_]; }
  void pop() {
    head_ = (head_ + 1) & (items_.size() - 1);
    --count_;
  }
  void push(Arrival arrival) {
    if (count_ == items_.size()) grow();
    items_[(head_ + count_) & (items_.size() - 1)] = arrival;
    ++count_;
  }

 private:
  void grow() {
    std::vector<Arrival> larger(items_.empty() ? 4 : items_.size() * 2);
    for (std::size_t i = 0; i < count_; ++i) {
      larger[i] = items_[(head_ + i) & (items_.size() - 1)];
    }
    items_ = std::move(larger);
    head_ = 0;
  }
  std::vector<Arrival> items_;
  std::size_t head_ = 0, count_ = 0;
};

class QueueMail {
 public:
  explicit QueueMail(int stages) : rings_(static_cast<std::size_t>(stages) * 2) {}
  Arrival peek(Action action) const {
    const Ring& ring = rings_[static_cast<std::size_t>(key(action))];
    return ring.empty() ? Arrival{} : ring.front();
  }
  void take(Action action) { rings_[static_cast<std::size_t>(key(action))].pop(); }
  void put(Action action, Arrival arrival) {
    rings_[static_cast<std::size_t>(key(action))].push(arrival);
  }
  static std::int64_t key(Action action) {
    return action.stage * 2 + (action.kind == ActionKind::Forward ? 0 : 1);
  }

 private:
  std::vector<Ring> rings_;
};

class StreamOrders {
 public:
  explicit StreamOrders(const LoopedPlan& plan) {
    for (int rank = 0; rank < plan.ranks; ++rank) cursors_.emplace_back(plan, rank);
  }
  bool done(std::size_t rank) const { return cursors_[rank].done(); }
  Action front(std::size_t rank) const { return cursors_[rank].front(); }
  void pop(std::size_t rank) { cursors_[rank].pop(); }
  // The looped kinds have no groups.
  std::size_t group(std::size_t) const { return 1; }
  Action ahead(std::size_t rank, std::size_t) const { return front(rank); }

 private:
  std::vector<LoopedCursor> cursors_;
};

}  // namespace
}  // namespace detail

Result<Timeline> simulate_kind(ScheduleKind kind, Shape shape, const Costs& costs,
                               const ClockOptions& clock, const MakeOptions& options) {
  Diagnostics faults = faults_of(kind, shape, options);
  if (!faults.empty()) return fail(std::move(faults));
  const KindFacts& facts = facts_of(kind);
  if (!streams(facts)) {
    return fail("schedule kind", fmt::format("{} cannot be timed without its lists", facts.name),
                "use make and simulate");
  }
  const Placement placement = placed(StagePlacement::Loop, shape.ranks, shape.chunks);
  if (costs.stages.size() != placement.rank_of.size() ||
      costs.boundaries.size() + 1 != costs.stages.size()) {
    return fail("costs", fmt::format("they are for {} stages, not {}", costs.stages.size(),
                                     placement.stages()));
  }
  const detail::Pricing pricing = detail::price(placement, shape.microbatches, costs, clock);
  const detail::LoopedPlan plan = detail::looped_plan(kind, shape, options);
  if (const auto fast = detail::run_systolic(plan, pricing)) return *fast;
  detail::StreamOrders orders(plan);
  detail::QueueMail mail(placement.stages());
  detail::NoRecord record;
  detail::Clock engine(pricing, orders, mail, record);
  TW_CHECK(engine.run(), "a looped kind waits for itself");
  return engine.totals();
}

}  // namespace trainwright
