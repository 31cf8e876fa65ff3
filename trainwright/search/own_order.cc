#include "trainwright/search/own_order.h"

#include <algorithm>

namespace trainwright {
namespace {

constexpr int kMostChunks = 32;  // that the scheduler takes

// The layout with its order from a file.
Layout from_file(Layout layout) {
  layout.schedule = ScheduleKind::Csv;
  return layout;
}

// All forwards, then all backwards, whole or split: a plain order to ask the trainer about.
Schedule plain_order(const Layout& layout, bool split) {
  Schedule order{
      static_cast<int>(micro_batch_count(layout)),
      placed(layout.placement, static_cast<int>(layout.pp), static_cast<int>(layout.vpp)),
      {}};
  order.ranks.resize(static_cast<std::size_t>(layout.pp));
  const auto add = [&](ActionKind kind, int stage) {
    auto& list = order.ranks[order.placement.rank_of[static_cast<std::size_t>(stage)].at()];
    for (int m = 0; m < order.microbatches; ++m) list.push_back(make_action(kind, stage, m));
  };
  const int stages = order.placement.stages();
  for (int s = 0; s < stages; ++s) add(ActionKind::Forward, s);
  for (int s = stages; s-- > 0;) {
    add(split ? ActionKind::BackwardInput : ActionKind::Backward, s);
    if (split) add(ActionKind::BackwardWeight, s);
  }
  return order;
}

bool accepts(const SearchQuestion& question, const Layout& layout, const Schedule& order) {
  return is_legal(
      violations(layout, question.job, question.model, question.cluster, question.trainer, &order));
}

bool can_be_ordered(const SearchQuestion& question, const Layout& layout) {
  return layout.pp > 1 && layout.vpp <= kMostChunks &&
         allows(question.limits, "schedule", name_of(layout.schedule)) &&
         find_kind(question.trainer.schedules, ScheduleKind::Csv) != nullptr &&
         3 * stage_count(layout) * micro_batch_count(layout) <= kMostOrdered;
}

Result<PlannedLayout> planned(const SearchQuestion& question, const Layout& layout,
                              const Schedule& order) {
  MemoryQuestion memory = memory_question(question, layout);
  memory.schedule = &order;
  StepQuestion step = step_question(question, layout);
  step.schedule = &order;
  const StackConstants& stack = stack_of(question.time.stacks, question.trainer).constants;
  MemoryEstimate estimate = TW_TRY(estimate_memory(memory));
  return PlannedLayout{layout, step_time(TW_TRY(step_pieces(step)), stack), std::move(estimate)};
}

// What each rank can hold more until its chance of OOM is the risk; less where it is above it.
std::vector<Bytes> room_of(const MemoryEstimate& memory, double risk) {
  std::vector<Bytes> room;
  for (const RankClass& rank : memory.classes) {
    room.push_back(memory.capacity -
                   exceeded_with(risk, rank.driver, spread_of(rank, Counter::Driver)));
  }
  return room;
}

// Of activations, as the clock counts them: those of an order and what is left beside it.
std::vector<Bytes> caps_of(const Timeline& timeline, const std::vector<Bytes>& room) {
  std::vector<Bytes> caps;
  for (std::size_t r = 0; r < room.size(); ++r) {
    caps.push_back(std::max(Bytes(0), timeline.ranks[r].peak + room[r]));
  }
  return caps;
}

// What the scheduler is given of a layout, and what its answers are held against.
struct Ordering {
  const SearchQuestion& question;
  const PlannedLayout& fixed;
  Layout layout;  // with its order from a file
  DrawnPipeline drawn;
};

// The first that fits, with caps lowered where the referee counts more than the clock, but not
// below what the fixed order takes.
Result<std::optional<OwnOrder>> ordered(const Ordering& of, bool split) {
  const double risk = of.question.risk;
  const Timeline fixed = simulate(of.drawn.schedule, of.drawn.costs);
  AutoOptions options{.chunks = static_cast<int>(of.layout.vpp),
                      .placements = {of.layout.placement},
                      .cap = caps_of(fixed, room_of(of.fixed.memory, risk)),
                      .budget = kOrderBudget,
                      .whole = !split};
  for (int round = 0; round < kOrderRounds; ++round) {
    AutoSchedule found = TW_TRY(make_auto(static_cast<int>(of.layout.pp),
                                          of.drawn.schedule.microbatches, of.drawn.costs, options));
    if (!found.schedule || !accepts(of.question, of.layout, *found.schedule)) return std::nullopt;
    PlannedLayout plan = TW_TRY(planned(of.question, of.layout, *found.schedule));
    if (plan.memory.oom <= risk) {
      return OwnOrder{*std::move(found.schedule), std::move(plan), {}, {}, split};
    }
    const auto lower = caps_of(found.timeline, room_of(plan.memory, risk));
    for (std::size_t r = 0; r < lower.size(); ++r) {
      options.cap[r] = std::max(std::min(options.cap[r], lower[r]), fixed.ranks[r].peak);
    }
  }
  return std::nullopt;
}

// The layout's own kind as a file.
Result<std::optional<OwnOrder>> fixed_order(const Ordering& of) {
  if (!accepts(of.question, of.layout, of.drawn.schedule)) return std::nullopt;
  PlannedLayout plan = TW_TRY(planned(of.question, of.layout, of.drawn.schedule));
  if (plan.memory.oom > of.question.risk) return std::nullopt;
  return OwnOrder{of.drawn.schedule, std::move(plan), {}, {}, false};
}

}  // namespace

double gain(const OwnOrder& own) { return 1 - own.plan.time.step / own.fixed; }
double gap(const OwnOrder& own) { return own.plan.time.step / own.least - 1; }

Result<std::optional<DrawnPipeline>> drawn_pipeline(const SearchQuestion& question,
                                                    const Layout& layout, const StepPieces& pieces,
                                                    std::int64_t most) {
  const StackConstants& stack = stack_of(question.time.stacks, question.trainer).constants;
  auto drawn = drawn_pipeline(pieces, stack, most);
  if (!drawn) return drawn;
  const auto bytes = TW_TRY(stage_bytes(memory_question(question, layout)));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    drawn->costs.stages[i].kept = bytes[i].kept;
    drawn->costs.stages[i].released_by_input = bytes[i].kept - bytes[i].half;
  }
  return drawn;
}

