#include "trainwright/search/space.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <variant>

#include "trainwright/search/manners.h"
#include "trainwright/search/recipes.h"

namespace trainwright {
namespace {

using detail::Pipeline;
using detail::Sharing;

// What every layer must be split by, over all kinds of layers.
struct Splits {
  bool by_tp(std::int64_t tp) const {
    return std::all_of(heads.begin(), heads.end(), [&](auto n) { return n % tp == 0; }) &&
           std::all_of(widths.begin(), widths.end(), [&](auto n) { return n % tp == 0; });
  }
  std::vector<std::int64_t> heads, widths;
  std::int64_t experts = 0;
};

std::int64_t query_heads(const Attention& attention) {
  return std::visit(
      [](const auto& a) -> std::int64_t {
        if constexpr (requires { a.groups; }) {
          return a.groups;
        } else if constexpr (requires { a.heads; }) {
          return a.heads;
        } else if constexpr (requires { a.key_heads; }) {
          return a.key_heads;
        } else {
          return 0;
        }
      },
      attention);
}

Splits splits_of(const Model& model) {
  Splits splits;
  for (const LayerKind& kind : model.kinds) {
    splits.heads.push_back(query_heads(kind.attention));
    if (kind.beside_attention) splits.heads.push_back(kind.beside_attention->groups);
    if (const auto* mlp = std::get_if<Mlp>(&kind.feed_forward)) {
      splits.widths.push_back(mlp->width);
    } else if (const auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward)) {
      splits.experts = experts->experts;
    }
  }
  return splits;
}

// The trainer's own where it has no ring, which passes keys on before a window's are together (the
// rule windows-need-whole-keys).
CpKind usual_cp_kind(const Model& model, const Trainer& trainer, CpKind usual) {
  const bool windows = std::any_of(model.kinds.begin(), model.kinds.end(), [](const auto& kind) {
    const auto* attention = std::get_if<SoftmaxAttention>(&kind.attention);
    return attention != nullptr && attention->reach != Reach::Full;
  });
  const bool gathers = find_kind(trainer.cp_kinds, CpKind::AllGather) != nullptr;
  if (!trainer.cp_kinds.empty() && find_kind(trainer.cp_kinds, usual) == nullptr) {
    usual = trainer.cp_kinds.front().kind;
  }
  return windows && usual == CpKind::Ring && gathers ? CpKind::AllGather : usual;
}

// The usual one, or what is asked for.
CpKind cp_kind_of(const SearchQuestion& question, CpKind usual) {
  for (const Limit& limit : question.limits) {
    if (limit.key == "cp_kind") return *named<CpKind>(limit.kind);
  }
  return question.from && question.from->cp > 1
             ? usual
             : usual_cp_kind(question.model, question.trainer, usual);
}

// Experts whose products are launched one by one are nothing that is run at scale: where the
// trainer groups them if asked and does not refuse it here, it is asked.
bool groups_experts(const SearchQuestion& question) {
  const Kernel* kernel = find_kernel(question.trainer, KernelKind::GroupedGemm);
  if (question.from || !has_experts(question.model) || kernel == nullptr) return false;
  if (kernel->use != Use::OptIn) return false;
  Facts known;
  known.set(Variable::GroupedGemm, 1);
  known.set(Variable::Precision, name_of(question.precision));
  double capability = 0;
  for (const Group& group : question.cluster.groups) {
    const double own = group.accelerator.compute_capability;
    capability = capability == 0 ? own : std::min(capability, own);
  }
  if (capability > 0) known.set(Variable::Capability, std::llround(10 * capability));
  return !detail::forbids(question.trainer, known);
}

// Everything that the space does not vary: as the trainer does it unasked, or as it is today. What
// branches choose is the cheapest until they do: bounds rest on it.
Layout base_of(const SearchQuestion& question) {
  const Layout usual = usual_layout(question.trainer);
  Layout layout = question.from ? *question.from : usual;
  layout.recompute = usual.recompute;
  layout.sharding = ShardingKind::Ddp;
  layout.zero = 0;
  layout.dp_replicate = usual.dp_replicate;
  layout.offload = {};
  layout.vpp = 1;
  layout.schedule = usual.schedule;
  layout.placement = usual.placement;
  layout.count_embedding = usual.count_embedding;
  layout.count_loss = usual.count_loss;
  layout.first_layers = layout.last_layers = 0;
  layout.layers.clear();
  layout.gbs = question.gbs;
  layout.seq = question.seq;
  layout.precision = question.precision;
  if (groups_experts(question)) layout.on.insert(Switch::GroupedGemm);
  layout.gradients = detail::gradients_of_recipes(question).value_or(layout.gradients);
  for (const Limit& limit : question.limits) {
    if (limit.key == "loss") layout.loss = limit.kind;
    if (limit.key == "gradients") layout.gradients = *named<GradientDtype>(limit.kind);
  }
  layout.on.bits |= fixed_switches(question.limits).bits;
  return layout;
}

bool too_far(const SearchQuestion& question, const Layout& trunk) {
  if (!question.from) return false;
  Flags<Knob> changed = changed_knobs(*question.from, trunk);
  changed.bits &= (2U << static_cast<unsigned>(Knob::Mbs)) - 1;
  return count_of(changed) > kMostChanges;
}

// Degrees and micro-batches that divide what they split.
class Stems {
 public:
  explicit Stems(const SearchQuestion& question)
      : question_(question),
        shared_batch_(shared_batch(question)),
        splits_(splits_of(question.model)),
        base_(base_of(question)),
        cp_kind_(cp_kind_of(question, base_.cp_kind)) {}

