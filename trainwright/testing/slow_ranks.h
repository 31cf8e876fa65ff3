#pragma once
// The oracle of rank placement: every rank's coordinates, every group's members, one by one.
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "trainwright/layout/layout.h"

namespace trainwright::testing {

// Coordinates of a rank along tp, cp, ep, dp, pp (the index is the Axis), counted off in the
// layout's order. Experts have etp for tp, edp for dp and no cp; the others no ep.
enum class Counting { Dense, Expert };
inline std::vector<std::int64_t> coordinates(const Layout& layout, std::int64_t rank,
                                             Counting counting) {
  const bool dense = counting == Counting::Dense;
  const std::int64_t edp = layout.tp * layout.cp * layout.dp / (layout.etp * layout.ep);
  std::vector<std::int64_t> at(5);
  for (const Axis axis : layout.order) {
    std::int64_t degree = layout.pp;
    if (axis == Axis::Tp) degree = dense ? layout.tp : layout.etp;
    if (axis == Axis::Cp) degree = dense ? layout.cp : 1;
    if (axis == Axis::Ep) degree = dense ? 1 : layout.ep;
    if (axis == Axis::Dp) degree = dense ? layout.dp : edp;
    at[static_cast<std::size_t>(axis)] = rank % degree;
    rank /= degree;
  }
  return at;
}

// The coordinates that all members of a group have in common.
inline std::vector<std::int64_t> group_key(const Layout& layout, GroupKind kind,
                                           std::int64_t rank) {
  const bool expert = kind == GroupKind::Ep || kind == GroupKind::Etp || kind == GroupKind::EtpEp ||
                      kind == GroupKind::Edp || kind == GroupKind::ExpertShard ||
                      kind == GroupKind::ExpertReplicate;
  auto at = coordinates(layout, rank, expert ? Counting::Expert : Counting::Dense);
  const auto drop = [&at](Axis axis) { at[static_cast<std::size_t>(axis)] = 0; };
  const std::int64_t dp = at[static_cast<std::size_t>(Axis::Dp)];
  const std::int64_t shard = layout.dp / layout.dp_replicate;
  const std::int64_t edp = layout.tp * layout.cp * layout.dp / (layout.etp * layout.ep);
  const std::int64_t expert_shard = std::max<std::int64_t>(1, edp / layout.dp_replicate);
  switch (kind) {
    case GroupKind::Tp: drop(Axis::Tp); break;
    case GroupKind::Cp: drop(Axis::Cp); break;
    case GroupKind::Dp: drop(Axis::Dp); break;
    case GroupKind::Pp: drop(Axis::Pp); break;
    case GroupKind::TpCp: drop(Axis::Tp), drop(Axis::Cp); break;
    case GroupKind::DpCp: drop(Axis::Dp), drop(Axis::Cp); break;
    case GroupKind::Shard:
      if (layout.zero == 0) break;
      drop(Axis::Dp), drop(Axis::Cp);
      at.push_back(dp / shard);
      break;
    case GroupKind::Replicate:
      drop(Axis::Dp);
      if (layout.zero == 0) {
        drop(Axis::Cp);
      } else {
        at.push_back(dp % shard);
      }
      break;
    case GroupKind::Model: drop(Axis::Tp), drop(Axis::Pp); break;
    case GroupKind::Ep: drop(Axis::Ep); break;
    case GroupKind::Etp: drop(Axis::Tp); break;
    case GroupKind::EtpEp: drop(Axis::Tp), drop(Axis::Ep); break;
    case GroupKind::Edp: drop(Axis::Dp); break;
    case GroupKind::ExpertShard:
      if (layout.zero == 0) break;
      drop(Axis::Dp);
      at.push_back(dp / expert_shard);
      break;
    case GroupKind::ExpertReplicate:
      drop(Axis::Dp);
      if (layout.zero > 0) at.push_back(dp % expert_shard);
      break;
    case GroupKind::World: at.clear(); break;
  }
  return at;
}

inline std::vector<std::vector<std::int64_t>> slow_groups(const Layout& layout, GroupKind kind) {
  std::map<std::vector<std::int64_t>, std::vector<std::int64_t>> groups;
  for (std::int64_t rank = 0; rank < world_size(layout); ++rank) {
    groups[group_key(layout, kind, rank)].push_back(rank);
  }
  std::vector<std::vector<std::int64_t>> lists;
  for (auto& [key, members] : groups) lists.push_back(std::move(members));
  return lists;
}

// The fewest members any group has in one domain it touches, the most domains any group touches,
// and whether all are alike.
inline Sharing slow_sharing(const std::vector<std::vector<std::int64_t>>& groups,
                            std::int64_t domain) {
  std::int64_t fewest = INT64_MAX;
  std::int64_t most = 0;
  std::int64_t domains_least = INT64_MAX;
  std::int64_t domains_most = 0;
  for (const auto& members : groups) {
    std::map<std::int64_t, std::int64_t> counts;
    for (const std::int64_t rank : members) ++counts[rank / domain];
    for (const auto& [place, count] : counts) {
      fewest = std::min(fewest, count);
      most = std::max(most, count);
    }
    domains_least = std::min(domains_least, static_cast<std::int64_t>(counts.size()));
    domains_most = std::max(domains_most, static_cast<std::int64_t>(counts.size()));
  }
  return {.together = fewest,
          .domains = domains_most,
          .uniform = fewest == most && domains_least == domains_most};
}

inline std::int64_t slow_rails(const std::vector<std::vector<std::int64_t>>& groups,
                               const Group& hardware) {
  std::size_t most = 0;
  for (const auto& members : groups) {
    std::map<std::int64_t, int> rails;
    for (const std::int64_t rank : members) ++rails[rail_of(hardware, rank)];
    most = std::max(most, rails.size());
  }
  return static_cast<std::int64_t>(most);
}

}  // namespace trainwright::testing
