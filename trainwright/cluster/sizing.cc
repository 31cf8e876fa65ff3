#include "trainwright/cluster/sizing.h"

#include <algorithm>
#include <numeric>

#include "trainwright/base/check.h"

namespace trainwright {
namespace detail {
namespace {

// One hop over the network as NCCL 2.30's tuning table prices a ring with the Simple protocol
// (src/graph/tuning.cc, NET), and the share of the line rate that large messages reach: 46 to 49
// of 50 GB/s on one 400 Gb/s adapter (nccl-tests issues 290 and 267).
constexpr Seconds kNetworkLatency(14e-6);
constexpr double kNetworkEfficiency = 0.95;

Tier network_tier(std::string name, std::int64_t domain, const UsualNode& node) {
  return {.name = std::move(name),
          .domain = domain,
          .bandwidth = node.nic_bandwidth * static_cast<double>(node.nics) /
                       static_cast<double>(node.accelerators),
          .latency = kNetworkLatency,
          .efficiency = kNetworkEfficiency};
}

// The size of one domain of a tier when `shape` is cut out of the pattern.
std::int64_t sized_domain(const Tier& tier, const Group& pattern, DomainShape shape) {
  const std::int64_t count = shape.domains * shape.per_domain;
  if (tier.domain == pattern.count) return count;
  if (tier.domain == pattern.per_domain) return shape.per_domain;
  if (tier.domain > pattern.per_domain) {
    return std::min(count, tier.domain / pattern.per_domain * shape.per_domain);
  }
  // Inside a scale-up domain a smaller link group survives as far as it divides what is used: of
  // pairs joined by bridges, three accelerators keep none that all of them could rely on.
  return std::gcd(tier.domain, shape.per_domain);
}

}  // namespace

Group usual_pattern(const Accelerator& accelerator) {
  const UsualNode& node = accelerator.node;
  Group pattern{.accelerator = accelerator,
                .count = kMostAccelerators,
                .per_node = node.accelerators,
                .per_domain = accelerator.scale_up.back().domain,
                .rails = std::min(node.nics, node.accelerators),
                .tiers = accelerator.scale_up};
  pattern.tiers.push_back(network_tier("leaf", pattern.per_domain * node.leaf_domains, node));
  pattern.tiers.push_back(network_tier("spine", pattern.count, node));
  return pattern;
}

Group sized(const Group& pattern, DomainShape shape) {
  TW_CHECK(fits(pattern, shape), "the caller checks the shape");
  Group group = pattern;
  group.count = shape.domains * shape.per_domain;
  group.per_domain = shape.per_domain;
  group.per_node = std::min(pattern.per_node, shape.per_domain);
  group.rails = std::max<std::int64_t>(1, pattern.rails * group.per_node / pattern.per_node);
  group.tiers.clear();
  std::int64_t inner = shape.domains * shape.per_domain == 1 ? 0 : 1;
  for (const Tier& tier : pattern.tiers) {
    Tier part = tier;
    part.domain = sized_domain(tier, pattern, shape);
    // A tier that joins nothing the one below does not join already is left out.
    if (part.domain <= inner) continue;
    inner = part.domain;
    group.tiers.push_back(std::move(part));
  }
  return group;
}

bool fits(const Group& pattern, DomainShape shape) {
  if (shape.domains < 1 || shape.per_domain < 1 || shape.per_domain > pattern.per_domain) {
    return false;
  }
  if (shape.domains > pattern.count / pattern.per_domain) return false;
  return shape.per_domain <= pattern.per_node || shape.per_domain % pattern.per_node == 0;
}

std::int64_t job_domain(const Group& pattern) {
  const bool usual = pattern.per_domain == pattern.accelerator.scale_up.back().domain;
  return usual ? pattern.accelerator.job_domain : pattern.per_domain;
}

std::optional<DomainShape> usual_shape(const Group& pattern, std::int64_t count) {
  if (count < 1) return std::nullopt;
  if (count > pattern.per_node && count % pattern.per_node != 0) return std::nullopt;
  if (count <= pattern.per_domain) return DomainShape{.domains = 1, .per_domain = count};
  for (const std::int64_t size : {job_domain(pattern), pattern.per_domain}) {
    const DomainShape shape{.domains = count / size, .per_domain = size};
    if (count % size == 0 && fits(pattern, shape)) return shape;
  }
  return std::nullopt;
}

}  // namespace detail

Group usual_group(const Accelerator& accelerator, std::int64_t domains, std::int64_t per_domain) {
  return detail::sized(detail::usual_pattern(accelerator),
                       {.domains = domains, .per_domain = per_domain});
}

}  // namespace trainwright
