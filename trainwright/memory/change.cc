// The smallest change that fits.
#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <vector>

#include "trainwright/memory/memory.h"

namespace trainwright {
namespace {

bool half_micro_batch(Layout& layout) {
  if (layout.mbs % 2 != 0) return false;
  layout.mbs /= 2;
  return true;
}
bool smallest_micro_batch(Layout& layout) {
  if (layout.mbs % 2 == 0 || layout.mbs == 1) return false;
  layout.mbs = 1;
  return true;
}
bool sequence_parallel(Layout& layout) {
  if (layout.sp || layout.tp == 1) return false;
  return layout.sp = true;
}
bool recompute(Layout& layout, RecomputeKind kind) {
  if (!layout.recompute_by_stage.empty() || layout.recompute.kind >= kind) return false;
  layout.recompute = {.kind = kind, .modules = {}, .n = 1};
  return true;
}
bool selective(Layout& layout) { return recompute(layout, RecomputeKind::Selective); }
bool by_operators(Layout& layout) { return recompute(layout, RecomputeKind::OpSelective); }
bool full(Layout& layout) { return recompute(layout, RecomputeKind::Full); }

bool more_sharding(Layout& layout) {
  if (layout.zero == 3 || layout.dp * layout.cp == 1) return false;
  ++layout.zero;
  if (layout.sharding == ShardingKind::Ddp) layout.sharding = ShardingKind::Zero;
  return true;
}
bool twice(std::int64_t& degree, Layout& layout) {
  if (layout.dp % 2 != 0 || layout.dp_replicate > 1) return false;
  layout.dp /= 2;
  degree *= 2;
  return true;
}
bool twice_tensor(Layout& layout) {
  const bool follows = layout.etp == layout.tp;
  if (!twice(layout.tp, layout)) return false;
  if (follows) layout.etp = layout.tp;
  return true;
}
bool twice_pipeline(Layout& layout) {
  const bool had = layout.pp > 1;
  if (!layout.layers.empty() || !layout.recompute_by_stage.empty()) return false;
  if (!twice(layout.pp, layout)) return false;
  layout.first_layers = layout.last_layers = 0;  // of the old number of ranks
  if (!had) {
    layout.schedule = usual_schedule(layout.pp, layout.vpp);
    layout.placement = usual_placement(layout.schedule, layout.vpp);
  }
  return true;
}
bool twice_context(Layout& layout) { return twice(layout.cp, layout); }
bool twice_expert(Layout& layout) {
  if (layout.ep == 1 || layout.ep > kMostDegree / 2) return false;
  layout.ep *= 2;
  return true;
}
bool offload_optimizer(Layout& layout) {
  if (layout.offload.has(Offload::Optimizer)) return false;
  layout.offload.insert(Offload::Optimizer);
  return true;
}

// Gradients of fewer bits.
bool lean_gradients(Layout& layout) {
  if (layout.gradients != GradientDtype::AsTrainer) return false;
  layout.gradients = GradientDtype::Bf16;
  return true;
}
bool offers_lean_gradients(const Trainer& trainer) {
  return std::any_of(trainer.precisions.begin(), trainer.precisions.end(), [](const auto& facts) {
    const auto& dtypes = facts.gradients;
    return dtypes.front() == "fp32" &&
           std::find(dtypes.begin(), dtypes.end(), "bf16") != dtypes.end();
  });
}

// Logits chunk by chunk, of trainers that offer it.
constexpr std::string_view kLiger = "liger";
bool liger_loss(Layout& layout) {
  if (!layout.loss.empty()) return false;
  layout.loss = kLiger;
  return true;
}
bool offers_liger(const Trainer& trainer) {
  return std::any_of(trainer.losses.begin(), trainer.losses.end(), [](const Loss& loss) {
    return loss.name == kLiger && loss.use == Use::OptIn;
  });
}

bool offers_operators(const Trainer& trainer) {
  return find_kind(trainer.recomputes, RecomputeKind::OpSelective) != nullptr;
}
bool any_trainer(const Trainer&) { return true; }

// One thing to change, false when it cannot be changed (further), and roughly what it costs in
// speed: only the order of their sums matters.
struct Step {
  bool (*change)(Layout&);
  int cost;
  bool (*offered)(const Trainer&) = any_trainer;
};
constexpr Step kSteps[] = {
    {sequence_parallel, 1},
    {liger_loss, 1, offers_liger},
    {half_micro_batch, 2},
    {smallest_micro_batch, 4},
    {selective, 3},
    {by_operators, 4, offers_operators},
    {more_sharding, 4},
    {twice_expert, 5},
    {lean_gradients, 5, offers_lean_gradients},
    {twice_pipeline, 6},
    {full, 6},
    {twice_tensor, 7},
    {twice_context, 7},
    {offload_optimizer, 20},
};

// Half a second's worth.
constexpr int kMostTried = 20000;

// Tensor parallelism beyond the scale-up links is hardly ever worth it.
constexpr int kOverTheNetwork = 30;

// Layouts reached from one by steps, cheapest first; equal costs in the order they were reached.
class Nearest {
 public:
  Nearest(const Layout& layout, const Trainer& trainer, std::int64_t layers, std::int64_t domain)
      : layers_(layers), domain_(domain) {
    std::copy_if(std::begin(kSteps), std::end(kSteps), std::back_inserter(steps_),
                 [&](const Step& step) { return step.offered(trainer); });
    reach(layout, 0);
  }
  std::optional<Layout> next() {
    if (waiting_.empty()) return std::nullopt;
    const auto [cost, order] = waiting_.top();
    waiting_.pop();
    Layout from = reached_[order];
    for (const Step& step : steps_) {
      Layout to = from;
      if (!step.change(to)) continue;
      const bool leaves = to.tp > from.tp && to.tp > domain_;
      const int more = step.cost + (leaves ? kOverTheNetwork : 0);
      if (to.pp == from.pp) {
        reach(to, cost + more);
        continue;
      }
      for (const Layout& split : pipeline_splits(to, layers_)) reach(split, cost + more);
    }
    return from;
  }

