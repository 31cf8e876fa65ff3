#include "trainwright/search/search.h"

#include <algorithm>

#include "trainwright/base/parallel.h"

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

// What the model needs for a step: all of its products forward and, backward, those of gradients
// that a job makes.
Flops needed_work(const SearchQuestion& question) {
  const double tokens = static_cast<double>(question.gbs) * static_cast<double>(question.seq);
  const Flops all =
      token_flops(question.model, Tokens(question.seq), AttentionPairs::Causal).train() * tokens;
  const Job& asked = question.job;
  if (!asked.lora && asked.frozen.empty() && asked.frozen_layers == 0) return all;
  // One sequence on one rank with flash attention, with and without what the job leaves out.
  const auto work = [&](const Job& job) {
    const Recipe recipe = recipe_of(question.trainer, question.precision, job);
    WorkCache cache(question.model, recipe);
    Stage stage = stage_layers(Layout{}, question.model)->front();
    const Totals sum = compose(cache.stage(stage, {.mbs = 1, .seq = question.seq}));
    return sum.effort[0].matmul + sum.effort[1].matmul + sum.effort[2].matmul;
  };
  return all * (work(asked) / work({}));
}

double mfu_of(const SearchQuestion& question, Flops work, Seconds step) {
  const Accelerator& accelerator = question.cluster.groups.front().accelerator;
  const auto rate = peak(accelerator, ComputeType::Bf16);
  if (!rate || step <= Seconds(0)) return 0;
  return utilization(work, step, *rate * static_cast<double>(accelerator_count(question.cluster)));
}

Result<PlannedLayout> planned(const SearchQuestion& question, Flops work, const Fitting& fitting) {
  const MemoryQuestion memory{.model = question.model,
                              .cluster = question.cluster,
                              .trainer = question.trainer,
                              .layout = fitting.layout,
                              .job = question.job,
                              .constants = question.constants};
  auto estimate = estimate_memory(memory);
  if (!estimate) return fail(estimate.error().diagnostics);
  return PlannedLayout{fitting.layout, fitting.time, mfu_of(question, work, fitting.time.step),
                       *std::move(estimate)};
}

bool legal(const SearchQuestion& question, const Layout& layout) {
  return is_legal(
      violations(layout, question.job, question.model, question.cluster, question.trainer));
}

// What is known of a listed layout: its fullest rank, and its time if that fits.
struct Weighed {
  std::optional<Bytes> bytes;  // at least
  std::optional<RoughTime> time;
};

// Neighbours in the list share slices, so each piece of it has caches of its own; the pieces do not
// depend on the number of threads.
std::vector<Weighed> weigh(const SearchQuestion& question, const std::vector<Layout>& layouts) {
  constexpr std::size_t kPieces = 16;
  std::vector<Weighed> weighed(layouts.size());
  parallel_for(kPieces, {}, [&](std::size_t piece) {
    MemoryModel memory(question.model, question.cluster, question.trainer, question.job,
                       question.constants);
    WorkCache work(question.model, recipe_of(question.trainer, question.precision, question.job));
    const std::size_t end = layouts.size() * (piece + 1) / kPieces;
    for (std::size_t i = layouts.size() * piece / kPieces; i < end; ++i) {
      const auto least = memory.least(layouts[i]);
      if (!least) continue;
      weighed[i].bytes = least->driver;
      if (least->oom <= question.risk) weighed[i].time = rough_time(question, layouts[i], work);
    }
  });
  return weighed;
}

}  // namespace

Result<SearchResult> search(const SearchQuestion& question) {
  const std::vector<Layout> layouts = list_layouts(question);
  const std::vector<Weighed> weighed = weigh(question, layouts);
  const Flops needed = needed_work(question);
  SearchResult result;
  std::vector<Fitting> fitting;
  std::vector<std::pair<Bytes, const Layout*>> large;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (!weighed[i].bytes) continue;  // the layers cannot be dealt out
    ++result.listed;
    if (weighed[i].time) {
      fitting.push_back({layouts[i], *weighed[i].time, to_text(layouts[i])});
    } else {
      ++result.too_large;
      large.emplace_back(*weighed[i].bytes, &layouts[i]);
    }
  }
  std::sort(fitting.begin(), fitting.end(), faster);
  std::size_t asked = 0;
  for (; asked < fitting.size() && result.best.size() < question.most; ++asked) {
    if (!legal(question, fitting[asked].layout)) {
      ++result.refused;
      continue;
    }
    auto plan = planned(question, needed, fitting[asked]);
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
  WorkCache work(question.model, recipe_of(question.trainer, question.precision, question.job));
  for (const auto& [bytes, layout] : large) {
    if (!legal(question, *layout)) continue;
    auto plan = planned(question, needed, {*layout, rough_time(question, *layout, work), {}});
    if (!plan) return fail(plan.error().diagnostics);
    result.smallest = *std::move(plan);
    break;
  }
  return result;
}

}  // namespace trainwright
