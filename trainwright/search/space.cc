#include "trainwright/search/space.h"

#include <algorithm>
#include <variant>

namespace trainwright {
namespace {

using detail::Pipeline;
using detail::Sharing;

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

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

// A ring passes keys on before a window's are together (the rule windows-need-whole-keys).
CpKind cp_kind_for(const Model& model, const Trainer& trainer, CpKind usual) {
  const bool windows = std::any_of(model.kinds.begin(), model.kinds.end(), [](const auto& kind) {
    const auto* attention = std::get_if<SoftmaxAttention>(&kind.attention);
    return attention != nullptr && attention->reach != Reach::Full;
  });
  const bool gathers = find_kind(trainer.cp_kinds, CpKind::AllGather) != nullptr;
  return windows && usual == CpKind::Ring && gathers ? CpKind::AllGather : usual;
}

// Degrees and micro-batches that divide what they split.
class Trunks {
 public:
  explicit Trunks(const SearchQuestion& question)
      : question_(question),
        splits_(splits_of(question.model)),
        usual_(usual_layout(question.trainer)),
        cp_kind_(cp_kind_for(question.model, question.trainer, usual_.cp_kind)) {
    usual_.gbs = question.gbs;
    usual_.seq = question.seq;
    usual_.precision = question.precision;
  }

  std::vector<Layout> all() {
    const std::int64_t world = accelerator_count(question_.cluster);
    const std::int64_t domain = smallest_domain(question_.cluster);
    for (const std::int64_t tp : divisors(world)) {
      if (tp > domain || !splits_.by_tp(tp) || !allowed("tp", tp)) continue;
      for (const std::int64_t pp : divisors(world / tp)) {
        if (pp > std::ssize(question_.model.layers)) break;
        if (!allowed("pp", pp)) continue;
        for (const std::int64_t cp : divisors(world / (tp * pp))) {
          // Causal attention is balanced by giving each member two pieces of a sequence.
          if (cp > 1 && question_.seq % (2 * cp * tp) != 0) continue;
          if (!allowed("cp", cp) || !allowed("dp", world / (tp * pp * cp))) continue;
          Layout layout = usual_;
          layout.tp = tp;
          layout.pp = pp;
          layout.cp = cp;
          layout.dp = world / (tp * pp * cp);
          layout.sp = tp > 1;
          if (cp > 1) layout.cp_kind = cp_kind_;
          if (question_.gbs % layout.dp == 0) experts(layout);
        }
      }
    }
    return std::move(trunks_);
  }

 private:
  bool allowed(std::string_view key, std::int64_t value) const {
    return allows(question_.limits, key, value);
  }