 private:
  void reach(const Layout& layout, int cost) {
    const auto [known, first_time] = cheapest_.try_emplace(to_text(layout), cost);
    if (!first_time && known->second <= cost) return;
    known->second = cost;
    waiting_.push({cost, reached_.size()});
    reached_.push_back(layout);
  }

  std::int64_t layers_, domain_;
  std::vector<Step> steps_;
  using Waiting = std::pair<int, std::size_t>;  // cost, place in reached_
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting_;
  std::vector<Layout> reached_;
  std::map<std::string, int> cheapest_;  // by text
};

}  // namespace

std::optional<Change> smallest_change_that_fits(const MemoryQuestion& question, double risk) {
  if (question.layout.schedule == ScheduleKind::Csv) return std::nullopt;
  MemoryModel model(question.model, question.cluster, question.trainer, question.job,
                    question.constants, question.attention);
  Nearest nearest(question.layout, question.trainer, std::ssize(question.model.layers),
                  smallest_domain(question.cluster));
  for (int tried = 0; tried < kMostTried; ++tried) {
    const auto layout = nearest.next();
    if (!layout) break;
    if (!is_legal(violations(*layout, question.job, question.model, question.cluster,
                             question.trainer))) {
      continue;
    }
    const auto least = model.least(*layout);
    if (!least || fit_of(least->oom, risk) != Fit::Fits) continue;
    MemoryQuestion again{question.model, question.cluster,   question.trainer,   *layout,
                         question.job,   question.attention, question.constants, nullptr,
                         question.slack};
    const auto estimate = estimate_memory(again);
    if (!estimate || fit_of(estimate->oom, risk) != Fit::Fits) continue;
    return Change{*layout, estimate->classes[estimate->worst].driver};
  }
  return std::nullopt;
}

}  // namespace trainwright
