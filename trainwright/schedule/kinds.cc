#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "trainwright/base/check.h"
#include "trainwright/base/text.h"
#include "trainwright/schedule/order.h"

namespace trainwright {
namespace {

// Who can run what: PyTorch's runtime runs any list from a CSV, torchtitan any loop and V of two
// chunks; the names are those of the trainers that have the kind built in.
constexpr std::array<KindFacts, 15> kKinds{{
    {ScheduleKind::None, "none", "no pipeline: one micro-batch after the other", "all", 1, 1,
     StagePlacement::Single, false, false, OrderFrom::Formula},
    {ScheduleKind::GPipe, "gpipe", "all forwards, then all backwards (Huang et al. 2019)",
     "PyTorch, torchtitan, Paddle (FThenB)", 1, 1, StagePlacement::Single, false, false,
     OrderFrom::Formula},
    {ScheduleKind::OneFOneB, "1f1b", "one forward, one backward (PipeDream-flush)",
     "Megatron-LM, PyTorch, torchtitan, DeepSpeed, Paddle", 1, 1, StagePlacement::Single, false,
     false, OrderFrom::Formula},
    {ScheduleKind::EagerOneFOneB, "eager-1f1b", "1f1b with twice the warm-up, hides transfers",
     "Paddle, PyTorch by CSV, torchtitan by CSV", 1, 1, StagePlacement::Single, false, false,
     OrderFrom::Formula},
    {ScheduleKind::InterleavedOneFOneB, "interleaved-1f1b",
     "1f1b over several chunks per rank (Narayanan et al. 2021)",
     "Megatron-LM, PyTorch, torchtitan, Paddle (VPP)", 2, kMaxChunks, StagePlacement::Loop, false,
     true, OrderFrom::Formula},
    {ScheduleKind::LoopedBfs, "looped-bfs", "breadth first over the chunks (Lamy-Poirier 2023)",
     "PyTorch, torchtitan", 2, kMaxChunks, StagePlacement::Loop, false, false, OrderFrom::Formula},
    {ScheduleKind::ZbH1, "zb-h1", "1f1b with W in the drain, memory of 1f1b (Qi et al. 2024)",
     "Paddle, sail-sg Megatron, PyTorch by CSV, torchtitan by CSV", 1, 1, StagePlacement::Single,
     true, false, OrderFrom::Formula},
    {ScheduleKind::ZbH2, "zb-h2",
     "idle only while filling and draining at F = I = W, twice the memory of 1f1b (Qi et al. 2024)",
     "sail-sg Megatron, PyTorch by CSV, torchtitan by CSV", 1, 1, StagePlacement::Single, true,
     false, OrderFrom::Formula},
    {ScheduleKind::InterleavedZeroBubble, "interleaved-zb", "zb-h1 over several chunks per rank",
     "PyTorch, torchtitan", 2, kMaxChunks, StagePlacement::Loop, true, true, OrderFrom::Formula},
    {ScheduleKind::ZbV, "zb-v",
     "two chunks in a V, idle only while filling and draining at F = I = W, memory of 1f1b",
     "PyTorch, torchtitan, sail-sg Megatron", 2, 2, StagePlacement::V, true, false,
     OrderFrom::Generator},
    {ScheduleKind::VHalf, "v-half",
     "two chunks in a V, about half the memory of 1f1b in long pipelines (Qi et al. 2024b)",
     "sail-sg Megatron, PyTorch by CSV, torchtitan by CSV", 2, 2, StagePlacement::V, true, false,
     OrderFrom::Generator},
    {ScheduleKind::VMin, "v-min",
     "two chunks in a V, about a third of the memory of 1f1b in long pipelines (Qi et al. 2024b)",
     "sail-sg Megatron, PyTorch by CSV, torchtitan by CSV", 2, 2, StagePlacement::V, true, false,
     OrderFrom::Generator},
    {ScheduleKind::ZbVpp, "zb-vpp", "greedy zero bubble over a wave of chunks, under a limit",
     "Paddle (m = p), PyTorch by CSV", 2, kMaxChunks, StagePlacement::V, true, false,
     OrderFrom::Generator},
    {ScheduleKind::DualPipeV, "dualpipe-v",
     "two chunks in a V, F and B of two micro-batches overlapped", "PyTorch, torchtitan, Paddle", 2,
     2, StagePlacement::V, true, false, OrderFrom::Generator},
    {ScheduleKind::Csv, "csv", "the order of a file", "PyTorch, torchtitan", 1, kMaxChunks,
     std::nullopt, true, false, OrderFrom::File},
}};

// A remainder of fewer than p micro-batches joins the group before it: in a group shorter than the
// pipeline the first rank would wait for a forward that the last rank holds back behind a backward.
// PyTorch cuts the micro-batches into m / p equal rounds and refuses what does not divide; there
// the first groups get one more.
std::vector<std::int32_t> group_sizes(ScheduleKind kind, Shape shape, int group) {
  const int m = shape.microbatches;
  if (!facts_of(kind).grouped) return {m};
  std::vector<std::int32_t> sizes;
  if (group > 0) {
    sizes.assign(static_cast<std::size_t>(m / group), group);
    const int left = m % group;
    if (left >= shape.ranks) {
      sizes.push_back(left);
    } else {
      sizes.back() += left;
    }
    return sizes;
  }
  const int rounds = std::max(1, m / shape.ranks);
  for (int i = 0; i < rounds; ++i) sizes.push_back(m / rounds + (i < m % rounds ? 1 : 0));
  return sizes;
}

// Forwards before the first forward-backward pair, for a rank `hops` above the last.
std::int64_t warmup_of(ScheduleKind kind, std::int64_t hops, std::int64_t other_chunks) {
  switch (kind) {
    case ScheduleKind::None:
    case ScheduleKind::OneFOneB:
    case ScheduleKind::ZbH1: return hops;
    case ScheduleKind::EagerOneFOneB:
    case ScheduleKind::ZbH2: return 2 * hops;
    case ScheduleKind::InterleavedOneFOneB: return other_chunks + 2 * hops;
    case ScheduleKind::InterleavedZeroBubble: return other_chunks + hops;
    case ScheduleKind::GPipe:
    case ScheduleKind::LoopedBfs: return INT64_MAX;
    case ScheduleKind::ZbV:
    case ScheduleKind::VHalf:
    case ScheduleKind::VMin:
    case ScheduleKind::ZbVpp:
    case ScheduleKind::DualPipeV:
    case ScheduleKind::Csv: break;
  }
  TW_CHECK(false, "not a looped kind");
}

}  // namespace

std::span<const KindFacts> all_kinds() { return kKinds; }

// Between `none` and `csv`.
std::span<const KindFacts> kinds() { return all_kinds().subspan(1, kKinds.size() - 2); }

const KindFacts& facts_of(ScheduleKind kind) {
  const KindFacts& facts = kKinds[static_cast<std::size_t>(kind)];
  TW_CHECK(facts.kind == kind, "the table of kinds is out of order");
  return facts;
}

std::span<const std::string_view> all_names(ScheduleKind) {
  static constexpr auto kNames = [] {
    std::array<std::string_view, kKinds.size()> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kKinds[i].name;
    return names;
  }();
  return kNames;
}

namespace {

// Letters and digits in lower case: ZB-H1, zbh1 and zb_h1 are one name.
std::string bare(std::string_view name) {
  std::string letters;
  for (const char c : lower_case(name)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) letters += c;
  }
  return letters;
}

// What trainers call a kind, where that is more than a spelling: PyTorch's classes, Paddle's and
// Megatron-LM's words.
constexpr std::array<std::pair<std::string_view, ScheduleKind>, 6> kOtherNames{{
    {"fthenb", ScheduleKind::GPipe},
    {"afab", ScheduleKind::GPipe},
    {"vpp", ScheduleKind::InterleavedOneFOneB},
    {"interleaved", ScheduleKind::InterleavedOneFOneB},
    {"interleavedzerobubble", ScheduleKind::InterleavedZeroBubble},
    {"zbvzerobubble", ScheduleKind::ZbV},
}};

}  // namespace