Result<std::optional<OwnOrder>> own_order(const SearchQuestion& question,
                                          const PlannedLayout& fixed) {
  const Layout layout = from_file(fixed.layout);
  if (!can_be_ordered(question, layout)) return std::nullopt;
  const bool split = accepts(question, layout, plain_order(layout, true));
  if (!split && !accepts(question, layout, plain_order(layout, false))) return std::nullopt;
  const StackConstants& stack = stack_of(question.time.stacks, question.trainer).constants;
  const StepPieces pieces = TW_TRY(step_pieces(step_question(question, fixed.layout)));
  auto drawn = TW_TRY(drawn_pipeline(question, fixed.layout, pieces, micro_batch_count(layout)));
  if (!drawn) return std::nullopt;
  const auto step_of = [&](Seconds makespan) {
    return step_time(with_makespan(pieces, stack, makespan), stack).step;
  };
  const Ordering of{question, fixed, layout, *std::move(drawn)};
  const auto& [order, costs] = of.drawn;
  const Seconds least = step_of(
      lower_bound(order.placement, order.microbatches, split ? costs : with_whole_backward(costs)));
  const Seconds before = std::min(fixed.time.step, step_of(simulate(order, costs).makespan));
  auto own = TW_TRY(ordered(of, split));
  const auto offer = [&](std::optional<OwnOrder> other) {
    if (other && (!own || other->plan.time.step < own->plan.time.step)) own = std::move(other);
  };
  // A split backward keeps more for longer, so whole ones may fit where it does not.
  if (split && (!own || own->plan.time.step >= before)) offer(TW_TRY(ordered(of, false)));
  if (!own || own->plan.time.step >= before) offer(TW_TRY(fixed_order(of)));
  if (!own) return own;
  own->fixed = before;
  own->least = std::min(least, own->plan.time.step);  // but for rounding
  own->split = split;
  return own;
}

}  // namespace trainwright
