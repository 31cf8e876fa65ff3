#pragma once
// Which ranks talk to each other, and over what. Part of layout.h: include that one.
//
// A rank is a mixed-radix number whose digits are its coordinates, the first axis of the order
// lowest; an axis a of degree s_a has the stride k_a = product of the degrees before it. A group of
// a kind holds the ranks that differ in some axes only: first + sum of i_a k_a. So a kind of group
// is a short list of (members, stride), and with n accelerators in a domain of a tier
//
//   s k | n           all s members are in one domain
//   k | n, n | s k    n / k of them share one
//   n | k             each is alone
//
// and the contributions of several axes multiply. Otherwise groups are not all alike (6 ranks of tp
// on nodes of 8: some straddle), and the answer is the worst of them. Nothing is counted rank by
// rank: the cost is axes x tiers for any world.
#include <cstdint>
#include <string_view>
#include <vector>

#include "trainwright/cluster/cluster.h"
#include "trainwright/layout/decision.h"

namespace trainwright {

// clang-format off
// Shard: the ranks that share one copy of the states, dp_shard x cp. Replicate: those that hold the
// same shard. Model: tp x pp, one replica. The expert groups fold ep and etp into tp x cp x dp:
// world = etp * ep * edp * pp; the pipeline is the same, and edp is shared and repeated like dp.
enum class GroupKind {
  Tp, Cp, Dp, Pp, TpCp, DpCp, Shard, Replicate, Model, Ep, Etp, EtpEp, Edp, ExpertShard,
  ExpertReplicate, World,
};
// clang-format on
std::span<const std::string_view> all_names(GroupKind);  // "tp", "dp-cp", ...

// Dense weights know no ep, expert weights no cp: the same ranks are counted off in two ways.
enum class Weights { Dense, Expert };
// How far apart neighbours along an axis are: k_a above; INT64_MAX when beyond.
std::int64_t axis_stride(const Layout& layout, Axis axis, Weights weights);
std::int64_t pipeline_rank(const Layout& layout, std::int64_t rank);  // its digit on that axis

struct Stride {
  std::int64_t members = 1;
  std::int64_t stride = 1;
  friend bool operator==(const Stride&, const Stride&) = default;
};

// All groups of a kind are shifted copies of one. Needs a legal product of degrees, see
// `world_size`; a degree that does not divide (ep, dp_replicate) is rounded down.
struct RankGroup {
  std::int64_t size = 1;        // members of one group
  std::int64_t count = 1;       // groups of the kind
  std::vector<Stride> strides;  // innermost first, neighbours joined; empty for a group of one
  friend bool operator==(const RankGroup&, const RankGroup&) = default;
};
RankGroup rank_group(const Layout& layout, GroupKind kind);
// So many pipeline ranks, each so many behind the one before: first and last share an embedding.
RankGroup pipeline_group(const Layout& layout, const Stride& ranks);

// How a group lies in the domains of one tier (or in nodes).
struct Sharing {
  std::int64_t together = 1;  // members in one domain; the fewest, where they differ
  std::int64_t domains = 1;   // that one group touches; the most, where groups differ
  bool uniform = true;        // every group has `together` members in each of `domains` domains
  friend bool operator==(const Sharing&, const Sharing&) = default;
};
// In domains of that many ranks, each beginning at a multiple of it, of a world of so many.
Sharing sharing(const RankGroup& group, std::int64_t domain, std::int64_t world);

struct GroupPlacement {
  RankGroup group;
  Sharing node;
  Sharing scale_up;            // NVLink or the like
  std::vector<Sharing> tiers;  // of the cluster, innermost first
  std::size_t spanned = 0;     // the innermost tier that holds every group of the kind whole
  std::int64_t rails = 1;      // that one group touches, at most; 1: every hop stays on its rail
  bool uniform = true;         // all groups of the kind lie alike
  std::size_t hardware = 0;    // the group of accelerators that this was answered for
};
// Ranks are accelerators in order. On a cluster of several groups of accelerators the answer is for
// the one where a group of ranks touches the most nodes, and not uniform.
GroupPlacement place_group(const Layout& layout, const RankGroup& group, const Cluster& cluster);
GroupPlacement place_group(const Layout& layout, GroupKind kind, const Cluster& cluster);

}  // namespace trainwright