  void experts(Layout layout) {
    layout.etp = layout.tp;
    if (splits_.experts == 0) return micro_batches(layout);
    const std::int64_t ranks = layout.tp * layout.cp * layout.dp;
    for (const std::int64_t ep : divisors(splits_.experts)) {
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
    for (const std::int64_t mbs : divisors(question_.gbs / layout.dp)) {
      if (mbs > kMost) break;
      if (!allowed("mbs", mbs)) continue;
      layout.mbs = mbs;
      trunks_.push_back(layout);
    }
  }

  const SearchQuestion& question_;
  Splits splits_;
  Layout usual_;
  CpKind cp_kind_;
  std::vector<Layout> trunks_;
};

// Schedules that a rank of `vpp` chunks can have. What runs all forward passes first takes as long
// as one forward, one backward, and more memory: it is listed where the other is not offered.
std::vector<ScheduleKind> schedules_of(const Trainer& trainer, std::int64_t pp, std::int64_t vpp) {
  if (pp == 1) return {usual_schedule(pp, vpp)};
  const auto offered = [&](ScheduleKind kind) {
    return find_kind(trainer.schedules, kind) != nullptr;
  };
  std::vector<ScheduleKind> found;
  for (const KindFacts& facts : kinds()) {
    if (!offered(facts.kind) || vpp < facts.chunks_least || vpp > facts.chunks_most) continue;
    const bool passes_first =
        facts.kind == ScheduleKind::GPipe || facts.kind == ScheduleKind::LoopedBfs;
    if (!passes_first || !offered(usual_schedule(pp, vpp))) found.push_back(facts.kind);
  }
  return found;
}

bool comes_out_even(const Layout& layout, std::int64_t layers) {
  return (layers + layout.count_embedding + layout.count_loss) % stage_count(layout) == 0;
}

std::vector<Pipeline> pipelines_of(const SearchQuestion& question, std::int64_t pp, bool many) {
  const std::int64_t layers = std::ssize(question.model.layers);
  // Ends that count as layers add two.
  const std::int64_t most = pp == 1 || !many ? 1 : (layers + 2) / pp;
  std::vector<Pipeline> found;
  for (std::int64_t vpp = 1; vpp <= most; ++vpp) {
    if (!allows(question.limits, "vpp", vpp)) continue;
    for (const ScheduleKind schedule : schedules_of(question.trainer, pp, vpp)) {
      if (!allows(question.limits, "schedule", name_of(schedule))) continue;
      Layout layout = usual_layout(question.trainer);
      layout.pp = pp;
      layout.vpp = vpp;
      layout.schedule = schedule;
      layout.placement = usual_placement(schedule, vpp);
      for (const Layout& split : pipeline_splits(layout, layers)) {
        if (vpp > 1 && !comes_out_even(split, layers)) continue;
        if (!stage_layers(split, question.model)) continue;
        found.push_back({vpp, schedule, split.placement, split.count_embedding, split.count_loss,
                         split.first_layers, split.last_layers, least_idle(schedule, pp, vpp)});
      }
    }
  }
  return found;
}

std::pair<std::int64_t, bool> sharing_key(const Layout& trunk) { return {trunk.dp, trunk.cp > 1}; }
std::pair<std::int64_t, bool> pipeline_key(const Layout& trunk) {
  return {trunk.pp, micro_batch_count(trunk) >= trunk.pp};
}

}  // namespace

namespace detail {

std::vector<Recompute> recomputes_of(const SearchQuestion& question) {
  std::vector<Recompute> found;
  const auto offered = [&](RecomputeKind kind) {
    return (kind == RecomputeKind::None ||
            find_kind(question.trainer.recomputes, kind) != nullptr) &&
           allows(question.limits, "recompute", name_of(kind));
  };
  for (const RecomputeKind kind : {RecomputeKind::None, RecomputeKind::Selective}) {
    if (offered(kind)) found.push_back({kind, {}, 1});
  }
  const std::int64_t layers = std::ssize(question.model.layers);
  for (std::int64_t n = 1; n < layers && offered(RecomputeKind::Block); n *= 2) {
    found.push_back({RecomputeKind::Block, {}, n});
  }
  if (offered(RecomputeKind::Full)) found.push_back({RecomputeKind::Full, {}, 1});
  return found;
}

std::vector<Sharing> sharings_of(const SearchQuestion& question, std::int64_t dp, bool context) {
  std::vector<Sharing> found;
  for (const Sharing& of : {Sharing{ShardingKind::Ddp, 0, 1},
                            {ShardingKind::Zero, 1, 1},
                            {ShardingKind::Zero, 2, 1},
                            {ShardingKind::Zero, 3, 1},
                            {ShardingKind::Fsdp, 3, 1},
                            {ShardingKind::Hsdp, 3, 1}}) {
    if (find_kind(question.trainer.shardings, of.kind) == nullptr ||
        !allows(question.limits, "sharding", name_of(of.kind)) ||
        !allows(question.limits, "zero", of.zero)) {
      continue;
    }
    // With one copy of the weights there is nothing to share.
    if (dp == 1 && !context && of.kind != ShardingKind::Ddp) continue;
    for (const std::int64_t replicas : divisors(dp)) {
      const bool several = replicas > 1 && replicas < dp;
      if ((of.kind == ShardingKind::Hsdp) != several) continue;
      if (several || replicas == 1) found.push_back({of.kind, of.zero, replicas});
    }
  }
  return found;
}

Space::Space(const SearchQuestion& question)
    : layers_(std::ssize(question.model.layers)),
      trunks_(Trunks(question).all()),
      recomputes_(recomputes_of(question)) {
  for (const Layout& trunk : trunks_) {
    const auto sharing = sharing_key(trunk);
    if (!sharings_.contains(sharing)) {
      sharings_[sharing] = sharings_of(question, trunk.dp, trunk.cp > 1);
    }
    const auto pipeline = pipeline_key(trunk);
    if (!pipelines_.contains(pipeline)) {
      pipelines_[pipeline] = pipelines_of(question, pipeline.first, pipeline.second);
    }
  }
}

const std::vector<Sharing>& Space::sharings(std::int32_t trunk) const {
  return sharings_.at(sharing_key(trunks_[static_cast<std::size_t>(trunk)]));
}
const std::vector<Pipeline>& Space::pipelines(std::int32_t trunk) const {
  return pipelines_.at(pipeline_key(trunks_[static_cast<std::size_t>(trunk)]));
}
bool Space::holds(const Branch& leaf) const {
  const Recompute& recompute = recomputes_[static_cast<std::size_t>(leaf.recompute)];
  if (recompute.kind != RecomputeKind::Block) return true;
  const Layout& trunk = trunks_[static_cast<std::size_t>(leaf.trunk)];
  const Pipeline& pipeline = pipelines(leaf.trunk)[static_cast<std::size_t>(leaf.pipeline)];
  return recompute.n * trunk.pp * pipeline.vpp < layers_;
}
std::int64_t Space::leaves(std::int32_t trunk) const {
  std::int64_t held = 0;
  for (std::int32_t r = 0; r < std::ssize(recomputes_); ++r) {
    for (std::int32_t p = 0; p < std::ssize(pipelines(trunk)); ++p) {
      held += holds({trunk, r, 0, p}) ? 1 : 0;
    }
  }
  return held * std::ssize(sharings(trunk));
}
std::int64_t Space::size() const {
  std::int64_t all = 0;
  for (std::size_t i = 0; i < trunks_.size(); ++i) all += leaves(static_cast<std::int32_t>(i));
  return all;
}

Layout Space::layout(const Branch& branch) const {
  Layout layout = trunks_[static_cast<std::size_t>(branch.trunk)];
  if (branch.recompute >= 0) {
    layout.recompute = recomputes_[static_cast<std::size_t>(branch.recompute)];
  }
  if (branch.sharing >= 0) {
    const Sharing& of = sharings(branch.trunk)[static_cast<std::size_t>(branch.sharing)];
    layout.sharding = of.kind;
    layout.zero = of.zero;
    layout.dp_replicate = of.replicas;
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
  }
  return layout;
}

}  // namespace detail

std::vector<Layout> list_layouts(const SearchQuestion& question) {
  const detail::Space space(question);
  std::vector<Layout> layouts;
  const auto count = [](const auto& list) { return static_cast<std::int32_t>(list.size()); };
  for (std::int32_t t = 0; t < count(space.trunks()); ++t) {
    for (std::int32_t p = 0; p < count(space.pipelines(t)); ++p) {
      for (std::int32_t s = 0; s < count(space.sharings(t)); ++s) {
        for (std::int32_t r = 0; r < count(space.recomputes()); ++r) {
          if (space.holds({t, r, s, p})) layouts.push_back(space.layout({t, r, s, p}));
        }
      }
    }
  }
  return layouts;
}

}  // namespace trainwright
