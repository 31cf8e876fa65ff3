// Groups of ranks as strides, and how strides lie in domains.
#include "trainwright/layout/placement.h"

#include <algorithm>
#include <bitset>
#include <numeric>

#include "trainwright/base/check.h"
#include "trainwright/layout/layout.h"
#include "trainwright/layout/product.h"

namespace trainwright {
namespace {

using detail::product_or_most;

std::int64_t degree(const Layout& layout, Axis axis, Weights weights) {
  const bool dense = weights == Weights::Dense;
  switch (axis) {
    case Axis::Tp: return dense ? layout.tp : layout.etp;
    case Axis::Cp: return dense ? layout.cp : 1;
    case Axis::Ep: return dense ? 1 : layout.ep;
    case Axis::Dp: return dense ? layout.dp : std::max<std::int64_t>(1, expert_dp(layout));
    case Axis::Pp: return layout.pp;
  }
  TW_CHECK(false, "no such axis");
}

// The axes of a group, lowest stride first.
std::vector<Stride> strides_of(const Layout& layout, Weights weights, Flags<Axis> axes) {
  std::vector<Stride> strides;
  std::int64_t stride = 1;
  for (const Axis axis : layout.order) {
    const std::int64_t members = degree(layout, axis, weights);
    if (axes.has(axis)) strides.push_back({.members = members, .stride = stride});
    stride = product_or_most(stride, members);
  }
  return strides;
}

// Of the dp axis the inner part shares one copy of the states, the outer part repeats it.
std::vector<Stride> shard_strides(const Layout& layout, Weights weights, bool shard) {
  // Without sharding all of dp x cp hold the same states.
  if (layout.zero == 0) {
    if (shard) return {};
    return strides_of(layout, weights, {Axis::Cp, Axis::Dp});
  }
  Stride dp = strides_of(layout, weights, {Axis::Dp}).front();
  const std::int64_t inner = std::max<std::int64_t>(1, dp.members / layout.dp_replicate);
  if (!shard) return {{.members = dp.members / inner, .stride = product_or_most(dp.stride, inner)}};
  dp.members = inner;
  std::vector<Stride> strides = strides_of(layout, weights, {Axis::Cp});
  strides.push_back(dp);
  std::sort(strides.begin(), strides.end(),
            [](const Stride& a, const Stride& b) { return a.stride < b.stride; });
  return strides;
}

std::vector<Stride> strides_of(const Layout& layout, GroupKind kind) {
  using enum Axis;
  switch (kind) {
    case GroupKind::Tp: return strides_of(layout, Weights::Dense, {Tp});
    case GroupKind::Cp: return strides_of(layout, Weights::Dense, {Cp});
    case GroupKind::Dp: return strides_of(layout, Weights::Dense, {Dp});
    case GroupKind::Pp: return strides_of(layout, Weights::Dense, {Pp});
    case GroupKind::TpCp: return strides_of(layout, Weights::Dense, {Tp, Cp});
    case GroupKind::DpCp: return strides_of(layout, Weights::Dense, {Cp, Dp});
    case GroupKind::Shard: return shard_strides(layout, Weights::Dense, true);
    case GroupKind::Replicate: return shard_strides(layout, Weights::Dense, false);
    case GroupKind::Model: return strides_of(layout, Weights::Dense, {Tp, Pp});
    case GroupKind::Ep: return strides_of(layout, Weights::Expert, {Ep});
    case GroupKind::Etp: return strides_of(layout, Weights::Expert, {Tp});
    case GroupKind::EtpEp: return strides_of(layout, Weights::Expert, {Tp, Ep});
    case GroupKind::Edp: return strides_of(layout, Weights::Expert, {Dp});
    case GroupKind::ExpertShard: return shard_strides(layout, Weights::Expert, true);
    case GroupKind::ExpertReplicate: return shard_strides(layout, Weights::Expert, false);
    case GroupKind::World: return strides_of(layout, Weights::Dense, {Tp, Cp, Dp, Pp});
  }
  TW_CHECK(false, "no such kind of group");
}

// One axis alone, over every group of the kind. Groups begin at lo + hi s k with lo < k, so in
// domains of n their beginnings have the residues r + lo with r every multiple of gcd(s k, n).
Sharing along(const Stride& axis, std::int64_t n) {
  const std::int64_t s = axis.members;
  const std::int64_t k = axis.stride;
  if (k >= n) return {.together = 1, .domains = s, .uniform = true};
  const std::int64_t block = product_or_most(s, k);
  if (n % block == 0) return {.together = s, .domains = 1, .uniform = true};
  if (n % k == 0 && block % n == 0) {
    return {.together = n / k, .domains = block / n, .uniform = true};
  }
  const std::int64_t g = std::gcd(block, n);
  const std::int64_t latest = std::min(n - g + k - 1, n - 1);  // residue of a beginning
  const std::int64_t domains = (latest + (s - 1) * k) / n + 1;
  // The first and the last domain hold the fewest, as few as fit between a beginning and a border.
  const std::int64_t edge = std::max<std::int64_t>(1, g / k);
  return {.together = std::min(s, edge), .domains = domains, .uniform = false};
}

// The worst case of several axes that do not all fit the domains: a member finds at least those
// along any one axis, and a group touches at most what one axis does, for each line of the others.
Sharing worst(const std::vector<Stride>& strides, std::int64_t n) {
  Sharing answer{.together = 1, .domains = INT64_MAX, .uniform = false};
  std::int64_t inside = 1;  // members of the axes that lie whole in any domain
  std::int64_t lines = 1;   // members of the others
  for (const Stride& axis : strides) {
    std::int64_t& product = along(axis, n).domains == 1 ? inside : lines;
    product = product_or_most(product, axis.members);
  }
  std::int64_t reach = 0;  // from the first member to the last, at most
  for (const Stride& axis : strides) {
    reach = std::max(reach, product_or_most(axis.members, axis.stride));
    const Sharing one = along(axis, n);
    if (one.domains == 1) continue;
    answer.together = std::max(answer.together, one.together);
    answer.domains = std::min(answer.domains, product_or_most(one.domains, lines / axis.members));
  }
  answer.together *= inside;
  answer.domains = std::min(answer.domains, ceil_div(reach, n) + 1);
  return answer;
}

// The most rails that one group touches. Only the position within a node matters, so this counts
// positions, not ranks; beyond kMostPositions it answers the most there could be.
std::int64_t rails_touched(const RankGroup& group, const Group& hardware) {
  constexpr std::int64_t kMostPositions = 1024;
  const std::int64_t node = hardware.per_node;
  if (hardware.rails <= 1 || group.size <= 1) return 1;
  if (node > kMostPositions) return std::min(group.size, hardware.rails);
  std::vector<std::int64_t> positions = {0};
  std::bitset<kMostPositions> seen;
  seen.set(0);
  for (const Stride& axis : group.strides) {
    const std::int64_t step = axis.stride % node;
    const std::int64_t distinct = std::min(axis.members, node / std::gcd(step, node));
    const std::size_t before = positions.size();
    for (std::size_t p = 0; p < before; ++p) {
      for (std::int64_t i = 1; i < distinct; ++i) {
        const std::int64_t at = (positions[p] + i * step) % node;
        if (seen.test(static_cast<std::size_t>(at))) continue;
        seen.set(static_cast<std::size_t>(at));
        positions.push_back(at);
      }
    }
  }
  std::int64_t most = 1;
  for (std::int64_t begin = 0; begin < node; ++begin) {
    std::bitset<kMostPositions> rails;
    for (const std::int64_t at : positions) {
      rails.set(static_cast<std::size_t>(rail_of(hardware, (begin + at) % node)));
    }
    most = std::max(most, static_cast<std::int64_t>(rails.count()));
  }
  return most;
}

}  // namespace

RankGroup rank_group(const Layout& layout, GroupKind kind) {
  RankGroup group;
  for (const Stride& axis : strides_of(layout, kind)) {
    if (axis.members == 1) continue;
    group.size = product_or_most(group.size, axis.members);
    if (!group.strides.empty() &&
        product_or_most(group.strides.back().members, group.strides.back().stride) == axis.stride) {
      group.strides.back().members *= axis.members;
    } else {
      group.strides.push_back(axis);
    }
  }
  group.count = world_size(layout) / group.size;
  return group;
}

RankGroup pipeline_group(const Layout& layout, const Stride& ranks) {
  const std::int64_t neighbours = axis_stride(layout, Axis::Pp, Weights::Dense);
  return {.size = ranks.members,
          .count = world_size(layout) / ranks.members,
          .strides = {{ranks.members, product_or_most(ranks.stride, neighbours)}}};
}

Sharing sharing(const RankGroup& group, std::int64_t domain, std::int64_t world) {
  if (domain >= world) return {.together = group.size, .domains = 1, .uniform = true};
  Sharing answer;
  for (const Stride& axis : group.strides) {
    const Sharing one = along(axis, domain);
    answer.together = product_or_most(answer.together, one.together);
    answer.domains = product_or_most(answer.domains, one.domains);
    answer.uniform = answer.uniform && one.uniform;
  }
  if (!answer.uniform) answer = worst(group.strides, domain);
  answer.domains = std::min(answer.domains, ceil_div(world, domain));
  return answer;
}

std::int64_t axis_stride(const Layout& layout, Axis axis, Weights weights) {
  return strides_of(layout, weights, {axis}).front().stride;
}

std::int64_t pipeline_rank(const Layout& layout, std::int64_t rank) {
  return rank / axis_stride(layout, Axis::Pp, Weights::Dense) % layout.pp;
}

namespace {

GroupPlacement placed_on(const Group& hardware, const RankGroup& group, std::int64_t world) {
  GroupPlacement placement;
  placement.group = group;
  placement.node = sharing(placement.group, hardware.per_node, world);
  placement.scale_up = sharing(placement.group, hardware.per_domain, world);
  placement.spanned = hardware.tiers.empty() ? 0 : hardware.tiers.size() - 1;
  placement.uniform = placement.node.uniform;
  for (std::size_t t = hardware.tiers.size(); t-- > 0;) {
    const Sharing tier = sharing(placement.group, hardware.tiers[t].domain, world);
    if (tier.domains == 1) placement.spanned = t;
    placement.uniform = placement.uniform && tier.uniform;
    placement.tiers.insert(placement.tiers.begin(), tier);
  }
  placement.rails = rails_touched(placement.group, hardware);
  return placement;
}

// Over more nodes, or as many with slower links: whichever of a mixed cluster is named first.
bool is_worse(const GroupPlacement& a, const Group& of_a, const GroupPlacement& b,
              const Group& of_b) {
  if (a.node.domains != b.node.domains) return a.node.domains > b.node.domains;
  if (of_a.tiers.empty() || of_b.tiers.empty()) return of_a.tiers.empty() < of_b.tiers.empty();
  return bandwidth_under_load(of_a.tiers[a.spanned]) < bandwidth_under_load(of_b.tiers[b.spanned]);
}

}  // namespace

GroupPlacement place_group(const Layout& layout, GroupKind kind, const Cluster& cluster) {
  return place_group(layout, rank_group(layout, kind), cluster);
}

GroupPlacement place_group(const Layout& layout, const RankGroup& group, const Cluster& cluster) {
  const std::int64_t world = world_size(layout);
  GroupPlacement worst = placed_on(cluster.groups.front(), group, world);
  for (std::size_t i = 1; i < cluster.groups.size(); ++i) {
    GroupPlacement placement = placed_on(cluster.groups[i], group, world);
    if (is_worse(placement, cluster.groups[i], worst, cluster.groups[worst.hardware])) {
      placement.hardware = i;
      worst = std::move(placement);
    }
    worst.uniform = false;
  }
  return worst;
}

}  // namespace trainwright
