#pragma once
// A search that asks about every layout in full, one by one.
#include <algorithm>
#include <tuple>

#include "trainwright/search/search.h"

namespace trainwright::testing {

// Every layout that is accepted and fits with a replay, fastest first.
inline std::vector<PlannedLayout> slow_search(const SearchQuestion& question) {
  const StackConstants& stack = stack_of(question.time.stacks, question.trainer).constants;
  std::vector<PlannedLayout> all;
  for (const Layout& layout : list_layouts(question)) {
    const auto found =
        violations(layout, question.job, question.model, question.cluster, question.trainer);
    if (!is_legal(found)) continue;
    const auto memory = estimate_memory(memory_question(question, layout));
    if (!memory || fit_of(memory->oom, question.risk) != Fit::Fits) continue;
    const auto pieces = step_pieces(step_question(question, layout));
    if (pieces) all.push_back({layout, step_time(*pieces, stack), *memory});
  }
  std::sort(all.begin(), all.end(), [](const PlannedLayout& a, const PlannedLayout& b) {
    return std::tuple(rank_of(a), to_text(a.layout)) < std::tuple(rank_of(b), to_text(b.layout));
  });
  return all;
}

// Of layouts that differ in nothing but recompute, the schedule, chunks, how layers are dealt out
// and copies of sharded weights the first, up to `most`.
inline std::vector<PlannedLayout> first_of_families(const std::vector<PlannedLayout>& all,
                                                    std::size_t most) {
  std::vector<PlannedLayout> first;
  const auto shared = [](const Layout& l) {
    const auto kind = l.sharding == ShardingKind::Hsdp ? ShardingKind::Fsdp : l.sharding;
    return std::tuple(l.tp, l.pp, l.cp, l.dp, l.ep, l.etp, l.mbs, l.zero, kind, l.offload.bits);
  };
  for (const PlannedLayout& plan : all) {
    const bool known = std::any_of(first.begin(), first.end(), [&](const PlannedLayout& one) {
      return shared(one.layout) == shared(plan.layout);
    });
    if (!known && first.size() < most) first.push_back(plan);
  }
  return first;
}

// The fewest driver bytes of any accepted layout.
inline std::optional<Bytes> slow_least(const SearchQuestion& question) {
  SearchQuestion any = question;
  any.risk = 1;
  std::optional<Bytes> least;
  for (const PlannedLayout& plan : slow_search(any)) {
    const Bytes driver = plan.memory.classes[plan.memory.worst].driver;
    if (!least || driver < *least) least = driver;
  }
  return least;
}

}  // namespace trainwright::testing