  std::vector<Layout> all() {
    const std::int64_t world = accelerator_count(question_.cluster);
    const std::int64_t domain = smallest_domain(question_.cluster);
    for (const std::int64_t tp : detail::divisors(world)) {
      if (tp > domain || !splits_.by_tp(tp) || !allowed("tp", tp)) continue;
      const bool splits_tokens = detail::splits_tokens(question_, tp);
      for (const std::int64_t pp : detail::divisors(world / tp)) {
        if (pp > std::ssize(question_.model.layers)) break;
        if (!allowed("pp", pp)) continue;
        for (const std::int64_t cp : detail::divisors(world / (tp * pp))) {
          // Causal attention is balanced by giving each member two pieces of a sequence.
          if (cp > 1 && question_.seq % (2 * cp * tp) != 0) continue;
          if (!allowed("cp", cp) || !allowed("dp", world / (tp * pp * cp))) continue;
          Layout layout = base_;
          layout.tp = tp;
          layout.pp = pp;
          layout.cp = cp;
          layout.dp = world / (tp * pp * cp);
          if (tp != base_.tp || !question_.from) layout.sp = splits_tokens;
          if (cp > 1) layout.cp_kind = cp_kind_;
          if (shared_batch_ % layout.dp == 0) experts(layout);
        }
      }
    }
    return std::move(stems_);
  }

 private:
  bool allowed(std::string_view key, std::int64_t value) const {
    return allows(question_.limits, key, value);
  }

  void experts(Layout layout) {
    layout.etp = layout.tp;
    if (splits_.experts == 0) return micro_batches(layout);
    const std::int64_t ranks = layout.tp * layout.cp * layout.dp;
    for (const std::int64_t ep : detail::divisors(splits_.experts)) {
      for (const std::int64_t etp : {std::int64_t{1}, layout.tp}) {
        if (ranks % (ep * etp) != 0 || !allowed("ep", ep) || !allowed("etp", etp)) continue;
        layout.ep = ep;
        layout.etp = etp;
        micro_batches(layout);
        if (layout.tp == 1) break;  // both are the same
      }
    }
  }

  void micro_batches(Layout layout) {
    constexpr std::int64_t kMost = 64;
    if (layout.ep == 1) layout.dispatcher = DispatcherKind::AllToAll;  // there is none
    for (const Limit& limit : question_.limits) {
      if (limit.key == "dispatcher" && layout.ep > 1) {
        layout.dispatcher = *named<DispatcherKind>(limit.kind);
        if (layout.dispatcher == DispatcherKind::Flex) {
          layout.dispatcher = usual_flex(question_.cluster, question_.trainer);
        }
      }
    }
    if (!detail::feels(layout, fixed_switches(question_.limits))) return;
    for (const std::int64_t mbs : detail::divisors(shared_batch_ / layout.dp)) {
      if (mbs > kMost) break;
      if (!allowed("mbs", mbs)) continue;
      layout.mbs = mbs;
      if (!too_far(question_, layout)) stems_.push_back(layout);
    }
  }

  const SearchQuestion& question_;
  std::int64_t shared_batch_;
  Splits splits_;
  Layout base_;
  CpKind cp_kind_;
  std::vector<Layout> stems_;
};

std::pair<std::int64_t, bool> sharing_key(const Layout& trunk) { return {trunk.dp, trunk.cp > 1}; }

}  // namespace

