#pragma once
// A search that asks about every layout in full, one by one.
#include <algorithm>
#include <tuple>

#include "trainwright/search/search.h"

namespace trainwright::testing {

// Every layout that is accepted, with its time and no memory, fastest first.
inline std::vector<PlannedLayout> slow_times(const SearchQuestion& question) {
  const StackConstants& stack = stack_of(question.time.stacks, question.trainer).constants;
  std::vector<PlannedLayout> all;
  for (const Layout& layout : list_layouts(question)) {
    if (!is_legal(
            violations(layout, question.job, question.model, question.cluster, question.trainer))) {
      continue;
    }
    const auto pieces = step_pieces(step_question(question, layout));
    if (pieces) all.push_back({layout, step_time(*pieces, stack), {}});
  }
  std::sort(all.begin(), all.end(), [](const PlannedLayout& a, const PlannedLayout& b) {
    return std::tuple(rank_of(a), to_text(a.layout)) < std::tuple(rank_of(b), to_text(b.layout));
  });
  return all;
}

// Its memory with a replay; nullopt where it fails, or where a figure that no replay is below
// (memory.h, Slack) is too large.
inline std::optional<MemoryEstimate> slow_memory(const SearchQuestion& question,
                                                 const Layout& layout, const auto& too_large) {
  MemoryQuestion asked = memory_question(question, layout);
  asked.slack = Slack::None;
  const auto least = estimate_memory(asked);
  if (!least || too_large(*least)) return std::nullopt;
  asked.slack = Slack::Replayed;
  return *estimate_memory(asked);
}

// Every layout that is accepted and fits with a replay, fastest first.
inline std::vector<PlannedLayout> slow_search(const SearchQuestion& question) {
  std::vector<PlannedLayout> fitting;
  const auto fits = [&](const MemoryEstimate& of) {
    return fit_of(of.oom, question.risk) == Fit::Fits;
  };
  for (PlannedLayout& plan : slow_times(question)) {
    const auto memory =
        slow_memory(question, plan.layout, [&](const auto& of) { return !fits(of); });
    if (!memory || !fits(*memory)) continue;
    plan.memory = *memory;
    fitting.push_back(std::move(plan));
  }
  return fitting;
}

// Of layouts that differ in nothing but recompute, the schedule, chunks, how layers are dealt out
// and copies of sharded weights the first that fits, up to `most`. Memory is asked of no others.
inline std::vector<PlannedLayout> slow_families(const SearchQuestion& question, std::size_t most) {
  std::vector<PlannedLayout> first;
  const auto shared = [](const Layout& l) {
    const auto kind = l.sharding == ShardingKind::Hsdp ? ShardingKind::Fsdp : l.sharding;
    return std::tuple(l.tp, l.pp, l.cp, l.dp, l.ep, l.etp, l.mbs, l.zero, kind, l.offload.bits);
  };
  const auto fits = [&](const MemoryEstimate& of) {
    return fit_of(of.oom, question.risk) == Fit::Fits;
  };
  for (PlannedLayout& plan : slow_times(question)) {
    if (first.size() == most) break;
    const bool known = std::any_of(first.begin(), first.end(), [&](const PlannedLayout& one) {
      return shared(one.layout) == shared(plan.layout);
    });
    if (known) continue;
    const auto memory =
        slow_memory(question, plan.layout, [&](const auto& of) { return !fits(of); });
    if (!memory || !fits(*memory)) continue;
    plan.memory = *memory;
    first.push_back(std::move(plan));
  }
  return first;
}

// The fewest driver bytes of any accepted layout.
inline std::optional<Bytes> slow_least(const SearchQuestion& question) {
  const auto driver = [](const MemoryEstimate& of) { return of.classes[of.worst].driver; };
  std::optional<Bytes> least;
  for (const PlannedLayout& plan : slow_times(question)) {
    const auto memory = slow_memory(question, plan.layout,
                                    [&](const auto& of) { return least && driver(of) >= *least; });
    if (memory && (!least || driver(*memory) < *least)) least = driver(*memory);
  }
  return least;
}

}  // namespace trainwright::testing
