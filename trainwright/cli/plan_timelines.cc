// The pipeline of a layout by the clock, drawn with its own and other schedules.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan_details.h"

namespace trainwright::cli {
namespace {

// What a screen can show and a page below 1 MB can hold: of more actions and ranks some are drawn.
// An action is wide enough for its number where a rank has no more than kMostOnRank of them.
constexpr std::int64_t kMostActions = 6000, kMostOnRank = 64;
constexpr std::int64_t kMostRanks = 16, kLeastRanks = 6;
constexpr std::size_t kMostTimelines = 4;
// Of as many micro-batches as there are ranks: any kind has warmed up in less than two.
constexpr std::int64_t kRounds = 3;

// What is drawn of a pipeline: in whole rounds of it, as interleaved schedules want them.
struct Part {
  std::int64_t micro_batches = 0, ranks = 0;
};
Part part_of(const Layout& layout) {
  const std::int64_t all = micro_batch_count(layout);
  const std::int64_t actions =  // of one micro-batch on one rank
      (facts_of(layout.schedule).splits_backward ? 3 : 2) * std::max<std::int64_t>(layout.vpp, 1);
  const std::int64_t wanted = std::min(all, kRounds * layout.pp);
  const std::int64_t ranks =
      std::min(layout.pp, std::clamp(kMostActions / (actions * wanted), kLeastRanks, kMostRanks));
  const std::int64_t legible = std::max(kRounds, kMostOnRank / (actions * layout.pp));
  const std::int64_t rounds =
      std::clamp<std::int64_t>(kMostActions / (actions * ranks * layout.pp), 1, legible);
  return {std::min(all, rounds * layout.pp), ranks};
}

// The same memory in every state of the pipeline: what stands all step.
Bytes standing_of(const RankClass& rank) {
  Bytes sum;
  for (const Category category :
       {Category::Weights, Category::MainWeights, Category::Gradients, Category::OptimizerStates,
        Category::Workspace, Category::AllocatorSlack, Category::Communicators,
        Category::Context}) {
    sum += rank.bytes[static_cast<std::size_t>(category)];
  }
  return sum;
}

// So many of them, evenly, with the fullest in place of its neighbour.
std::vector<int> ranks_drawn(std::int64_t shown, std::int64_t all, std::size_t fullest) {
  std::vector<int> list;
  for (std::int64_t i = 0; i < shown; ++i) {
    list.push_back(static_cast<int>(
        std::llround(static_cast<double>(i * (all - 1)) / static_cast<double>(shown - 1))));
  }
  const int rank = static_cast<int>(fullest);
  const auto next = std::lower_bound(list.begin(), list.end(), rank);
  if (*next != rank) *(next + 1 == list.end() ? next - 1 : next) = rank;
  return list;
}

std::int64_t microseconds(Seconds time) { return std::llround(time.value() * 1e6); }

// [letter, stage, micro-batch, start, length, ...] in microseconds.
Json actions_json(const std::vector<Action>& actions, const std::vector<Span>& spans) {
  constexpr std::string_view kLetters = "FIWB";
  Json list = Json::array();
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const auto letter = static_cast<std::size_t>(actions[i].kind);
    list.push(Json::of(kLetters.substr(letter, 1)))
        .push(Json::of(std::int64_t{actions[i].stage}))
        .push(Json::of(std::int64_t{actions[i].microbatch}))
        .push(Json::of(microseconds(spans[i].start)))
        .push(Json::of(microseconds(spans[i].end - spans[i].start)));
  }
  return list;
}

// [at, MiB, at, MiB, ...], where it changes.
Json memory_json(const std::vector<MemoryPoint>& points, Bytes standing) {
  Json list = Json::array();
  for (const MemoryPoint& point : points) {
    const std::int64_t live = (standing + point.live).value() >> 20;
    if (!list.items.empty() && list.items.back().integer == live) continue;
    list.push(Json::of(microseconds(point.at))).push(Json::of(live));
  }
  return list;
}

Result<std::optional<DrawnPipeline>> drawn_of(const SearchQuestion& question,
                                              const Layout& layout) {
  const auto pieces = TW_TRY(step_pieces(step_question(question, layout)));
  return drawn_pipeline(question, layout, pieces, part_of(layout).micro_batches);
}

Json ranks_json(const Schedule& schedule, const Timeline& timeline, const MemoryEstimate& memory,
                std::int64_t shown) {
  Json ranks = Json::array();
  for (const int rank : ranks_drawn(shown, schedule.placement.ranks, memory.worst)) {
    const auto r = static_cast<std::size_t>(rank);
    const RankClass& held = memory.classes[r];
    ranks.push(Json::object()
                   .add("rank", Json::of(rank))
                   .add("actions", actions_json(schedule.ranks[r], timeline.spans[r]))
                   .add("memory", memory_json(timeline.memory[r], standing_of(held)))
                   .add("peak", Json::of(held.driver.value() >> 20)));
  }
  return ranks;
}

// Of all micro-batches, `times` as many as are drawn: those that are left out each take as long as
// on the slowest rank, as in the time of the step.
struct WholeStep {
  double idle = 0;
  Seconds left_out;
};
WholeStep whole_step(const Timeline& drawn, double times) {
  Seconds all, slowest;
  for (const RankTotals& rank : drawn.ranks) {
    all += rank.busy;
    slowest = std::max(slowest, rank.busy);
  }
  const Seconds left_out = slowest * (times - 1), makespan = drawn.makespan + left_out;
  return {1 - all * times / (makespan * static_cast<double>(drawn.ranks.size())), left_out};
}

// Whether a rank runs all of its forwards before its first backward.
bool keeps_all(const std::vector<Action>& actions) {
  const auto forward = [](const Action& one) { return one.kind == ActionKind::Forward; };
  const auto first = std::find_if_not(actions.begin(), actions.end(), forward);
  return std::none_of(first, actions.end(), forward);
}

Json timeline_json(const SearchQuestion& question, const PlannedLayout& plan,
                   const DrawnPipeline& drawn) {
  const Layout& layout = plan.layout;
  const std::int64_t all = micro_batch_count(layout), some = drawn.schedule.microbatches;
  const Timeline timeline = simulate(drawn.schedule, drawn.costs, {.detail = Detail::Full});
  const WholeStep whole =
      whole_step(timeline, static_cast<double>(all) / static_cast<double>(some));
  Json json = Json::object();
  json.add("schedule", Json::of(name_of(layout.schedule)))
      .add("what", Json::of(facts_of(layout.schedule).what))
      .add("chunks", Json::of(layout.vpp))
      .add("short", Json::of(short_text(layout, question.model)))
      .add("step", Json::of(plan.time.step.value()))
      .add("driver", Json::of(plan.memory.classes[plan.memory.worst].driver.value()))
      .add("oom", Json::of(chance_text(plan.memory.oom)))
      .add("fit", Json::of(name_of(fit_of(plan.memory.oom, question.risk))))
      .add("idle", Json::of(percent(whole.idle)))
      .add("makespan", Json::of(microseconds(timeline.makespan)))
      .add("pipeline_ranks", Json::of(layout.pp))
      .add("micro_batches", Json::of(all))
      .add("micro_batches_drawn", Json::of(some))
      .add("left_out", Json::of(microseconds(whole.left_out)))
      .add("fills_on", Json::of(some < all && keeps_all(drawn.schedule.ranks[plan.memory.worst])))
      .add("capacity", Json::of(plan.memory.capacity.value() >> 20))
      .add("ranks", ranks_json(drawn.schedule, timeline, plan.memory, part_of(layout).ranks));
  return json;
}

// The layout itself, then with other schedules and numbers of chunks that the trainer accepts.
std::vector<Layout> candidates_of(const SearchQuestion& question, const Layout& layout) {
  std::vector<Layout> list = {layout};
  for (const TrainerSchedule& offered : question.trainer.schedules) {
    const KindFacts& facts = facts_of(offered.kind);
    if (facts.order == OrderFrom::File || offered.kind == ScheduleKind::None) continue;
    Layout other = layout;
    other.schedule = offered.kind;
    other.vpp = std::clamp<std::int64_t>(layout.vpp, facts.chunks_least, facts.chunks_most);
    other.placement = facts.placement.value_or(usual_placement(offered.kind, other.vpp));
    if (other.schedule == layout.schedule || !allows(question.limits, "vpp", other.vpp) ||
        !allows(question.limits, "schedule", name_of(other.schedule))) {
      continue;
    }
    if (list.size() < kMostTimelines && is_legal(violations(other, question.job, question.model,
                                                            question.cluster, question.trainer))) {
      list.push_back(other);
    }
  }
  return list;
}

}  // namespace

Result<Json> timelines_json(const SearchQuestion& question, const Layout& layout) {
  Json list = Json::array();
  if (layout.pp == 1) return list;
  for (const Layout& one : candidates_of(question, layout)) {
    const auto drawn = TW_TRY(drawn_of(question, one));
    if (drawn) list.push(timeline_json(question, TW_TRY(planned(question, one)), *drawn));
  }
  return list;
}

}  // namespace trainwright::cli
