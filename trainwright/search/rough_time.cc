// The rough time model of search.h: FLOPs at half of the peak, bytes over links, no overlap.
#include <algorithm>
#include <array>

#include "trainwright/search/rates.h"
#include "trainwright/search/search.h"

namespace trainwright {
namespace {

constexpr double kShareOfPeak = 0.5;

// What a ring over n ranks moves through each rank's link, as a share of the bytes of list.h's
// Collective: all-reduce twice the rest of the group, a ring attention exactly what it sends.
double moved_share(CollectiveKind kind, std::int64_t n) {
  const double others = static_cast<double>(n - 1) / static_cast<double>(n);
  switch (kind) {
    case CollectiveKind::AllReduce: return 2 * others;
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllToAll: return others;
    case CollectiveKind::Ring: return 1;
  }
  return 1;
}

// The links of a layout's groups, each looked up once.
class Wires {
 public:
  Wires(const Layout& layout, const Cluster& cluster) : layout_(layout), cluster_(cluster) {}

  Seconds time(GroupKind kind, CollectiveKind collective, Bytes bytes) {
    if (bytes == Bytes(0)) return {};
    auto& link = links_[static_cast<std::size_t>(kind)];
    if (!link) link = link_of(kind);
    if (link->members < 2) return {};
    return bytes / link->bandwidth * moved_share(collective, link->members);
  }

 private:
  struct Link {
    std::int64_t members = 1;
    BytesPerSecond bandwidth;
  };

  Link link_of(GroupKind kind) const {
    const GroupPlacement place = place_group(layout_, kind, cluster_);
    Link link{place.group.size, bandwidth_in(cluster_.groups.front(), place.spanned)};
    for (const Group& group : cluster_.groups) {
      link.bandwidth = std::min(link.bandwidth, bandwidth_in(group, place.spanned));
    }
    const bool leaves = !place.tiers.empty() && place.tiers.back().domains > 1;
    if (leaves && cluster_.between) {
      link.bandwidth = std::min(link.bandwidth, bandwidth_under_load(*cluster_.between));
    }
    return link;
  }

  static BytesPerSecond bandwidth_in(const Group& group, std::size_t tier) {
    return bandwidth_under_load(group.tiers[std::min(tier, group.tiers.size() - 1)]);
  }

  const Layout& layout_;
  const Cluster& cluster_;
  std::array<std::optional<Link>, static_cast<std::size_t>(GroupKind::World) + 1> links_{};
};

// Seconds of one micro-batch on one pipeline rank.
struct Visit {
  Seconds compute, tensor, context, expert, vocabulary;
  Seconds total() const { return compute + tensor + context + expert + vocabulary; }
};

Seconds group_time(const TrafficTable& traffic, GroupKind group, Wires& wires) {
  Seconds sum;
  for (const CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll, CollectiveKind::Ring}) {
    Bytes bytes;
    for (const Pass pass :
         {Pass::Forward, Pass::InputGradient, Pass::WeightGradient, Pass::Recompute}) {
      bytes += traffic.at(group, kind, pass).bytes;
    }
    sum += wires.time(group, kind, bytes);
  }
  return sum;
}

Visit& add(Visit& visit, const Totals& stage, FlopsPerSecond rate, Wires& wires) {
  for (const Effort& effort : stage.effort) visit.compute += effort.matmul / rate;
  visit.tensor += group_time(stage.traffic, GroupKind::Tp, wires);
  visit.context += group_time(stage.traffic, GroupKind::Cp, wires);
  visit.expert += group_time(stage.traffic, GroupKind::Ep, wires);
  visit.expert += group_time(stage.traffic, GroupKind::Etp, wires);
  visit.vocabulary += group_time(stage.traffic, GroupKind::Pp, wires);
  return visit;
}

// What the weights and gradients of one stage cost on the wire, in one step.
Seconds data_time(const SearchQuestion& question, const Layout& layout, const Totals& stage,
                  std::int64_t layers, const Recipe& recipe, Wires& wires) {
  const auto bytes = trained_bytes(question.job, layout.precision, question.trainer);
  if (!bytes) return {};
  Seconds sum;
  for (const ParameterTraffic& traffic : parameter_traffic(
           stage.parameters, layers, sharding_of(layout, question.trainer), recipe, *bytes)) {
    const double times =
        traffic.every_micro_batch ? static_cast<double>(micro_batch_count(layout)) : 1.0;
    sum += wires.time(traffic.group, traffic.kind, traffic.bytes) * times;
  }
  return sum;
}

}  // namespace

RoughTime rough_time(const SearchQuestion& question, const Layout& layout, WorkCache& work) {
  const FlopsPerSecond rate =
      detail::slowest_peak(question.cluster, layout.precision) * kShareOfPeak;
  const Recipe recipe = recipe_of(question.trainer, layout.precision, question.job);
  Wires wires(layout, question.cluster);
  std::vector<Visit> ranks(static_cast<std::size_t>(layout.pp));
  std::vector<Seconds> data(ranks.size());
  const auto stages = stage_layers(layout, question.model);
  TW_CHECK(stages.has_value(), "the layers of a listed layout can be dealt out");
  for (const Stage& stage : *stages) {
    const Slice slice = slice_of(layout, question.trainer, stage.id.index());
    std::vector<Portion> portions = work.stage(stage, slice);
    for (const Portion& share : work.shares(stage, slice)) portions.push_back(share);
    const Totals sums = compose(portions);
    const auto rank = static_cast<std::size_t>(stage.rank);
    add(ranks[rank], sums, rate, wires);
    data[rank] += data_time(question, layout, sums, stage.count, recipe, wires);
  }
  const auto slowest = std::max_element(ranks.begin(), ranks.end(),
                                        [](auto& a, auto& b) { return a.total() < b.total(); });
  const double m = static_cast<double>(micro_batch_count(layout));
  RoughTime time;
  time.compute = slowest->compute * m;
  time.tensor = slowest->tensor * m;
  time.context = slowest->context * m;
  time.expert = slowest->expert * m;
  time.bubble =
      slowest->total() * (static_cast<double>(layout.pp - 1) / static_cast<double>(layout.vpp));
  time.data = *std::max_element(data.begin(), data.end());
  time.pipeline = slowest->vocabulary * m;
  if (layout.pp > 1) {
    const Slice slice = slice_of(layout, question.trainer);
    // Down and back, once per chunk and micro-batch.
    time.pipeline += wires.time(GroupKind::Pp, CollectiveKind::Ring,
                                boundary_bytes(question.model, slice, recipe)) *
                     (2 * m * static_cast<double>(layout.vpp));
  }
  time.step = time.compute + time.tensor + time.context + time.expert + time.bubble + time.data +
              time.pipeline;
  return time;
}

}  // namespace trainwright
