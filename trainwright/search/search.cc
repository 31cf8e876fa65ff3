#include "trainwright/search/search.h"

#include <algorithm>

namespace trainwright {
namespace {

// A layout that fits by the fast estimate.
struct Fitting {
  Layout layout;
  RoughTime time;
  std::string text;
};

// Fastest first; equal times in the order of their text, so that the answer never depends on how
// layouts were listed.
bool faster(const Fitting& a, const Fitting& b) {
  if (a.time.step != b.time.step) return a.time.step < b.time.step;
  return a.text < b.text;
}

double mfu_of(const SearchQuestion& question, Seconds step) {
  const Accelerator& accelerator = question.cluster.groups.front().accelerator;
  const auto rate = peak(accelerator, ComputeType::Bf16);
  if (!rate || step <= Seconds(0)) return 0;
  const double tokens = static_cast<double>(question.gbs) * static_cast<double>(question.seq);
  const Flops work =
      token_flops(question.model, Tokens(question.seq), AttentionPairs::Full).train() * tokens;
  return utilization(work, step, *rate * static_cast<double>(accelerator_count(question.cluster)));
}

Result<PlannedLayout> planned(const SearchQuestion& question, const Fitting& fitting) {
  const MemoryQuestion memory{.model = question.model,
                              .cluster = question.cluster,
                              .trainer = question.trainer,
                              .layout = fitting.layout,
                              .job = question.job,
                              .constants = question.constants};
  auto estimate = estimate_memory(memory);
  if (!estimate) return fail(estimate.error().diagnostics);
  return PlannedLayout{fitting.layout, fitting.time, mfu_of(question, fitting.time.step),
                       *std::move(estimate)};
}

bool legal(const SearchQuestion& question, const Layout& layout) {
  return is_legal(
      violations(layout, question.job, question.model, question.cluster, question.trainer));
}

}  // namespace

Result<SearchResult> search(const SearchQuestion& question) {
  const std::vector<Layout> layouts = list_layouts(question);
  const Bytes capacity = question.cluster.groups.front().accelerator.memory_visible;
  SearchResult result;
  MemoryModel memory(question.model, question.cluster, question.trainer, question.job,
                     question.constants);
  WorkCache work(question.model, recipe_of(question.trainer, question.precision));
  std::vector<Fitting> fitting;
  std::vector<std::pair<Bytes, const Layout*>> large;
  for (const Layout& layout : layouts) {
    const auto bytes = memory.worst(layout);
    if (!bytes) continue;  // the layers cannot be dealt out
    ++result.listed;
    if (chance_of_oom(*bytes, capacity, question.constants.spread) > question.risk) {
      ++result.too_large;
      large.emplace_back(*bytes, &layout);
      continue;
    }
    fitting.push_back({layout, rough_time(question, layout, work), to_text(layout)});
  }
  std::sort(fitting.begin(), fitting.end(), faster);
  std::size_t asked = 0;
  for (; asked < fitting.size() && result.best.size() < question.most; ++asked) {
    if (!legal(question, fitting[asked].layout)) {
      ++result.refused;
      continue;
    }
    auto plan = planned(question, fitting[asked]);
    if (!plan) return fail(plan.error().diagnostics);
    // The replay of the allocator may say otherwise than the quick estimate.
    if (plan->memory.oom > question.risk) {
      ++result.too_large;
      continue;
    }
    result.best.push_back(*std::move(plan));
  }
  result.not_asked = static_cast<std::int64_t>(fitting.size() - asked);
  if (!result.best.empty()) return result;

  std::stable_sort(large.begin(), large.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [bytes, layout] : large) {
    if (!legal(question, *layout)) continue;
    auto plan = planned(question, {*layout, rough_time(question, *layout, work), {}});
    if (!plan) return fail(plan.error().diagnostics);
    result.smallest = *std::move(plan);
    break;
  }
  return result;
}

}  // namespace trainwright