Result<ScheduleKind> parse_kind(std::string_view name) {
  const std::string wanted = bare(name);
  std::vector<std::string> names;
  for (const KindFacts& facts : kinds()) {
    if (bare(facts.name) == wanted) return facts.kind;
    names.emplace_back(facts.name);
  }
  for (const auto& [other, kind] : kOtherNames) {
    if (other == wanted) return kind;
  }
  return fail("schedule kind", fmt::format("'{}' is not a kind of schedule", name),
              did_you_mean(name, names, "the kinds are " + enumerate(names)));
}

namespace detail {

LoopedPlan looped_plan(ScheduleKind kind, Shape shape, const MakeOptions& options) {
  LoopedPlan plan;
  plan.ranks = shape.ranks;
  plan.chunks = shape.chunks;
  plan.microbatches = shape.microbatches;
  plan.groups = group_sizes(kind, shape, options.group);
  plan.split = facts_of(kind).splits_backward;
  plan.last_first = kind == ScheduleKind::LoopedBfs;
  const std::int64_t largest = *std::max_element(plan.groups.begin(), plan.groups.end());
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const std::int64_t hops = shape.ranks - 1 - rank;
    plan.warmup.push_back(
        std::min(plan.work(), warmup_of(kind, hops, (shape.chunks - 1) * largest)));
    // Ranks far from the first keep fewer activations of warm-up and may keep more for late W.
    plan.lag.push_back(kind == ScheduleKind::ZbH2 ? 2 * rank : rank);
  }
  return plan;
}

}  // namespace detail

