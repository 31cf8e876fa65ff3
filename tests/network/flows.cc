#include "flows.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace trainwright::network {
namespace {

using Ranks = std::vector<std::int64_t>;

constexpr double kTiny = 1;  // bytes of a message that only waits

// The members of a group by domain of a tier.
std::vector<Ranks> by_domain(const Ranks& members, std::int64_t domain) {
  std::map<std::int64_t, Ranks> parts;
  for (const std::int64_t rank : members) parts[rank / domain].push_back(rank);
  std::vector<Ranks> lists;
  for (auto& [at, ranks] : parts) lists.push_back(std::move(ranks));
  return lists;
}

void add_ring(std::vector<Flow>& flows, const Ranks& order, double bytes) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    flows.push_back({order[i], order[(i + 1) % order.size()], bytes});
  }
}

// Messages of one pair in one round travel together.
std::vector<Flow> joined(const std::vector<Flow>& flows) {
  std::map<std::pair<std::int64_t, std::int64_t>, double> sums;
  for (const Flow& flow : flows) sums[{flow.from, flow.to}] += flow.bytes;
  std::vector<Flow> together;
  for (const auto& [pair, bytes] : sums) together.push_back({pair.first, pair.second, bytes});
  return together;
}

// As many rings as a node has members, each of which enters the nodes at another one.
Way ring(double bytes, double passes, const std::vector<Ranks>& groups, std::int64_t per_node) {
  Round round;
  for (const Ranks& members : groups) {
    const std::vector<Ranks> nodes = by_domain(members, per_node);
    const std::size_t rings = nodes.size() > 1 ? nodes.front().size() : 1;
    const double size = static_cast<double>(members.size());
    for (std::size_t first = 0; first < rings; ++first) {
      Ranks order;
      for (const Ranks& node : nodes) {
        for (std::size_t i = 0; i < node.size(); ++i) {
          order.push_back(node[(first + i) % node.size()]);
        }
      }
      add_ring(round.flows, order, bytes / size / static_cast<double>(rings));
    }
    round.times = passes * (size - 1);
  }
  round.flows = joined(round.flows);
  return {round};
}

// Rings within the domains of a tier, then among those that hold the same part of them.
Way hierarchical(double bytes, double passes, std::vector<Ranks> groups, const Group& on) {
  Way way;
  for (const Tier& tier : on.tiers) {
    Round round;
    std::vector<Ranks> next;
    double rest = bytes;
    for (const Ranks& members : groups) {
      const std::vector<Ranks> domains = by_domain(members, tier.domain);
      const std::size_t size = domains.front().size();
      for (const Ranks& domain : domains) {
        if (size > 1) add_ring(round.flows, domain, bytes / static_cast<double>(size));
      }
      round.times = passes * static_cast<double>(size - 1);
      rest = bytes / static_cast<double>(size);
      for (std::size_t place = 0; place < size; ++place) {
        Ranks alike;
        for (const Ranks& domain : domains) alike.push_back(domain[place % domain.size()]);
        next.push_back(std::move(alike));
      }
    }
    if (!round.flows.empty()) way.push_back(std::move(round));
    groups = std::move(next);
    bytes = rest;
  }
  return way;
}

// The parent of a place in a binary tree over places in order; 0 has none.
std::size_t parent_of(std::size_t place, std::size_t places) {
  std::size_t bit = 1;
  while ((place & bit) == 0) bit *= 2;
  const std::size_t up = (place ^ bit) | (2 * bit);
  return up < places ? up : place ^ bit;
}

// Two trees over the nodes, each for half of the bytes, the second one shifted by a node; chains
// within nodes. Sums go up while results come down.
Way tree(double bytes, const std::vector<Ranks>& groups, std::int64_t per_node) {
  Round moving, between{{}, 0}, inside{{}, 0};
  const auto both_ways = [&](std::int64_t a, std::int64_t b, double size, Round& waiting) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      moving.flows.push_back({from, to, size});
      waiting.flows.push_back({from, to, kTiny});
    }
  };
  for (const Ranks& members : groups) {
    const std::vector<Ranks> nodes = by_domain(members, per_node);
    const std::size_t size = nodes.front().size(), count = nodes.size();
    for (std::size_t first = 0; first < size; ++first) {
      const double share = bytes / static_cast<double>(size);
      for (std::size_t shift = 0; shift < 2; ++shift) {
        for (std::size_t place = 1; place < count; ++place) {
          const std::size_t up = parent_of(place, count);
          both_ways(nodes[(place + shift) % count][first], nodes[(up + shift) % count][first],
                    share / 2, between);
        }
      }
      for (const Ranks& node : nodes) {
        for (std::size_t i = 0; i + 1 < size; ++i) {
          both_ways(node[(first + i) % size], node[(first + i + 1) % size], share, inside);
        }
      }
    }
    between.times = 2 * std::ceil(std::log2(static_cast<double>(count)));
    inside.times = 2 * static_cast<double>(size - 1);
  }
  Way way;
  for (Round* round : {&moving, &between, &inside}) {
    round->flows = joined(round->flows);
    if (!round->flows.empty()) way.push_back(std::move(*round));
  }
  return way;
}

Way all_to_all(double bytes, const std::vector<Ranks>& groups) {
  Round round;
  for (const Ranks& members : groups) {
    for (const std::int64_t from : members) {
      for (const std::int64_t to : members) {
        if (from != to) {
          round.flows.push_back({from, to, bytes / static_cast<double>(members.size())});
        }
      }
    }
  }
  return {round};
}

Way neighbours(double bytes, const std::vector<Ranks>& groups) {
  Round round;
  for (const Ranks& members : groups) {
    const double steps = static_cast<double>(members.size() - 1);
    add_ring(round.flows, members, bytes / steps);
    round.times = steps;
  }
  return {round};
}

}  // namespace

std::vector<Ranks> all_groups(const RankGroup& group, std::int64_t world) {
  Ranks offsets = {0};
  for (const Stride& stride : group.strides) {
    Ranks more;
    for (std::int64_t i = 0; i < stride.members; ++i) {
      for (const std::int64_t offset : offsets) more.push_back(offset + i * stride.stride);
    }
    offsets = std::move(more);
  }
  std::sort(offsets.begin(), offsets.end());
  std::vector<bool> taken(static_cast<std::size_t>(world));
  std::vector<Ranks> groups;
  for (std::int64_t first = 0; first < world; ++first) {
    if (taken[static_cast<std::size_t>(first)]) continue;
    groups.emplace_back();
    for (const std::int64_t offset : offsets) {
      groups.back().push_back(first + offset);
      taken[static_cast<std::size_t>(first + offset)] = true;
    }
  }
  return groups;
}

std::vector<Way> ways_of(CollectiveKind kind, double bytes, const std::vector<Ranks>& groups,
                         const Group& on) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return {ring(bytes, 2, groups, on.per_node), hierarchical(bytes, 2, groups, on),
              tree(bytes, groups, on.per_node)};
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
      return {ring(bytes, 1, groups, on.per_node), hierarchical(bytes, 1, groups, on)};
    case CollectiveKind::AllToAll: return {all_to_all(bytes, groups)};
    case CollectiveKind::Ring: return {neighbours(bytes, groups)};
  }
  return {};
}

Way transfer(double bytes, const std::vector<Ranks>& groups) {
  Round round;
  for (const Ranks& stages : groups) {
    for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
      round.flows.push_back({stages[i], stages[i + 1], bytes});
    }
  }
  return {round};
}

}  // namespace trainwright::network
