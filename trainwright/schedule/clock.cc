#include "trainwright/schedule/clock.h"

#include <map>
#include <utility>

#include "trainwright/base/check.h"

namespace trainwright {
namespace detail {
namespace {

// Numbers the directed links between ranks and tells every stage whom it sends to.
void place_stages(const Placement& placement, Pricing& pricing) {
  const int stages = placement.stages();
  std::map<std::pair<int, int>, int> links;
  for (int stage = 0; stage < stages; ++stage) {
    StagePrice& priced = pricing.stages[static_cast<std::size_t>(stage)];
    priced.rank = placement.rank_of[static_cast<std::size_t>(stage)].index();
    ++pricing.stages_of[static_cast<std::size_t>(priced.rank)];
    for (const int way : {0, 1}) {
      const int neighbour = way == 0 ? stage + 1 : stage - 1;
      if (neighbour < 0 || neighbour >= stages) continue;
      const int target = placement.rank_of[static_cast<std::size_t>(neighbour)].index();
      priced.target[way] = target;
      if (target == priced.rank) continue;
      const auto number = static_cast<int>(links.size());
      priced.link[way] = links.try_emplace({priced.rank, target}, number).first->second;
    }
  }
  pricing.links = static_cast<int>(links.size());
}

void price_stage(const Costs& costs, std::size_t stage, EngineRules engine, StagePrice& priced) {
  const StageCosts& cost = costs.stages[stage];
  const bool unsplit = engine == EngineRules::PyTorch && stage == 0;
  const bool last = stage + 1 == costs.stages.size();
  const double extra = costs.per_action.value();
  priced.time[0] = cost.forward.value() + (last ? costs.loss.value() : 0) + extra;
  priced.time[1] = (unsplit ? 0 : cost.backward_input.value()) + extra;
  priced.time[2] = (unsplit ? cost.backward : cost.backward_weight).value() + extra;
  priced.time[3] = cost.backward.value() + extra;
  priced.memory[0] = priced.memory[3] = cost.kept.value();
  priced.memory[1] = unsplit ? 0 : cost.released_by_input.value();
  priced.memory[2] = checked_sub(cost.kept.value(), priced.memory[1]);
  if (!last) priced.send[0] = costs.boundaries[stage].activation.value();
  if (stage > 0) priced.send[1] = costs.boundaries[stage - 1].gradient.value();
}

// PyTorch's runtime, measured on its running stages (docs/engine.md): at the first step it
// allocates one buffer per micro-batch for every activation and every gradient that a stage gets,
// also from a stage of the same rank, where the tensor itself then takes the buffer's place. What
// goes to another rank stays alive until the step ends, because only then does the runtime wait for
// its sends. So an output is never released by the backward, and a sent input gradient comes on
// top.
void add_transport_memory(const Costs& costs, Pricing& pricing) {
  const auto add = [](std::int64_t& to, std::int64_t bytes) { to = checked_add(to, bytes); };
  for (std::size_t stage = 0; stage + 1 < pricing.stages.size(); ++stage) {
    StagePrice& lower = pricing.stages[stage];
    StagePrice& upper = pricing.stages[stage + 1];
    const std::int64_t size = costs.boundaries[stage].size.value();
    const std::int64_t buffers = checked_mul(size, pricing.microbatches);
    add(pricing.standing[static_cast<std::size_t>(lower.rank)], buffers);
    add(pricing.standing[static_cast<std::size_t>(upper.rank)], buffers);
    add(lower.memory[2], -size);
    add(lower.memory[3], -size);
    if (lower.link[0] < 0) {
      add(lower.memory[0], -size);
    } else {
      add(upper.memory[1], -size);
      add(upper.memory[3], -size);
    }
  }
}

// Peaks inside actions become what is above the level that the clock counts at their start.
void add_inner_memory(const Costs& costs, EngineRules engine, Pricing& pricing) {
  const auto add = [](std::int64_t& to, Bytes bytes) { to = checked_add(to, bytes.value()); };
  for (std::size_t s = 0; s < costs.stages.size(); ++s) {
    const StageCosts& cost = costs.stages[s];
    StagePrice& priced = pricing.stages[s];
    const bool unsplit = engine == EngineRules::PyTorch && s == 0;
    add(pricing.standing[static_cast<std::size_t>(priced.rank)], cost.resident);
    priced.gradients = cost.gradients.value();
    const std::int64_t forward = cost.inside.forward.value();
    if (forward > 0) priced.above[0] = std::max<std::int64_t>(0, forward - priced.memory[0]);
    priced.above[1] = unsplit ? 0 : cost.inside.backward_input.value();
    priced.above[2] = (unsplit ? cost.inside.backward : cost.inside.backward_weight).value();
    priced.above[3] = cost.inside.backward.value();
    const Bytes first_weight = unsplit ? cost.inside.first_backward : cost.inside.first_weight;
    const Bytes first[2] = {first_weight, cost.inside.first_backward};
    for (std::size_t kind = 0; kind < 2; ++kind) {
      priced.first_above[kind] =
          first[kind] > Bytes(0) ? (first[kind] - cost.gradients).value() : priced.above[2 + kind];
    }
    for (const std::int64_t bytes : priced.above) pricing.inner_memory |= bytes > 0;
    pricing.inner_memory |= priced.gradients > 0;
  }
}

// The most a rank can ever hold must fit 64 bits, so that the clock may add without checks.
void check_memory_range(const Costs& costs, int microbatches) {
  std::int64_t most = 0;
  for (const StageCosts& stage : costs.stages) {
    const std::int64_t released = stage.released_by_input.value();
    const std::int64_t swing = checked_add(stage.kept.value(), released < 0 ? -released : released);
    most = checked_add(most, checked_mul(swing, microbatches));
    most = checked_add(most, checked_add(stage.resident.value(), stage.gradients.value()));
    for (const Bytes once : all_of(stage.inside)) most = checked_add(most, once.value());
  }
  for (const BoundaryCosts& boundary : costs.boundaries) {
    most = checked_add(most, checked_mul(checked_mul(boundary.size.value(), 4), microbatches));
  }
}

}  // namespace

Timeline totals_of(const std::vector<Lane>& lanes) {
  Timeline timeline;
  double makespan = 0;
  for (const Lane& lane : lanes) makespan = std::max(makespan, lane.clock);
  timeline.makespan = Seconds(makespan);
  for (const Lane& lane : lanes) {
    timeline.ranks.push_back({Seconds(lane.busy), Seconds(lane.warmup), Seconds(lane.steady),
                              Seconds(lane.drain + (makespan - lane.clock)), Seconds(lane.transfer),
                              Bytes(lane.peak)});
  }
  return timeline;
}

Pricing price_nothing(const Placement& placement, int microbatches) {
  Pricing pricing;
  pricing.ranks = placement.ranks;
  pricing.microbatches = microbatches;
  pricing.stages.resize(placement.rank_of.size());
  pricing.standing.resize(static_cast<std::size_t>(placement.ranks));
  pricing.stages_of.resize(static_cast<std::size_t>(placement.ranks));
  place_stages(placement, pricing);
  return pricing;
}

Pricing price(const Placement& placement, int microbatches, const Costs& costs,
              const ClockOptions& options) {
  TW_CHECK(costs.stages.size() == placement.rank_of.size(), "costs are for other stages");
  TW_CHECK(costs.boundaries.size() + 1 == costs.stages.size(), "one boundary between two stages");
  Pricing pricing = price_nothing(placement, microbatches);
  pricing.overlap = costs.overlap;
  pricing.options = options;
  check_memory_range(costs, microbatches);
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    price_stage(costs, stage, options.engine, pricing.stages[stage]);
  }
  if (options.engine == EngineRules::PyTorch) add_transport_memory(costs, pricing);
  add_inner_memory(costs, options.engine, pricing);
  return pricing;
}

std::vector<std::int32_t> positions(const Schedule& schedule) {
  const auto microbatches = static_cast<std::size_t>(schedule.microbatches);
  std::vector<std::int32_t> found(schedule.placement.rank_of.size() * microbatches * 2, -1);
  for (const auto& list : schedule.ranks) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Action action = list[i];
      if (action.kind == ActionKind::BackwardWeight) continue;
      const std::size_t pair =
          action.stage * microbatches + static_cast<std::size_t>(action.microbatch);
      found[pair * 2 + (is_backward(action.kind) ? 1 : 0)] = static_cast<std::int32_t>(i);
    }
  }
  return found;
}