Diagnostics faults_of(ScheduleKind kind, Shape shape, const MakeOptions& options) {
  Diagnostics faults;
  const KindFacts& facts = facts_of(kind);
  const auto require = [&](bool good, std::string_view where, std::string what) {
    if (!good) faults.push_back({std::string(where), std::move(what), {}});
  };
  require(facts.order != OrderFrom::File, "schedule kind", "its order is read from a file");
  require(kind != ScheduleKind::None || shape.ranks == 1, "schedule kind",
          fmt::format("{} ranks need one", shape.ranks));
  require(shape.ranks >= 1 && shape.ranks <= kMaxRanks, "ranks",
          fmt::format("{} is not within 1 to {}", shape.ranks, kMaxRanks));
  require(shape.microbatches >= 1 && shape.microbatches <= kMaxMicroBatches, "micro-batches",
          fmt::format("{} is not within 1 to {}", shape.microbatches, kMaxMicroBatches));
  if (shape.chunks < facts.chunks_least || shape.chunks > facts.chunks_most) {
    const std::string range = facts.chunks_least == facts.chunks_most
                                  ? fmt::format("exactly {}", facts.chunks_least)
                                  : fmt::format("{} to {}", facts.chunks_least, facts.chunks_most);
    faults.push_back({"chunks",
                      fmt::format("{} has {} per rank, not {}", facts.name, range, shape.chunks),
                      "see `trainwright list schedules`"});
  }
  if (!faults.empty()) return faults;
  const std::int64_t stages = static_cast<std::int64_t>(shape.ranks) * shape.chunks;
  require(stages <= kMaxStages, "ranks x chunks",
          fmt::format("{} stages are more than {}", stages, kMaxStages));
  const int shortest = std::min(shape.ranks, shape.microbatches);
  require(options.group == 0 || !facts.grouped ||
              (options.group >= shortest && options.group <= shape.microbatches),
          "group",
          fmt::format("{} is not within {} (the ranks, or all micro-batches) to {}", options.group,
                      shortest, shape.microbatches));
  require(options.limit == 0 || options.limit >= shape.chunks, "limit",
          fmt::format("{} kept activations do not let one micro-batch through {} chunks",
                      options.limit, shape.chunks));
  const std::size_t priced = options.costs.stages.size();
  require(priced == 0 || priced == static_cast<std::size_t>(stages), "costs",
          fmt::format("they are for {} stages, not {}", priced, stages));
  return faults;
}

