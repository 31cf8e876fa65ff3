// The layouts of a cluster that divide what they split.
#include <algorithm>

#include "trainwright/search/search.h"

namespace trainwright {
namespace {

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
      [](const auto& a) {
        if constexpr (requires { a.heads; }) {
          return a.heads;
        } else {
          return a.key_heads;
        }
      },
      attention);
}

Splits splits_of(const Model& model) {
  Splits splits;
  for (const LayerKind& kind : model.kinds) {
    splits.heads.push_back(query_heads(kind.attention));
    if (const auto* mlp = std::get_if<Mlp>(&kind.feed_forward)) {
      splits.widths.push_back(mlp->width);
    } else {
      splits.experts = std::get<MixtureOfExperts>(kind.feed_forward).experts;
    }
  }
  return splits;
}

// The trainer's offers, in the order of the enumerators.
struct Offers {
  std::vector<Recompute> recomputes;
  std::vector<std::pair<ShardingKind, std::int64_t>> shardings;  // and the ZeRO stage
  std::vector<ScheduleKind> pipelines;
};

Offers offers_of(const Trainer& trainer) {
  Offers result;
  for (const RecomputeKind kind :
       {RecomputeKind::None, RecomputeKind::Selective, RecomputeKind::Full}) {
    if (kind == RecomputeKind::None || find_kind(trainer.recomputes, kind) != nullptr) {
      result.recomputes.push_back({kind, {}, 1});
    }
  }
  const std::pair<ShardingKind, std::int64_t> kinds[] = {{ShardingKind::Ddp, 0},
                                                         {ShardingKind::Zero, 1},
                                                         {ShardingKind::Zero, 2},
                                                         {ShardingKind::Zero, 3},
                                                         {ShardingKind::Fsdp, 3}};
  for (const auto& [kind, zero] : kinds) {
    if (find_kind(trainer.shardings, kind) != nullptr) result.shardings.emplace_back(kind, zero);
  }
  return result;
}

// The job of filling in what is left once tp, pp and cp are chosen.
class Lister {
 public:
  Lister(const SearchQuestion& question)
      : question_(question),
        splits_(splits_of(question.model)),
        offers_(offers_of(question.trainer)),
        usual_(usual_layout(question.trainer)) {
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
        if (pp > layers()) break;
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
          if (question_.gbs % layout.dp == 0) experts(layout);
        }
      }
    }
    return std::move(layouts_);
  }

 private:
  bool allowed(std::string_view key, std::int64_t value) const {
    return allows(question_.limits, key, value);
  }
  std::int64_t layers() const { return static_cast<std::int64_t>(question_.model.layers.size()); }

  void experts(Layout layout) {
    layout.etp = layout.tp;
    if (splits_.experts == 0) return micro_batches(layout);
    const std::int64_t ranks = layout.tp * layout.cp * layout.dp;
    for (const std::int64_t ep : divisors(splits_.experts)) {
      for (const std::int64_t etp : {std::int64_t{1}, layout.tp}) {
        if (ranks % (ep * etp) != 0 || !allowed("ep", ep)) continue;
        layout.ep = ep;
        layout.etp = etp;
        micro_batches(layout);
        if (layout.tp == 1) break;  // both are the same
      }
    }
  }

  void micro_batches(Layout layout) {
    const std::int64_t share = question_.gbs / layout.dp;
    for (std::int64_t mbs = 1; mbs <= std::min<std::int64_t>(share, 64); mbs *= 2) {
      if (share % mbs != 0) break;
      if (!allowed("mbs", mbs)) continue;
      layout.mbs = mbs;
      chunks(layout);
    }
  }

  void chunks(Layout layout) {
    // Ends that count as layers add two.
    const std::int64_t most = layout.pp == 1 ? 1 : (layers() + 2) / layout.pp;
    for (std::int64_t vpp = 1; vpp <= most; ++vpp) {
      if (vpp > 1 && micro_batch_count(layout) < layout.pp) break;
      if (!allowed("vpp", vpp)) continue;
      layout.vpp = vpp;
      layout.schedule = usual_schedule(layout.pp, vpp);
      layout.placement = usual_placement(layout.schedule, vpp);
      if (!runs(layout.schedule)) continue;
      for (const Layout& split : pipeline_splits(layout, layers())) {
        if (vpp == 1 || comes_out_even(split)) rest(split);
      }
    }
  }

  bool comes_out_even(const Layout& layout) const {
    return (layers() + layout.count_embedding + layout.count_loss) % stage_count(layout) == 0;
  }

  bool runs(ScheduleKind kind) const {
    return find_kind(question_.trainer.schedules, kind) != nullptr;
  }

  void rest(Layout layout) {
    for (const auto& [sharding, zero] : offers_.shardings) {
      // With one copy of the weights there is nothing to share.
      if (layout.dp * layout.cp == 1 && sharding != ShardingKind::Ddp) continue;
      layout.sharding = sharding;
      layout.zero = zero;
      for (const Recompute& recompute : offers_.recomputes) {
        layout.recompute = recompute;
        if (allows(question_.limits, layout)) layouts_.push_back(layout);
      }
    }
  }

  const SearchQuestion& question_;
  Splits splits_;
  Offers offers_;
  Layout usual_;
  std::vector<Layout> layouts_;
};

}  // namespace

std::vector<Layout> list_layouts(const SearchQuestion& question) { return Lister(question).all(); }

}  // namespace trainwright