namespace {

struct FullRecord {
  std::vector<std::vector<Span>> spans;
  std::vector<std::vector<MemoryPoint>> points;
  std::vector<std::vector<PathStep::After>> after;
  std::vector<std::vector<Bubble>> bubbles;

  explicit FullRecord(const Schedule& schedule)
      : spans(schedule.ranks.size()),
        points(schedule.ranks.size()),
        after(schedule.ranks.size()),
        bubbles(schedule.ranks.size()) {
    for (std::size_t rank = 0; rank < spans.size(); ++rank) {
      spans[rank].reserve(schedule.ranks[rank].size());
      after[rank].reserve(schedule.ranks[rank].size());
    }
  }
  void action(std::size_t rank, Action, double start, double end, PathStep::After why) {
    spans[rank].push_back({Seconds(start), Seconds(end)});
    after[rank].push_back(why);
  }
  void bubble(std::size_t rank, double from, double until, Cause cause) {
    bubbles[rank].push_back({Seconds(from), Seconds(until), cause});
  }
  void memory(std::size_t rank, double at, std::int64_t live) {
    if (!points[rank].empty() && points[rank].back().live == Bytes(live)) return;
    if (!points[rank].empty() && points[rank].back().at == Seconds(at)) {
      points[rank].back().live = Bytes(live);
    } else {
      points[rank].push_back({Seconds(at), Bytes(live)});
    }
  }
};

// The member of the group at `index` that the group waited for, or `index` itself.
std::int32_t awaited_member(const Schedule& schedule, const FullRecord& record, std::size_t rank,
                            std::int32_t index) {
  const auto& list = schedule.ranks[rank];
  auto first = static_cast<std::size_t>(index);
  while (first > 0 && list[first - 1].overlaps_next) --first;
  for (std::size_t i = first; i == first || list[i - 1].overlaps_next; ++i) {
    if (record.after[rank][i] == PathStep::After::Transfer) return static_cast<std::int32_t>(i);
    if (!list[i].overlaps_next) break;
  }
  return static_cast<std::int32_t>(first);
}

std::vector<PathStep> critical_path(const Schedule& schedule, const FullRecord& record,
                                    const ClockOptions& options) {
  const std::vector<std::int32_t> position = positions(schedule);
  std::size_t rank = 0;
  for (std::size_t other = 0; other < record.spans.size(); ++other) {
    if (record.spans[other].empty()) continue;
    if (record.spans[rank].empty() ||
        record.spans[other].back().end > record.spans[rank].back().end) {
      rank = other;
    }
  }
  std::vector<PathStep> path;
  auto index = static_cast<std::int32_t>(record.spans[rank].size()) - 1;
  while (index >= 0) {
    if (options.engine == EngineRules::None) {
      index = awaited_member(schedule, record, rank, index);
    }
    const PathStep::After after = record.after[rank][static_cast<std::size_t>(index)];
    path.push_back({after, RankId(static_cast<std::int32_t>(rank)), index});
    if (after == PathStep::After::Nothing) break;
    if (after == PathStep::After::Rank) {
      --index;
      continue;
    }
    const Action action = schedule.ranks[rank][static_cast<std::size_t>(index)];
    const bool back = is_backward(action.kind);
    const auto source = static_cast<std::size_t>(back ? action.stage + 1 : action.stage - 1);
    const auto pair = source * static_cast<std::size_t>(schedule.microbatches) +
                      static_cast<std::size_t>(action.microbatch);
    rank = schedule.placement.rank_of[source].at();
    index = position[pair * 2 + (back ? 1 : 0)];
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace
}  // namespace detail

Timeline simulate(const Schedule& schedule, const Costs& costs, const ClockOptions& options) {
  const detail::Pricing pricing =
      detail::price(schedule.placement, schedule.microbatches, costs, options);
  detail::ListOrders orders(schedule);
  detail::TableMail mail(schedule.placement.stages(), schedule.microbatches);
  if (options.detail == Detail::Totals) {
    detail::NoRecord record;
    detail::Clock clock(pricing, orders, mail, record);
    TW_CHECK(clock.run(), "a schedule that waits for itself reached the clock");
    Timeline timeline = clock.totals();
    timeline.in_forwards = costs.in_forwards;
    return timeline;
  }
  detail::FullRecord record(schedule);
  detail::Clock clock(pricing, orders, mail, record);
  TW_CHECK(clock.run(), "a schedule that waits for itself reached the clock");
  Timeline timeline = clock.totals();
  timeline.in_forwards = costs.in_forwards;
  timeline.critical_path = detail::critical_path(schedule, record, options);
  for (std::size_t rank = 0; rank < record.bubbles.size(); ++rank) {
    auto& bubbles = record.bubbles[rank];
    Seconds last;
    if (!record.spans[rank].empty()) last = record.spans[rank].back().end;
    if (!bubbles.empty()) last = std::max(last, bubbles.back().end);
    if (last < timeline.makespan) bubbles.push_back({last, timeline.makespan, Cause::Drain});
  }
  timeline.bubbles = std::move(record.bubbles);
  timeline.spans = std::move(record.spans);
  timeline.memory = std::move(record.points);
  return timeline;
}

}  // namespace trainwright
