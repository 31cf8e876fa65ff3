#include "trainwright/search/explain.h"

#include <algorithm>
#include <cmath>

#include "trainwright/search/manners.h"
#include "trainwright/search/search.h"
#include "trainwright/search/space.h"

namespace trainwright {
namespace {

// A layout on the same accelerators: dp takes what the other degrees leave.
std::optional<Layout> refilled(Layout layout, std::int64_t world) {
  const std::int64_t others = layout.tp * layout.pp * layout.cp;
  if (others < 1 || world % others != 0) return std::nullopt;
  layout.dp = world / others;
  if (layout.gbs % (layout.dp * layout.mbs) != 0) return std::nullopt;
  if (layout.dp % layout.dp_replicate != 0) layout.dp_replicate = 1;
  const bool copies = layout.dp * layout.cp > 1;
  if (!copies) {
    layout.sharding = ShardingKind::Ddp;
    layout.zero = 0;
  }
  return layout;
}

// Layers dealt out anew, in a way that the trainer accepts if there is one.
Layout dealt(const SearchQuestion& question, Layout layout) {
  layout.count_embedding = usual_layout(question.trainer).count_embedding;
  layout.count_loss = usual_layout(question.trainer).count_loss;
  layout.first_layers = layout.last_layers = 0;
  layout.layers.clear();
  layout.schedule = usual_schedule(layout.pp, layout.vpp);
  layout.placement = usual_placement(layout.schedule, layout.vpp);
  for (const Layout& split : pipeline_splits(layout, std::ssize(question.model.layers))) {
    if (is_legal(
            violations(split, question.job, question.model, question.cluster, question.trainer))) {
      return split;
    }
  }
  return layout;
}

struct Degree {
  const char* name;
  std::int64_t Layout::* value;
  bool deals;  // changes which layers a stage has
};
constexpr Degree kDegrees[] = {{"tp", &Layout::tp, false},  {"pp", &Layout::pp, true},
                               {"vpp", &Layout::vpp, true}, {"cp", &Layout::cp, false},
                               {"ep", &Layout::ep, false},  {"mbs", &Layout::mbs, false}};

class Neighbours {
 public:
  Neighbours(const SearchQuestion& question, const Layout& layout)
      : question_(question), layout_(layout) {}

  Result<std::vector<Neighbour>> all() {
    for (const Degree& degree : kDegrees) {
      const std::int64_t value = layout_.*degree.value;
      if (value % 2 == 0) TW_TRY(add(degree, value / 2));
      TW_TRY(add(degree, value * 2));
    }
    TW_TRY(add_recomputes());
    TW_TRY(add_sharings());
    return std::move(found_);
  }

 private:
  Result<bool> add(const Degree& degree, std::int64_t value) {
    Layout changed = layout_;
    changed.*degree.value = value;
    if (changed.ep > 1 && !has_experts(question_.model)) return false;
    if (changed.vpp > 1 && changed.pp == 1) changed.vpp = 1;
    if (changed.vpp * changed.pp > std::ssize(question_.model.layers)) changed.vpp = 1;
    if (changed.*degree.value != value) return false;
    changed.sp = layout_.tp > 1 ? layout_.sp && changed.tp > 1
                                : detail::splits_tokens(question_, changed.tp);
    if (layout_.etp == layout_.tp) changed.etp = changed.tp;
    const auto full = refilled(changed, accelerator_count(question_.cluster));
    if (!full || (changed.ep > 1 && expert_dp(*full) < 1)) return false;
    const Layout next = degree.deals ? dealt(question_, *full) : *full;
    return add(degree.name, std::to_string(layout_.*degree.value), std::to_string(value), next);
  }

  Result<bool> add(std::string knob, std::string from, std::string to, const Layout& layout) {
    found_.push_back(
        {std::move(knob), std::move(from), std::move(to), TW_TRY(judged(question_, layout))});
    return true;
  }

  // The list goes from the cheapest to the dearest.
  Result<bool> add_recomputes() {
    const std::vector<Recompute> list = detail::recomputes_of(question_);
    const auto here = std::find(list.begin(), list.end(), layout_.recompute);
    for (auto other = list.begin(); other != list.end(); ++other) {
      if (here == list.end() || std::abs(other - here) != 1) continue;
      Layout changed = layout_;
      changed.recompute = *other;
      TW_TRY(add("recompute", to_text(*here), to_text(*other), changed));
    }
    return true;
  }

  Result<bool> add_sharings() {
    const auto list = detail::sharings_of(question_, layout_.dp, layout_.cp > 1);
    for (const detail::Sharing& other : list) {
      const bool same = other.kind == layout_.sharding && other.zero == layout_.zero;
      const bool stays = other.offload == layout_.offload;
      // Neither, or both; or another one with weights gathered in 8 bits.
      if (same == stays || other.replicas > 1 || !other.on.empty()) continue;
      Layout changed = layout_;
      changed.sharding = other.kind;
      changed.zero = other.zero;
      changed.dp_replicate = 1;
      changed.offload = other.offload;
      const Knob knob = stays ? Knob::Sharding : Knob::Offload;
      TW_TRY(add(std::string(name_of(knob)), value_of(knob, layout_), value_of(knob, changed),
                 changed));
      // Which stages of ZeRO a trainer has is no news.
      if (other.kind == ShardingKind::Zero && !found_.back().judged.refused.empty()) {
        found_.pop_back();
      }
    }
    return true;
  }

  const SearchQuestion& question_;
  const Layout& layout_;
  std::vector<Neighbour> found_ = {};
};

}  // namespace

Result<Judged> judged(const SearchQuestion& question, const Layout& layout) {
  Judged result{.layout = layout};
  for (const LayoutViolation& violation :
       violations(layout, question.job, question.model, question.cluster, question.trainer)) {
    if (violation.severity == Severity::Forbidden) result.refused.push_back(violation);
  }
  if (!result.refused.empty()) return result;
  PlannedLayout plan = TW_TRY(planned(question, layout));
  result.time = plan.time;
  result.memory = std::move(plan.memory);
  return result;
}

Result<std::vector<Neighbour>> neighbours(const SearchQuestion& question, const Layout& layout) {
  return Neighbours(question, layout).all();
}

Cluster with_memory(Cluster cluster, double times) {
  for (Group& group : cluster.groups) {
    for (Bytes* bytes : {&group.accelerator.memory, &group.accelerator.memory_visible}) {
      *bytes = Bytes(static_cast<std::int64_t>(static_cast<double>(bytes->value()) * times));
    }
  }
  return cluster;
}

Result<std::optional<PlannedLayout>> fastest_with_memory(const SearchQuestion& question,
                                                         double times) {
  const Cluster larger = with_memory(question.cluster, times);
  SearchQuestion more = with_cluster(question, larger);
  more.most = 1;
  more.steps = question.steps;
  SearchResult result = TW_TRY(search(more));
  if (result.best.empty()) return std::nullopt;
  return std::move(result.best.front());
}

std::vector<std::pair<TimePart, Seconds>> differences(const StepTime& a, const StepTime& b) {
  std::vector<std::pair<TimePart, Seconds>> found;
  for (std::size_t i = 0; i < kTimeParts; ++i) {
    found.emplace_back(static_cast<TimePart>(i), b.parts[i] - a.parts[i]);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& x, const auto& y) {
    return std::abs(x.second.value()) > std::abs(y.second.value());
  });
  return found;
}

}  // namespace trainwright