namespace {

// A list must be held in memory; 2^30 actions are 8 GiB.
constexpr std::int64_t kMostActions = std::int64_t{1} << 30;

std::vector<Action> looped_list(const detail::LoopedPlan& plan, int rank) {
  std::vector<Action> list;
  list.reserve(static_cast<std::size_t>(plan.work()) * (plan.split ? 3 : 2));
  for (detail::LoopedCursor cursor(plan, rank); !cursor.done(); cursor.pop()) {
    list.push_back(cursor.front());
  }
  return list;
}

Schedule make_looped(ScheduleKind kind, Shape shape, const MakeOptions& options) {
  const detail::LoopedPlan plan = detail::looped_plan(kind, shape, options);
  Schedule schedule{
      shape.microbatches, placed(StagePlacement::Loop, shape.ranks, shape.chunks), {}};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    schedule.ranks.push_back(looped_list(plan, rank));
  }
  return schedule;
}

}  // namespace

Result<std::vector<Action>> make_rank(ScheduleKind kind, Shape shape, int rank,
                                      const MakeOptions& options) {
  Diagnostics faults = faults_of(kind, shape, options);
  if (!faults.empty()) return fail(std::move(faults));
  TW_CHECK(rank >= 0 && rank < shape.ranks, "a rank of the pipeline");
  const KindFacts& facts = facts_of(kind);
  if (!streams(facts)) {
    return fail("schedule kind", fmt::format("{} is made for all ranks at once", facts.name),
                "use make");
  }
  return looped_list(detail::looped_plan(kind, shape, options), rank);
}

std::vector<Action> forwards_earlier(std::span<const Action> list, std::size_t by) {
  std::vector<Action> forwards;
  std::copy_if(list.begin(), list.end(), std::back_inserter(forwards),
               [](const Action& action) { return action.kind == ActionKind::Forward; });
  std::size_t next = std::min(by, forwards.size());
  std::vector<Action> made(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(next));
  for (const Action& action : list) {
    if (action.kind != ActionKind::Forward) {
      made.push_back(action);
    } else if (next < forwards.size()) {
      made.push_back(forwards[next++]);
    }
  }
  return made;
}

Result<Schedule> make(ScheduleKind kind, Shape shape, const MakeOptions& options) {
  Diagnostics faults = faults_of(kind, shape, options);
  if (!faults.empty()) return fail(std::move(faults));
  if (3 * static_cast<std::int64_t>(shape.ranks) * shape.chunks * shape.microbatches >
      kMostActions) {
    return fail("size", "more than 2^30 actions",
                "`simulate_kind` times a kind without making its lists");
  }
  switch (kind) {
    case ScheduleKind::None:
    case ScheduleKind::GPipe:
    case ScheduleKind::OneFOneB:
    case ScheduleKind::EagerOneFOneB:
    case ScheduleKind::InterleavedOneFOneB:
    case ScheduleKind::LoopedBfs:
    case ScheduleKind::ZbH1:
    case ScheduleKind::ZbH2:
    case ScheduleKind::InterleavedZeroBubble: return make_looped(kind, shape, options);
    case ScheduleKind::ZbV: return detail::make_zb_v(shape);
    case ScheduleKind::VHalf:
    case ScheduleKind::VMin: return detail::make_controlled_v(kind, shape);
    case ScheduleKind::ZbVpp: return detail::make_zb_vpp(shape, options);
    case ScheduleKind::DualPipeV: return detail::make_dualpipe_v(shape);
    case ScheduleKind::Csv: break;  // refused above
  }
  TW_CHECK(false, "a kind without a generator");
}

}  // namespace trainwright