namespace detail {

Space::Space(const SearchQuestion& question)
    : layers_(std::ssize(question.model.layers)),
      from_(question.from),
      stems_(Stems(question).all()),
      manners_(manners_of(question, base_of(question))),
      late_(question, base_of(question)),
      recomputes_(recomputes_of(question)) {
  const auto key = [](const Manner& of) {
    return std::tuple(of.loss, of.only_split, of.on.has(Switch::Compile));
  };
  for (std::size_t m = 0; m < manners_.size(); ++m) {
    std::size_t place = 0;
    while (place < pipeline_manners_.size() &&
           key(manners_[pipeline_manners_[place]]) != key(manners_[m])) {
      ++place;
    }
    if (place == pipeline_manners_.size()) pipeline_manners_.push_back(m);
    same_to_pipelines_.push_back(place);
  }
  for (std::size_t s = 0; s < stems_.size(); ++s) {
    Layout before = s > 0 ? stems_[s - 1] : Layout{};
    before.mbs = stems_[s].mbs;
    const bool same = s > 0 && before == stems_[s];
    degrees_of_.push_back(s == 0 ? 0 : degrees_of_.back() + (same ? 0 : 1));
    const auto [sharing, unshared] = sharings_.try_emplace(sharing_key(stems_[s]));
    if (unshared) sharing->second = sharings_of(question, stems_[s].dp, stems_[s].cp > 1);
    sharings_of_.push_back(&sharing->second);
    for (std::size_t place = 0; place < pipeline_manners_.size(); ++place) {
      add_pipelines(question, s, place);
    }
  }
}

void Space::add_pipelines(const SearchQuestion& question, std::size_t stem, std::size_t place) {
  const Manner& manner = manners_[pipeline_manners_[place]];
  const std::int64_t trunk = trunk_of(stem, pipeline_manners_[place]);
  const auto [pipeline, fresh] = pipelines_.try_emplace(
      {stems_[stem].pp, has_many(stems_[stem]), stems_[stem].on.has(Switch::Compile), place});
  pipelines_of_.push_back(&pipeline->second);
  if (!fresh) return;
  Pipelines& made = pipeline->second;
  made.list = pipelines_of(question, in_manner(stems_[stem], manner), manner.only_split);
  made.by_idle.resize(made.list.size());
  std::iota(made.by_idle.begin(), made.by_idle.end(), 0);
  std::stable_sort(made.by_idle.begin(), made.by_idle.end(), [&](auto a, auto b) {
    return made.list[static_cast<std::size_t>(a)].idle <
           made.list[static_cast<std::size_t>(b)].idle;
  });
  made.idle = std::numeric_limits<double>::infinity();
  for (const Pipeline& of : made.list) made.idle = std::min(made.idle, of.idle);
  if (from_) return;
  for (std::int32_t r = 0; r < std::ssize(recomputes_); ++r) {
    made.held.push_back(0);
    for (std::int32_t p = 0; p < std::ssize(made.list); ++p) {
      made.held.back() += holds({trunk, r, 0, p}) ? 1 : 0;
    }
  }
}

std::size_t Space::stem_of(std::int64_t trunk) const {
  return static_cast<std::size_t>(trunk) / manners_.size();
}
std::size_t Space::manner_of(std::int64_t trunk) const {
  return static_cast<std::size_t>(trunk) % manners_.size();
}
bool Space::is_felt(std::int64_t trunk) const {
  return detail::is_felt(manners_[manner_of(trunk)], stems_[stem_of(trunk)]);
}
const Space::Pipelines& Space::pipelines_at(std::int64_t trunk) const {
  return *pipelines_of_[stem_of(trunk) * pipeline_manners_.size() +
                        same_to_pipelines_[manner_of(trunk)]];
}
const std::vector<Sharing>& Space::sharings(std::int64_t trunk) const {
  return *sharings_of_[stem_of(trunk)];
}
const std::vector<Pipeline>& Space::pipelines(std::int64_t trunk) const {
  return pipelines_at(trunk).list;
}
const std::vector<std::int32_t>& Space::by_idle(std::int64_t trunk) const {
  return pipelines_at(trunk).by_idle;
}
bool Space::holds(const Branch& leaf) const {
  if (from_ && count_of(changed_knobs(*from_, layout(leaf))) > kMostChanges) return false;
  const Recompute& recompute = recomputes_[static_cast<std::size_t>(leaf.recompute)];
  if (recompute.kind != RecomputeKind::Block) return true;
  const Pipeline& pipeline = pipelines(leaf.trunk)[static_cast<std::size_t>(leaf.pipeline)];
  return recompute.n * stems_[stem_of(leaf.trunk)].pp * pipeline.vpp < layers_;
}
std::int64_t Space::leaves(const Branch& branch) const {
  if (!is_felt(branch.trunk)) return 0;
  Branch leaf = branch;
  std::int64_t held = 0;
  const auto each = [](std::int32_t chosen, std::int64_t count, std::int32_t& at,
                       const auto& visit) {
    if (chosen >= 0) return visit();
    for (at = 0; at < count; ++at) visit();
  };
  each(branch.sharing, from_ ? std::ssize(sharings(branch.trunk)) : 1, leaf.sharing, [&] {
    each(branch.recompute, std::ssize(recomputes_), leaf.recompute, [&] {
      // How weights are shared matters to nothing but the distance from a layout.
      if (!from_) {
        held += pipelines_at(branch.trunk).held[static_cast<std::size_t>(leaf.recompute)];
        return;
      }
      for (leaf.pipeline = 0; leaf.pipeline < std::ssize(pipelines(branch.trunk));
           ++leaf.pipeline) {
        held += holds(leaf) ? 1 : 0;
      }
    });
  });
  return branch.sharing >= 0 || from_ ? held : held * std::ssize(sharings(branch.trunk));
}
double Space::least_idle_of(std::int64_t trunk) const { return pipelines_at(trunk).idle; }
std::int64_t Space::size() const {
  std::int64_t all = 0;
  if (from_) {
    for (std::int64_t t = 0; t < trunks(); ++t) all += leaves({.trunk = t});
    return all;
  }
  for (std::size_t s = 0; s < stems_.size(); ++s) {
    std::int64_t of_stem = 0;
    for (std::size_t m = 0; m < manners_.size(); ++m) {
      if (!is_felt(trunk_of(s, m))) continue;
      const std::vector<std::int64_t>& held = pipelines_at(trunk_of(s, m)).held;
      of_stem = std::accumulate(held.begin(), held.end(), of_stem);
    }
    all += of_stem * std::ssize(*sharings_of_[s]) * late_.felt_by(stems_[s]);
  }
  return all;
}

Layout Space::layout(const Branch& branch) const {
  Layout layout = in_manner(stems_[stem_of(branch.trunk)], manners_[manner_of(branch.trunk)]);
  if (branch.recompute >= 0) {
    layout.recompute = recomputes_[static_cast<std::size_t>(branch.recompute)];
  }
  if (branch.sharing >= 0) {
    const Sharing& of = sharings(branch.trunk)[static_cast<std::size_t>(branch.sharing)];
    layout.sharding = of.kind;
    layout.zero = of.zero;
    layout.dp_replicate = of.replicas;
    layout.offload = of.offload;
    layout.on.bits |= of.on.bits;
  }
  if (branch.pipeline >= 0) {
    const Pipeline& of = pipelines(branch.trunk)[static_cast<std::size_t>(branch.pipeline)];
    layout.vpp = of.vpp;
    layout.schedule = of.schedule;
    layout.placement = of.placement;
    layout.count_embedding = of.count_embedding;
    layout.count_loss = of.count_loss;
    layout.first_layers = of.first_layers;
    layout.last_layers = of.last_layers;
    layout.layers = of.layers;
  }
  return branch.way < 0 ? layout : late_.in_way(std::move(layout), branch.way);
}

}  // namespace detail

std::vector<Layout> list_layouts(const SearchQuestion& question) {
  const detail::Space space(question);
  std::vector<Layout> layouts;
  const auto count = [](const auto& list) { return static_cast<std::int32_t>(list.size()); };
  for (std::int64_t t = 0; t < space.trunks(); ++t) {
    if (!space.is_felt(t)) continue;
    for (std::int32_t p = 0; p < count(space.pipelines(t)); ++p) {
      for (std::int32_t s = 0; s < count(space.sharings(t)); ++s) {
        for (std::int32_t r = 0; r < count(space.recomputes()); ++r) {
          if (!space.holds({t, r, s, p})) continue;
          const Layout leaf = space.layout({t, r, s, p});
          for (std::int32_t way = 0; way < space.late().ways(); ++way) {
            if (space.late().is_felt(leaf, way)) layouts.push_back(space.layout({t, r, s, p, way}));
          }
        }
      }
    }
  }
  return layouts;
}

std::int64_t count_layouts(const SearchQuestion& question) {
  return detail::Space(question).size();
}

}  // namespace trainwright
