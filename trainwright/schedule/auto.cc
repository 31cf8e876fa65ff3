#include "trainwright/schedule/auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "trainwright/base/check.h"
#include "trainwright/schedule/auto_clock.h"
#include "trainwright/schedule/auto_fuse.h"
#include "trainwright/schedule/auto_repair.h"
#include "trainwright/schedule/auto_search.h"
#include "trainwright/schedule/clock.h"
#include "trainwright/schedule/kinds.h"
#include "trainwright/schedule/rank_memory.h"
#include "trainwright/schedule/zb_vpp.h"

namespace trainwright {
namespace {

using detail::at;
using detail::PipelineOrder;
using detail::PipelineProblem;

constexpr std::int64_t kMostActions = std::int64_t{1} << 24;
// A kind of the compact form is 16 bits wide, and a stage has three.
constexpr std::int64_t kMostStages = 65535 / 3;
// The work of one choice grows with the chunks of a rank.
constexpr int kMostChunks = 32;
// Sums of sizes over all stages and micro-batches must stay far from overflow.
constexpr double kMostBytes = 0x1p60;

void add_cost_faults(const Costs& costs, std::int64_t stages, int microbatches,
                     Diagnostics& faults) {
  const auto require = [&](bool good, std::string where, std::string what) {
    if (!good) faults.push_back({std::move(where), std::move(what), {}});
  };
  const auto time = [&](Seconds value, const std::string& where) {
    require(std::isfinite(value.value()) && value.value() >= 0, where,
            fmt::format("{} is not a time", value.value()));
  };
  require(static_cast<std::int64_t>(costs.stages.size()) == stages, "costs.stages",
          fmt::format("{} stages have costs, not {}", costs.stages.size(), stages));
  require(static_cast<std::int64_t>(costs.boundaries.size()) + 1 == stages, "costs.boundaries",
          fmt::format("{} boundaries lie between {} stages, not {}", stages - 1, stages,
                      costs.boundaries.size()));
  double bytes = 0;
  for (std::size_t s = 0; s < costs.stages.size(); ++s) {
    const StageCosts& stage = costs.stages[s];
    const std::string where = fmt::format("costs.stages[{}]", s);
    for (const Seconds value :
         {stage.forward, stage.backward_input, stage.backward_weight, stage.backward})
      time(value, where);
    const std::int64_t kept = stage.kept.value(), released = stage.released_by_input.value();
    require(kept >= 0, where, fmt::format("{} kept bytes are negative", kept));
    require(released <= kept, where, "the input gradient releases more than is kept");
    bytes += static_cast<double>(kept) + std::abs(static_cast<double>(released));
    const auto once = [&](Bytes more) {
      require(more >= Bytes(0), where, fmt::format("{} bytes are negative", more.value()));
      bytes += static_cast<double>(more.value());
    };
    once(stage.resident);
    once(stage.gradients);
    for (const Bytes more : all_of(stage.inside)) once(more);
  }
  for (std::size_t s = 0; s < costs.boundaries.size(); ++s) {
    const std::string where = fmt::format("costs.boundaries[{}]", s);
    time(costs.boundaries[s].activation, where);
    time(costs.boundaries[s].gradient, where);
    const std::int64_t size = costs.boundaries[s].size.value();
    require(size >= 0, where, fmt::format("{} bytes are negative", size));
    bytes += 4 * static_cast<double>(size);
  }
  require(bytes * microbatches <= kMostBytes, "costs", "all sizes together exceed 2^60 bytes");
  time(costs.loss, "costs.loss");
  time(costs.per_action, "costs.per_action");
  require(costs.overlap >= 0 && costs.overlap <= 1, "costs.overlap", "is not within 0 to 1");
}

Diagnostics faults_of(int ranks, int microbatches, const Costs& costs, const AutoOptions& options) {
  Diagnostics faults;
  const auto require = [&](bool good, std::string where, std::string what, std::string hint = {}) {
    if (!good) faults.push_back({std::move(where), std::move(what), std::move(hint)});
  };
  require(ranks >= 1 && ranks <= kMaxRanks, "ranks",
          fmt::format("{} is not within 1 to {}", ranks, kMaxRanks));
  require(microbatches >= 1 && microbatches <= kMaxMicroBatches, "micro-batches",
          fmt::format("{} is not within 1 to {}", microbatches, kMaxMicroBatches));
  require(options.chunks >= 1 && options.chunks <= kMostChunks, "chunks",
          fmt::format("{} is not within 1 to {}", options.chunks, kMostChunks));
  require(!options.placements.empty(), "placements", "none is allowed", "loop, V or both");
  for (const StagePlacement style : options.placements)
    require(style != StagePlacement::Single || options.chunks == 1, "placements",
            "one stage per rank, but several chunks", "loop, V or both");
  require(options.cap.size() <= 1 || std::ssize(options.cap) == ranks, "cap",
          fmt::format("there are {} caps for {} ranks", options.cap.size(), ranks),
          "one for all ranks, or one for each");
  for (const Bytes cap : options.cap)
    require(cap.value() >= 0, "cap", fmt::format("{} bytes are negative", cap.value()));
  require(options.budget >= 0, "budget", fmt::format("{} is negative", options.budget));
  if (!faults.empty()) return faults;
  const std::int64_t stages = std::int64_t{ranks} * options.chunks;
  require(stages <= kMostStages, "ranks x chunks",
          fmt::format("{} stages are more than {}", stages, kMostStages));
  require(3 * stages * microbatches <= kMostActions, "size",
          fmt::format("{} actions are more than 2^24", 3 * stages * microbatches),
          "a fixed kind, or fewer micro-batches");
  add_cost_faults(costs, stages, microbatches, faults);
  return faults;
}

PipelineProblem problem_of(const Placement& placement, int microbatches,
                           const detail::Pricing& pricing, const AutoOptions& options) {
  std::vector<detail::PipelineStage> stages;
  for (const detail::StagePrice& price : pricing.stages) {
    stages.push_back({.rank = price.rank,
                      .forward = price.time[0],
                      .input = price.time[1],
                      .weight = price.time[2],
                      .kept = price.memory[0],
                      .released_by_input = price.memory[1],
                      .released_by_weight = price.memory[2],
                      .activation_delay = price.link[0] >= 0 ? price.send[0] : 0,
                      .gradient_delay = 0});
  }
  // A stage's entry tells what it sends down; the gradient it gets comes from the one above.
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    const detail::StagePrice& above = pricing.stages[s + 1];
    stages[s].gradient_delay = above.link[1] >= 0 ? above.send[1] : 0;
  }
  // The search counts what actions leave behind. What they need besides is taken off the cap;
  // another order may fit too, and the clock knows.
  const auto aside = detail::set_aside(pricing);
  std::vector<std::int64_t> caps(at(placement.ranks), detail::kNoCap);
  for (std::size_t r = 0; r < caps.size() && !options.cap.empty(); ++r) {
    const Bytes cap = options.cap.size() == 1 ? options.cap[0] : options.cap[r];
    caps[r] = std::min(detail::kNoCap, cap.value() - pricing.standing[r] - aside[r]);
  }
  return detail::make_problem(placement.ranks, microbatches, stages, caps);
}

// The order of a schedule in the compact form: B is an adjacent I, W pair, a group is its members.
PipelineOrder order_of(const Schedule& schedule) {
  const int stages = schedule.placement.stages();
  PipelineOrder order;
  for (const auto& list : schedule.ranks) {
    for (const Action action : list) {
      const auto put = [&](int work) {
        order.push_back(static_cast<std::uint16_t>(work * stages + action.stage));
      };
      switch (action.kind) {
        case ActionKind::Forward: put(0); break;
        case ActionKind::BackwardInput: put(1); break;
        case ActionKind::BackwardWeight: put(2); break;
        case ActionKind::Backward:
          put(1);
          put(2);
          break;
        case ActionKind::SendForward:
        case ActionKind::RecvForward:
        case ActionKind::SendBackward:
        case ActionKind::RecvBackward:
        case ActionKind::Unshard:
        case ActionKind::Reshard:
        case ActionKind::ReduceGrad: break;
      }
    }
  }
  return order;
}

Schedule schedule_of(const Placement& placement, const PipelineProblem& problem,
                     const PipelineOrder& order, const std::vector<char>& joined) {
  const std::size_t m = at(problem.micro_batches), stages = at(problem.stages());
  Schedule schedule{problem.micro_batches, placement, {}};
  std::vector<int> next(at(problem.kinds), 0);
  for (int r = 0; r < problem.ranks; ++r) {
    auto& list = schedule.ranks.emplace_back();
    list.reserve(problem.rank_kinds[at(r)].size() * m);
    for (std::int64_t x = problem.order_begin[at(r)]; x < problem.order_begin[at(r) + 1]; ++x) {
      const std::size_t kind = order[at(x)], stage = kind % stages;
      const int batch = next[kind]++;
      const bool whole = !joined.empty() && joined[stage * m + at(batch)];
      const std::size_t work = kind / stages;
      if (work == 2 && whole) continue;
      const ActionKind action = work == 0   ? ActionKind::Forward
                                : work == 2 ? ActionKind::BackwardWeight
                                : whole     ? ActionKind::Backward
                                            : ActionKind::BackwardInput;
      list.push_back(make_action(action, static_cast<int>(stage), batch));
    }
  }
  return schedule;
}

bool fits(const Timeline& timeline, const std::vector<Bytes>& cap) {
  for (std::size_t r = 0; r < timeline.ranks.size() && !cap.empty(); ++r)
    if (timeline.ranks[r].peak > (cap.size() == 1 ? cap[0] : cap[r])) return false;
  return true;
}

// The fixed kinds of this placement, made for these costs.
std::vector<Schedule> fixed_kinds(const Placement& placement, int microbatches, const Costs& costs,
                                  const AutoOptions& options) {
  std::vector<Schedule> found;
  const int chunks = options.chunks;
  for (const KindFacts& facts : kinds()) {
    if (options.whole && facts.splits_backward) continue;
    if (chunks < facts.chunks_least || chunks > facts.chunks_most) continue;
    if (chunks > 1 && facts.placement != style_of(placement)) continue;
    const Shape shape{placement.ranks, microbatches, chunks};
    auto schedule =
        facts.kind == ScheduleKind::ZbVpp && !options.cap.empty()
            ? make_zb_vpp_under(shape, costs, options.cap, options.clock)
            : make(facts.kind, shape, MakeOptions{.group = 0, .limit = 0, .costs = costs});
    if (schedule && schedule->placement == placement) found.push_back(*std::move(schedule));
  }
  return found;
}

// Keeps the shorter of what is there and a schedule that fits; its times and peaks.
Timeline offer(Schedule schedule, const Costs& costs, const AutoOptions& options,
               AutoSchedule& best) {
  Timeline timeline = simulate(schedule, costs, options.clock);
  best.smallest_cap = std::min(best.smallest_cap, peak(timeline));
  if (!fits(timeline, options.cap)) return timeline;
  if (best.schedule && timeline.makespan >= best.timeline.makespan) return timeline;
  best.schedule = std::move(schedule);
  best.timeline = timeline;
  return timeline;
}

// Also offers what becomes of it with earlier W, if it does not fit as it is.
void offer_repaired(Schedule schedule, const detail::Pricing& pricing, const Costs& costs,
                    const AutoOptions& options, AutoSchedule& best) {
  std::vector<std::int64_t> caps(pricing.standing.size(), detail::kNoCap);
  for (std::size_t r = 0; r < caps.size() && !options.cap.empty(); ++r)
    caps[r] = (options.cap.size() == 1 ? options.cap[0] : options.cap[r]).value();
  if (pricing.inner_memory && !options.cap.empty())
    offer(detail::with_earlier_weights(schedule, pricing, caps), costs, options, best);
  offer(std::move(schedule), costs, options, best);
}

// One placement to be searched, and everything that stays the same while caps are tried.
struct Quest {
  Placement placement;
  detail::Pricing pricing;
  std::vector<PipelineOrder> known;
  detail::Purse purse;
  bool whole = false;  // every backward is one action
};

// Offers the shortest order that the search finds under the problem's caps. By rank: how much more
// the clock sees of it than the search counted.
std::vector<std::int64_t> search_orders(const Quest& quest, const PipelineProblem& problem,
                                        const Costs& costs, const AutoOptions& options,
                                        AutoSchedule& best) {
  detail::Purse purse = quest.purse;
  const detail::Candidate found = detail::search(problem, quest.known, purse);
  TW_CHECK(found.makespan < detail::kNever, "a cap that can be met was not met");
  best.evaluations += purse.evaluations;
  best.actions += purse.spent;
  std::vector<double> backward;
  for (const detail::StagePrice& price : quest.pricing.stages) backward.push_back(price.time[3]);
  const std::size_t pairs = backward.size() * at(problem.micro_batches);
  const std::vector<char> joined = quest.whole ? std::vector<char>(pairs, 1)
                                               : detail::fuse_pairs(problem, found.order, backward);
  const Timeline timeline =
      offer(schedule_of(quest.placement, problem, found.order, joined), costs, options, best);
  if (!quest.whole) {
    offer_repaired(schedule_of(quest.placement, problem, found.order, {}), quest.pricing, costs,
                   options, best);
  }
  std::vector<std::int64_t> uncounted = detail::peaks(problem, found.order);
  for (std::size_t r = 0; r < uncounted.size(); ++r)
    uncounted[r] = timeline.ranks[r].peak.value() - uncounted[r];
  return uncounted;
}

// Searches under the caps that surely fit, then a few times under those that fit if the clock sees
// as much more as it did of the last order: the largest actions may never meet the fullest moments.
constexpr std::int64_t kCapRounds = 4;
void search_with_inner_peaks(Quest quest, const Costs& costs, const AutoOptions& options,
                             AutoSchedule& best) {
  PipelineProblem problem =
      problem_of(quest.placement, quest.pricing.microbatches, quest.pricing, options);
  quest.purse.limit = std::max<std::int64_t>(1, quest.purse.limit / (2 * kCapRounds));
  const auto smallest = detail::smallest_caps(problem);
  for (std::int64_t round = 0; round < kCapRounds; ++round) {
    for (std::size_t r = 0; r < smallest.size(); ++r)
      problem.cap[r] = std::max(problem.cap[r], smallest[r]);
    const auto uncounted = search_orders(quest, problem, costs, options, best);
    if (options.cap.empty()) return;
    for (std::size_t r = 0; r < smallest.size(); ++r) {
      const Bytes cap = options.cap.size() == 1 ? options.cap[0] : options.cap[r];
      problem.cap[r] = std::min(detail::kNoCap, cap.value()) - uncounted[r];
    }
  }
}

// The same stages when each backward is one action, which needs less where I saves much for W: the
// I of the search is B, and its W nothing.
Quest whole_only(Quest quest) {
  for (detail::StagePrice& price : quest.pricing.stages) {
    price.time[1] = price.time[3];
    price.memory[1] = price.memory[3];
    price.above[1] = std::max(price.above[3], price.first_above[1]);
    price.time[2] = 0;
    price.memory[2] = price.above[2] = price.first_above[0] = 0;
  }
  quest.whole = true;
  return quest;
}

void search_placement(const Placement& placement, int microbatches, const Costs& costs,
                      const AutoOptions& options, AutoSchedule& best) {
  Quest quest{.placement = placement,
              .pricing = detail::price(placement, microbatches, costs, options.clock),
              .known = {},
              .purse = {}};
  if (options.whole) quest = whole_only(std::move(quest));
  const PipelineProblem problem = problem_of(placement, microbatches, quest.pricing, options);
  const auto smallest = detail::smallest_caps(problem), aside = detail::set_aside(quest.pricing);
  Bytes needed;
  bool possible = true;
  for (std::size_t r = 0; r < smallest.size(); ++r) {
    needed = std::max(needed, Bytes(smallest[r] + quest.pricing.standing[r] + aside[r]));
    possible = possible && smallest[r] <= problem.cap[r];
  }
  best.smallest_cap = std::min(best.smallest_cap, needed);
  const Seconds bound =
      lower_bound(placement, microbatches, options.whole ? with_whole_backward(costs) : costs,
                  options.cap, options.clock);
  best.lower_bound = std::min(best.lower_bound, bound);
  if (!possible && !quest.pricing.inner_memory) return;
  std::vector<Schedule> fixed = fixed_kinds(placement, microbatches, costs, options);
  for (const Schedule& schedule : fixed) quest.known.push_back(order_of(schedule));
  const auto shares = static_cast<std::int64_t>(options.placements.size());
  const std::int64_t budget = options.budget > 0 ? options.budget : detail::default_budget(problem);
  quest.purse.limit = budget / shares;
  quest.purse.good_enough = std::max(options.good_enough, bound).value() * (1 + 1e-12);
  if (quest.pricing.inner_memory) {
    search_with_inner_peaks(quest, costs, options, best);
    if (!quest.whole) search_with_inner_peaks(whole_only(quest), costs, options, best);
  } else {
    search_orders(quest, problem, costs, options, best);
  }
  for (Schedule& schedule : fixed)
    offer_repaired(std::move(schedule), quest.pricing, costs, options, best);
}

}  // namespace

double gap(const AutoSchedule& found) {
  if (!found.schedule) return std::numeric_limits<double>::infinity();
  const double bound = found.lower_bound.value();
  return bound > 0 ? found.timeline.makespan.value() / bound - 1 : 0;
}

Costs with_whole_backward(Costs costs) {
  for (StageCosts& stage : costs.stages) {
    stage.backward_input = stage.backward;
    stage.backward_weight = Seconds(0);
    stage.released_by_input = stage.kept;
    stage.inside.backward_input = stage.inside.backward;
    stage.inside.backward_weight = stage.inside.first_weight = Bytes(0);
  }
  return costs;
}

Result<AutoSchedule> make_auto(int ranks, int microbatches, const Costs& costs,
                               const AutoOptions& options) {
  Diagnostics faults = faults_of(ranks, microbatches, costs, options);
  if (!faults.empty()) return fail(std::move(faults));
  AutoSchedule best;
  best.smallest_cap = Bytes(std::numeric_limits<std::int64_t>::max());
  best.lower_bound = Seconds(std::numeric_limits<double>::infinity());
  for (const StagePlacement style : options.placements)
    search_placement(placed(style, ranks, options.chunks), microbatches, costs, options, best);
  return best;
}

}  // namespace trainwright
