// Collectives over the tiers that a group spans.
#include <algorithm>
#include <cmath>

#include "trainwright/cost/cost.h"

namespace trainwright {
namespace {

constexpr std::size_t kTransfer = 5;  // in LinkRates, beside the kinds of collectives

// One tier that a group spans: `parts` domains of the tier below, each with `below` members, which
// share what their accelerators can send, become one domain with `within` members.
struct Level {
  double below = 1, parts = 1, within = 1;
  double rate = 1;  // bytes per second of one accelerator, achieved
  double line = 1;  // likewise, promised, when all of them send
  double latency = 0;
  double ramp = 0;
};

bool is_scale_up(const Group& group, std::size_t tier) {
  return group.tiers[tier].domain <= group.per_domain;
}

// Where neighbours pass on, of the members in one domain of the tier inside only one sends out of
// it: the capacity that others leave is its own.
Tier as_border_sees(Tier tier, double inside) {
  tier.oversubscription = std::max(1.0, tier.oversubscription / inside);
  return tier;
}

Level level_of(const Tier& tier, bool scale_up, std::size_t kind, const LinkRates& links) {
  const double line = tier.bandwidth.value() / tier.oversubscription;
  const double share = (scale_up ? links.scale_up : links.network)[kind];
  return {.rate = std::min(line, bandwidth_under_load(tier).value() * share),
          .line = line,
          .latency = scale_up ? links.hop.value() : tier.latency.value(),
          .ramp = scale_up ? links.ramp.value() : links.network_ramp.value()};
}

// The tiers whose domains join members, innermost first.
std::vector<Level> levels_of(const GroupPlacement& placement, const Cluster& cluster,
                             std::size_t kind, const LinkRates& links) {
  const Group& hardware = cluster.groups[placement.hardware];
  std::vector<Level> levels;
  double below = 1;
  for (std::size_t t = 0; t <= placement.spanned && t < placement.tiers.size(); ++t) {
    const bool last = t == placement.spanned;
    const double within = real(last ? placement.group.size : placement.tiers[t].together);
    if (within <= below) continue;
    const bool passed_on = kind == static_cast<std::size_t>(CollectiveKind::Ring);
    const Tier tier = as_border_sees(hardware.tiers[t], passed_on ? below : 1);
    Level level = level_of(tier, is_scale_up(hardware, t), kind, links);
    if (last && cluster.between && accelerator_count(cluster) > hardware.count &&
        placement.group.size > placement.tiers[t].together) {
      level.rate = std::min(level.rate, bandwidth_under_load(*cluster.between).value());
      level.line = std::min(level.line, level.rate);
    }
    // Two members alone on their links.
    if (below == 1 && within == 2 && last && is_scale_up(hardware, t)) level.rate *= links.pair;
    level.below = below;
    level.parts = std::ceil(within / below);
    level.within = within;
    levels.push_back(level);
    below = within;
  }
  return levels;
}

double ramp_time(double bytes, const Level& level) {
  return std::sqrt(bytes * level.ramp / level.line);
}

// All members in one ring; its hops run at once, the slowest tier sets the pace.
double ring_time(double bytes, double members, double passes, const std::vector<Level>& levels) {
  const double sent = bytes * passes * (members - 1) / members;
  double moving = 0, waiting = 0;
  for (const Level& level : levels) {
    moving =
        std::max(moving, sent / level.below / level.rate + ramp_time(sent / level.below, level));
    waiting += passes * members / level.within * (level.parts - 1) * level.latency;
  }
  return waiting + moving;
}

// Members pass on to their neighbours in n - 1 steps; who sits at a border sends alone.
double neighbours_time(double bytes, double members, const std::vector<Level>& levels) {
  double slowest = 0;
  for (const Level& level : levels) {
    slowest = std::max(
        slowest, bytes / level.rate + ramp_time(bytes, level) + (members - 1) * level.latency);
  }
  return slowest;
}

// Each tier by itself, on what the tiers inside have left of the bytes, one after the other.
double hierarchical_time(double bytes, double passes, const std::vector<Level>& levels) {
  double time = 0;
  for (const Level& level : levels) {
    const double sent = bytes / level.below * passes * (level.parts - 1) / level.parts;
    time += sent / level.rate + ramp_time(sent, level) + passes * (level.parts - 1) * level.latency;
  }
  return time;
}

// A pair of binary trees over the outermost tier, chains inside.
double tree_time(double bytes, const std::vector<Level>& levels) {
  double moving = 0, waiting = 0;
  for (const Level& level : levels) {
    const double sent = 2 * bytes / level.below;
    moving = std::max(moving, sent / level.rate + ramp_time(sent, level));
    const bool outermost = &level == &levels.back() && levels.size() > 1;
    waiting +=
        2 * level.latency * (outermost ? std::ceil(std::log2(level.parts)) : level.parts - 1);
  }
  return waiting + moving;
}

// The switch of the innermost tier adds what its members send once; across domains a tree.
double in_switch_time(double bytes, double share, const std::vector<Level>& levels) {
  const Level& inner = levels.front();
  double moving = bytes / std::min(inner.line, share) + ramp_time(bytes, inner);
  double waiting = 2 * inner.latency;
  for (std::size_t i = 1; i < levels.size(); ++i) {
    const double sent = 2 * bytes / levels[i].below;
    moving = std::max(moving, sent / levels[i].rate + ramp_time(sent, levels[i]));
    waiting += 2 * levels[i].latency * std::ceil(std::log2(levels[i].parts));
  }
  return waiting + moving;
}

// Every member sends an equal piece to every other; tiers carry theirs at the same time.
double all_to_all_time(double bytes, double members, const std::vector<Level>& levels) {
  double moving = 0, waiting = 0;
  for (const Level& level : levels) {
    // What leaves the domain below; of the innermost tier only what stays in it.
    const double reached = &level == &levels.front() ? level.within : members;
    const double sent = bytes * (reached - level.below) / members;
    moving = std::max(moving, sent / level.rate + ramp_time(sent, level));
    waiting += (level.parts - 1) * level.latency;
  }
  return waiting + moving;
}

double all_reduce_time(double bytes, double members, const std::vector<Level>& levels,
                       const GroupPlacement& placement, const Cluster& cluster,
                       const LinkRates& links) {
  double best = std::min({ring_time(bytes, members, 2, levels), hierarchical_time(bytes, 2, levels),
                          tree_time(bytes, levels)});
  const Group& hardware = cluster.groups[placement.hardware];
  const bool switched = placement.tiers.front().together > 2 && is_scale_up(hardware, 0);
  if (links.in_switch > 0 && switched) {
    const double share = bandwidth_under_load(hardware.tiers.front()).value() * links.in_switch;
    best = std::min(best, in_switch_time(bytes, share, levels));
  }
  return best;
}

}  // namespace

Seconds collective_time(CollectiveKind kind, Bytes bytes, const GroupPlacement& placement,
                        const Cluster& cluster, const AcceleratorRates& rates) {
  if (placement.group.size <= 1) return {};
  const LinkRates& links = rates.links;
  const auto levels = levels_of(placement, cluster, static_cast<std::size_t>(kind), links);
  const double members = real(placement.group.size);
  const double size = real(bytes.value());
  double time = 0;
  switch (kind) {
    case CollectiveKind::AllReduce:
      time = all_reduce_time(size, members, levels, placement, cluster, links);
      break;
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
      time = std::min(ring_time(size, members, 1, levels), hierarchical_time(size, 1, levels));
      break;
    case CollectiveKind::AllToAll: time = all_to_all_time(size, members, levels); break;
    case CollectiveKind::Ring: time = neighbours_time(size, members, levels); break;
  }
  return links.start + Seconds(time);
}

double ranks_met(const Chosen& chosen, double ranks) {
  double reached = ranks;
  if (ranks >= real(chosen.of_groups)) {
    reached *= real(chosen.groups) / real(chosen.of_groups);
  } else {
    // A rank holds several groups; that none of them is chosen is a draw without putting back.
    const double held = real(chosen.of_groups) / ranks;
    double none = 1;
    for (std::int64_t i = 0; i < chosen.groups; ++i) {
      none *= std::max(0.0, real(chosen.of_groups - i) - held) / real(chosen.of_groups - i);
    }
    reached *= 1 - none;
  }
  return reached * (1 - std::pow(1 - 1 / std::max(1.0, reached), real(chosen.experts)));
}

double dispatch_share(DispatcherKind kind, double capability, double ranks) {
  constexpr double kBlackwell = 10;
  switch (kind) {
    case DispatcherKind::DeepEp: return capability >= kBlackwell ? 0.41 : 0.58;
    case DispatcherKind::HybridEp:
    case DispatcherKind::NcclEp:
      return std::clamp(0.82 - 0.034 * std::log2(std::max(ranks, 1.0) / 8), 0.6, 0.92);
    case DispatcherKind::AllGather:
    case DispatcherKind::AllToAll:
    case DispatcherKind::Flex: break;
  }
  return 1;
}

Seconds dispatch_time(Bytes bytes, const Chosen& chosen, const GroupPlacement& placement,
                      const Cluster& cluster, const AcceleratorRates& rates, DispatcherKind kind) {
  if (placement.group.size <= 1) return {};
  const double capability = cluster.groups[placement.hardware].accelerator.compute_capability;
  const auto levels = levels_of(placement, cluster,
                                static_cast<std::size_t>(CollectiveKind::AllToAll), rates.links);
  double moving = 0, waiting = 0;
  for (const Level& level : levels) {
    // Inside the innermost domains every rank that is met; further out every domain that is.
    const bool innermost = &level == &levels.front();
    const double places = real(placement.group.size) / (innermost ? 1 : level.below);
    const double elsewhere = innermost ? 1 - 1 / level.within : 1 - 1 / places;
    const double sent = real(bytes.value()) * ranks_met(chosen, places) * elsewhere;
    const bool in_domain = innermost && placement.scale_up.together > 1;
    const double share = in_domain ? dispatch_share(kind, capability, level.within) : 1;
    moving = std::max(moving, sent / (level.rate * share) + ramp_time(sent, level));
    waiting += level.latency;  // a kernel writes to all of them at once
  }
  return rates.links.start + Seconds(waiting + moving);
}

Seconds transfer_time(Bytes bytes, const GroupPlacement& placement, const Cluster& cluster,
                      const AcceleratorRates& rates) {
  if (placement.group.size <= 1) return {};
  const Group& hardware = cluster.groups[placement.hardware];
  const std::size_t tier = std::min(placement.spanned, hardware.tiers.size() - 1);
  const double inside = tier > 0 ? real(placement.tiers[tier - 1].together) : 1.0;
  const Level level = level_of(as_border_sees(hardware.tiers[tier], inside),
                               is_scale_up(hardware, tier), kTransfer, rates.links);
  const double size = real(bytes.value());
  return rates.links.start + Seconds(level.latency + size / level.rate + ramp_time(size, level));
}

}  // namespace trainwright
