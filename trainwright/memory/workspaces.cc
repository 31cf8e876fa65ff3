#include "trainwright/memory/workspaces.h"

namespace trainwright::detail {

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
    (of.own_products ? sum.own_products : sum.everywhere) += real(Bytes(bytes));
  }
  return sum;
}

}  // namespace trainwright::detail
