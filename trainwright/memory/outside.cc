#include "trainwright/memory/outside.h"

#include <algorithm>
#include <array>

namespace trainwright::detail {
namespace {

struct NamedGroup {
  std::string_view name;
  GroupKind kind;
};
// As the files of trainers name them. The groups of experts that also span the pipeline have no
// kind of their own; "model" has as many communicators.
constexpr std::array<NamedGroup, 17> kGroups{{{"world", GroupKind::World},
                                              {"dp", GroupKind::Dp},
                                              {"dp-cp", GroupKind::DpCp},
                                              {"tp", GroupKind::Tp},
                                              {"pp", GroupKind::Pp},
                                              {"cp", GroupKind::Cp},
                                              {"ep", GroupKind::Ep},
                                              {"tp-cp", GroupKind::TpCp},
                                              {"tp-ep", GroupKind::EtpEp},
                                              {"tp-ep-pp", GroupKind::Model},
                                              {"expert-tp", GroupKind::Etp},
                                              {"expert-dp", GroupKind::Edp},
                                              {"model-parallel", GroupKind::Model},
                                              {"dp-shard", GroupKind::Shard},
                                              {"dp-replicate", GroupKind::Replicate},
                                              {"sharding", GroupKind::Shard},
                                              {"sep", GroupKind::Cp}}};

double bytes_of(const MemoryConstants& constants, std::int64_t elsewhere) {
  return constants.communicator + constants.communicator_rank * static_cast<double>(elsewhere);
}

}  // namespace

Communicators communicators_of(const Layout& layout, const Cluster& cluster, const Trainer& trainer,
                               const MemoryConstants& constants) {
  Communicators sum;
  std::vector<RankGroup> seen;
  for (const Choice& choice : trainer.communicators) {
    if (choice.kind == "embedding" && layout.pp > 1) sum.embedding = bytes_of(constants, 1);
    // One pair with the stage before and one with the stage after.
    if (choice.kind == "p2p" && layout.pp > 1) sum.shared += 2 * bytes_of(constants, 1);
    for (const NamedGroup& named : kGroups) {
      if (named.name != choice.kind) continue;
      RankGroup group = rank_group(layout, named.kind);
      if (group.size <= 1 || std::find(seen.begin(), seen.end(), group) != seen.end()) continue;
      const GroupPlacement placed = place_group(layout, named.kind, cluster);
      sum.shared += bytes_of(constants, group.size - placed.node.together);
      seen.push_back(std::move(group));
    }
  }
  return sum;
}

Workspaces workspaces_of(const Layout& layout, const Cluster& cluster, const Trainer& trainer) {
  constexpr double kHopper = 9;
  bool hopper = false;
  for (const Group& group : cluster.groups) {
    hopper |= group.accelerator.compute_capability >= kHopper;
  }
  Workspaces sum;
  for (const Workspace& of : trainer.workspaces) {
    if (of.grouped_gemm && !asks(layout, Switch::GroupedGemm, trainer)) continue;
    const std::int64_t bytes = of.count * (hopper ? of.bytes : of.before_hopper);
    (of.own_products ? sum.own_products : sum.everywhere) += static_cast<double>(bytes);
  }
  return sum;
}

Bytes capacity_of(const Cluster& cluster) {
  Bytes least = cluster.groups.front().accelerator.memory_visible;
  for (const Group& group : cluster.groups) {
    least = std::min(least, group.accelerator.memory_visible);
  }
  return least;
}

}  // namespace trainwright::detail
