#include "trainwright/memory/workspaces.h"

#include <algorithm>

namespace trainwright::detail {
namespace {

constexpr double kHopper = 9, kBlackwell = 10;
constexpr std::int64_t kSmall = 8519680;      // :4096:2:16:8, as PyTorch has it but on Hopper
constexpr Version kKnowsBlackwell{2, 12, 0};  // pytorch pull request 175344

std::int64_t bytes_on(const Accelerator& accelerator, Version torch, const Workspace& of) {
  if (accelerator.vendor == "AMD") return of.amd;
  if (accelerator.compute_capability < kHopper) return of.before_hopper;
  const bool later = accelerator.compute_capability >= kBlackwell && torch < kKnowsBlackwell;
  return later ? of.after_hopper : of.bytes;
}

std::int64_t bytes_on(const Cluster& cluster, Version torch, const Workspace& of) {
  std::int64_t most = 0;
  for (const Group& group : cluster.groups) {
    most = std::max(most, bytes_on(group.accelerator, torch, of));
  }
  return most;
}

}  // namespace

Workspaces workspaces_of(const Layout& layout, const Cluster& cluster, const Trainer& trainer) {
  Workspaces sum;
  for (const Workspace& of : trainer.workspaces) {
    if (of.grouped_gemm && !asks(layout, Switch::GroupedGemm, trainer)) continue;
    const Bytes bytes(of.count * bytes_on(cluster, trainer.libraries.torch, of));
    (of.own_products ? sum.own_products : sum.everywhere) += real(bytes);
  }
  return sum;
}

RealBytes product_workspace(const Cluster& cluster, const Trainer& trainer) {
  Workspace of;
  of.bytes = of.amd = trainer.allocator.product_workspace;
  of.before_hopper = of.after_hopper = std::min(of.bytes, kSmall);
  return real(Bytes(bytes_on(cluster, trainer.libraries.torch, of)));
}

}  // namespace trainwright::detail
