// Everything outside the allocator of one rank.
#include "trainwright/outside/outside.h"

#include <algorithm>
#include <array>

#include "trainwright/outside/standing_buffers.h"

namespace trainwright {
namespace {

struct NamedGroup {
  std::string_view name;
  GroupKind kind;
};
// As the files of trainers name them. The groups of experts that also span the pipeline have no
// kind of their own; "model" has as many members.
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

bool is_of_experts(std::string_view group) {
  return group == "ep" || group.starts_with("tp-ep") || group.starts_with("expert-");
}

CommunicatorShape shape_of(const Layout& layout, GroupKind kind, const Cluster& cluster) {
  const GroupPlacement placed = place_group(layout, kind, cluster);
  return {placed.group.size, std::max<std::int64_t>(1, placed.node.together)};
}

// A pair of neighbours in the pipeline.
CommunicatorShape pair_of(const Layout& layout, const Cluster& cluster) {
  const CommunicatorShape pipeline = shape_of(layout, GroupKind::Pp, cluster);
  return {std::min<std::int64_t>(2, pipeline.members),
          std::min<std::int64_t>(2, pipeline.per_node)};
}

// The communicators of one entry of a trainer's file, without bytes.
CommunicatorBytes opened(const Communicator& entry, const Layout& layout, const Cluster& cluster) {
  CommunicatorBytes made;
  made.group = entry.group;
  made.count = entry.count;
  if (entry.group == "embedding" || entry.group == "p2p") {
    made.shape = pair_of(layout, cluster);
    made.ends_only = entry.group == "embedding";
    // One with the stage before and one with the stage after.
    if (entry.group == "p2p" && layout.pp > 2) made.count *= 2;
    return made;
  }
  for (const NamedGroup& named : kGroups) {
    if (named.name == entry.group) made.shape = shape_of(layout, named.kind, cluster);
  }
  return made;
}

BytesRange context_of(const Accelerator& accelerator, const LibraryFacts& libraries,
                      const ContextFacts& facts) {
  const auto vendor = facts.by_vendor.find(accelerator.vendor);
  if (vendor != facts.by_vendor.end()) return vendor->second;
  if (loads_all_kernels(libraries)) return facts.all_kernels;
  const auto above = facts.by_capability.upper_bound(accelerator.compute_capability);
  return above == facts.by_capability.begin() ? above->second : std::prev(above)->second;
}

}  // namespace

BytesRange operator+(const BytesRange& a, const BytesRange& b) {
  return {a.low + b.low, a.central + b.central, a.high + b.high};
}
BytesRange operator*(const BytesRange& range, double times) {
  return {range.low * times, range.central * times, range.high * times};
}

OutsideBytes outside_bytes(const Layout& layout, const Cluster& cluster, const Trainer& trainer,
                           const Model& model, const OutsideFacts& facts) {
  const Accelerator& accelerator = tightest_group(cluster).accelerator;
  const auto other = facts.others.find(accelerator.vendor);
  const Version torch = trainer.libraries.torch;
  const Version nccl =
      trainer.libraries.nccl == Version{} ? nccl_of_torch(torch) : trainer.libraries.nccl;
  const bool experts = has_experts(model);
  OutsideBytes outside;
  outside.context = context_of(accelerator, trainer.libraries, facts.context);
  for (const Communicator& entry : trainer.communicators) {
    if (!experts && is_of_experts(entry.group)) continue;
    CommunicatorBytes made = opened(entry, layout, cluster);
    if (made.shape.members <= 1) continue;
    const auto times = static_cast<double>(made.count);
    if (other == facts.others.end()) {
      made.bytes =
          communicator_bytes(made.shape, entry.uses, accelerator, nccl, facts.nccl) * times;
    } else {
      const auto& [first, next] = other->second;
      made.bytes = outside.communicators.empty() ? first + next * (times - 1) : next * times;
    }
    outside.communicators.push_back(std::move(made));
  }
  if (!outside.communicators.empty() && other == facts.others.end()) {
    outside.context = outside.context + facts.context.first_communicator;
  }
  for (auto& buffers : {detail::dispatch_buffers(layout, model, cluster),
                        detail::tensor_buffers(layout, model, cluster, trainer)}) {
    if (buffers) outside.communicators.push_back(*buffers);
  }
  return outside;
}

BytesRange sum_of(const std::vector<CommunicatorBytes>& communicators, bool shares_embedding) {
  BytesRange sum;
  for (const CommunicatorBytes& one : communicators) {
    if (!one.ends_only || shares_embedding) sum = sum + one.bytes;
  }
  return sum;
}

}  // namespace trainwright
