// Questions about a cluster: all of them are divisions by the size of a domain.
#include "trainwright/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/check.h"

namespace trainwright {

std::string_view name_of(ComputeType type) {
  switch (type) {
    case ComputeType::Fp64: return "fp64";
    case ComputeType::Fp32: return "fp32";
    case ComputeType::Tf32: return "tf32";
    case ComputeType::Fp16: return "fp16";
    case ComputeType::Bf16: return "bf16";
    case ComputeType::Fp8: return "fp8";
    case ComputeType::Int8: return "int8";
    case ComputeType::Fp6: return "fp6";
    case ComputeType::Fp4: return "fp4";
  }
  TW_CHECK(false, "no such compute type");
}

BytesPerSecond bandwidth_under_load(const Tier& tier) {
  return tier.bandwidth * tier.efficiency / tier.oversubscription;
}

std::optional<FlopsPerSecond> peak(const Accelerator& accelerator, ComputeType type) {
  const auto found = accelerator.peak.find(type);
  if (found == accelerator.peak.end()) return std::nullopt;
  return found->second;
}

std::int64_t accelerator_count(const Cluster& cluster) {
  std::int64_t count = 0;
  for (const Group& group : cluster.groups) count = checked_add(count, group.count);
  return count;
}

const Group& tightest_group(const Cluster& cluster) {
  return *std::min_element(cluster.groups.begin(), cluster.groups.end(),
                           [](const Group& a, const Group& b) {
                             return a.accelerator.memory_visible < b.accelerator.memory_visible;
                           });
}

Bytes capacity_of(const Cluster& cluster) {
  return tightest_group(cluster).accelerator.memory_visible;
}

std::int64_t smallest_node(const Cluster& cluster) {
  std::int64_t least = cluster.groups.front().per_node;
  for (const Group& group : cluster.groups) least = std::min(least, group.per_node);
  return least;
}

std::int64_t largest_node(const Cluster& cluster) {
  std::int64_t most = 0;
  for (const Group& group : cluster.groups) most = std::max(most, group.per_node);
  return most;
}

std::int64_t smallest_domain(const Cluster& cluster) {
  std::int64_t least = cluster.groups.front().per_domain;
  for (const Group& group : cluster.groups) least = std::min(least, group.per_domain);
  return least;
}

std::int64_t node_count(const Group& group) { return ceil_div(group.count, group.per_node); }

std::int64_t node_count(const Cluster& cluster) {
  std::int64_t count = 0;
  for (const Group& group : cluster.groups) count = checked_add(count, node_count(group));
  return count;
}

Place place_of(const Cluster& cluster, std::int64_t accelerator) {
  TW_CHECK(accelerator >= 0, "accelerators are numbered from 0");
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
    if (accelerator < cluster.groups[g].count) return {.group = g, .index = accelerator};
    accelerator -= cluster.groups[g].count;
  }
  TW_CHECK(false, fmt::format("accelerator {} is beyond the last one", accelerator));
}

bool same_node(const Group& group, std::int64_t a, std::int64_t b) {
  return a / group.per_node == b / group.per_node;
}

std::int64_t rail_of(const Group& group, std::int64_t accelerator) {
  return accelerator % group.per_node * group.rails / group.per_node;
}

std::size_t shared_tier(const Group& group, std::int64_t a, std::int64_t b) {
  for (std::size_t t = 0; t < group.tiers.size(); ++t) {
    if (a / group.tiers[t].domain == b / group.tiers[t].domain) return t;
  }
  TW_CHECK(false, fmt::format("{} and {} are not both of this group", a, b));
}

const Tier& shared_tier(const Cluster& cluster, std::int64_t a, std::int64_t b) {
  const Place place_a = place_of(cluster, a);
  const Place place_b = place_of(cluster, b);
  if (place_a.group != place_b.group) return cluster.between.value();
  const Group& group = cluster.groups[place_a.group];
  return group.tiers[shared_tier(group, place_a.index, place_b.index)];
}

std::size_t spanned_tier(const Group& group, std::int64_t first, std::int64_t members,
                         std::int64_t stride) {
  TW_CHECK(members >= 1, "a communicator has members");
  return shared_tier(group, first, checked_add(first, checked_mul(members - 1, stride)));
}

}  // namespace trainwright
