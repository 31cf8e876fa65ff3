#include <doctest/doctest.h>

#include "trainwright/layout/layout.h"
#include "trainwright/testing/layout_cases.h"
#include "trainwright/testing/slow_ranks.h"

namespace trainwright {
namespace {

Layout layout_of(std::string_view text) { return parse_layout(text).value().layout; }

TEST_CASE("tensor parallel ranks are neighbours and fill a node, data parallel ones keep a rail") {
  // Llama 3 405B on 16,384 H100: tp 8, cp 1, pp 16, dp 128 (arXiv:2407.21783, table 4).
  const Layout layout = layout_of("tp=8,pp=16,dp=128,zero=1");
  const Cluster cluster = testing::h100s(16384);
  const GroupPlacement tp = place_group(layout, GroupKind::Tp, cluster);
  CHECK(tp.group == RankGroup{.size = 8, .count = 2048, .strides = {{8, 1}}});
  CHECK(tp.node == Sharing{.together = 8, .domains = 1, .uniform = true});
  CHECK(tp.spanned == 0);
  CHECK(tp.rails == 8);
  // Ranks 0, 8, ..., 1016: each alone in its node, 32 below one leaf of 256, four leaves.
  const GroupPlacement dp = place_group(layout, GroupKind::Dp, cluster);
  CHECK(dp.group == RankGroup{.size = 128, .count = 128, .strides = {{128, 8}}});
  CHECK(dp.node == Sharing{.together = 1, .domains = 128, .uniform = true});
  CHECK(dp.tiers[1] == Sharing{.together = 32, .domains = 4, .uniform = true});
  CHECK(dp.spanned == 2);
  CHECK(dp.rails == 1);
  // Pipeline ranks are 1,024 apart: no two below one leaf.
  const GroupPlacement pp = place_group(layout, GroupKind::Pp, cluster);
  CHECK(pp.group.strides == std::vector<Stride>{{16, 1024}});
  CHECK(axis_stride(layout, Axis::Pp, Weights::Dense) == 1024);
  CHECK(pipeline_rank(layout, 1023) == 0);
  CHECK(pipeline_rank(layout, 1024) == 1);
  CHECK(pp.tiers[1] == Sharing{.together = 1, .domains = 16, .uniform = true});
  CHECK(pp.uniform);
}

TEST_CASE("experts fold into tensor, context and data parallel ranks") {
  // 2 x 2 x 8 = 32 ranks per pipeline rank = etp 1 x ep 16 x edp 2.
  const Layout layout = layout_of("tp=2,cp=2,dp=8,pp=2,ep=16,etp=1");
  CHECK(expert_dp(layout) == 2);
  CHECK(rank_group(layout, GroupKind::Ep) ==
        RankGroup{.size = 16, .count = 4, .strides = {{16, 1}}});
  CHECK(rank_group(layout, GroupKind::Edp) ==
        RankGroup{.size = 2, .count = 32, .strides = {{2, 16}}});
  CHECK(rank_group(layout, GroupKind::DpCp) ==
        RankGroup{.size = 16, .count = 4, .strides = {{16, 2}}});
}

TEST_CASE("another order moves the strides") {
  const Layout layout = layout_of("tp=4,pp=2,dp=4,order=tp-cp-ep-pp-dp");
  CHECK(rank_group(layout, GroupKind::Pp).strides == std::vector<Stride>{{2, 4}});
  CHECK(rank_group(layout, GroupKind::Dp).strides == std::vector<Stride>{{4, 8}});
  CHECK(rank_group(layout, GroupKind::Model).strides == std::vector<Stride>{{8, 1}});
}

TEST_CASE("ZeRO shards over data and context parallel ranks, replicas lie outside") {
  const Layout layout = layout_of("tp=2,cp=2,dp=8,dp_replicate=2,hsdp");
  CHECK(rank_group(layout, GroupKind::Shard).strides == std::vector<Stride>{{8, 2}});
  CHECK(rank_group(layout, GroupKind::Replicate).strides == std::vector<Stride>{{2, 16}});
  const Layout plain = layout_of("tp=2,cp=2,dp=8");
  CHECK(rank_group(plain, GroupKind::Shard).size == 1);
  CHECK(rank_group(plain, GroupKind::Replicate).size == 16);
}

TEST_CASE("groups that do not fit the nodes answer the worst of them and say so") {
  // Ranks 0-5 | 6-11 | 12-17 | 18-23 on nodes of 8: the second is cut 2 + 4, the third 4 + 2.
  const Layout layout = layout_of("tp=6,dp=4");
  const GroupPlacement tp = place_group(layout, GroupKind::Tp, testing::h100s(24));
  CHECK(tp.node == Sharing{.together = 2, .domains = 2, .uniform = false});
  CHECK(!tp.uniform);
  CHECK(tp.spanned == 1);
}

TEST_CASE("a rack of 72 with 64 used keeps groups of 64 whole") {
  Cluster cluster = testing::h100s(128);
  cluster.groups[0].per_node = 4;
  cluster.groups[0].per_domain = 64;
  cluster.groups[0].rails = 4;
  cluster.groups[0].tiers[0].domain = 64;
  const Layout layout = layout_of("tp=1,dp=128,ep=64");
  const GroupPlacement ep = place_group(layout, GroupKind::Ep, cluster);
  CHECK(ep.scale_up == Sharing{.together = 64, .domains = 1, .uniform = true});
  CHECK(ep.node == Sharing{.together = 4, .domains = 16, .uniform = true});
  CHECK(ep.spanned == 0);
}

TEST_CASE(
    "of several groups of accelerators the one where ranks touch most nodes is answered for") {
  // 16 in nodes of 8 and 16 in nodes of 4: tp 8 is one node there and two here.
  Cluster cluster = testing::h100s(16);
  Group small = cluster.groups[0];
  small.per_node = small.per_domain = small.tiers[0].domain = 4;
  for (const bool first : {false, true}) {
    CAPTURE(first);
    Cluster mixed = cluster;
    mixed.groups.insert(first ? mixed.groups.begin() : mixed.groups.end(), small);
    const GroupPlacement tp = place_group(layout_of("tp=8,dp=4"), GroupKind::Tp, mixed);
    CHECK(tp.node == Sharing{.together = 4, .domains = 2, .uniform = true});
    CHECK(tp.scale_up.together == 4);
    CHECK(tp.hardware == (first ? 0U : 1U));
    CHECK(mixed.groups[tp.hardware].tiers[tp.spanned].domain >= 8);
    CHECK(!tp.uniform);
  }
}

TEST_CASE("placement agrees with cluster.h about the tier a group spans") {
  const Cluster cluster = testing::h100s(1024);
  const Layout layout = layout_of("tp=4,cp=2,pp=8,dp=16");
  for (const GroupKind kind : {GroupKind::Tp, GroupKind::Cp, GroupKind::Dp, GroupKind::Pp}) {
    const GroupPlacement placed = place_group(layout, kind, cluster);
    const Stride stride = placed.group.strides.front();
    CHECK(placed.spanned == spanned_tier(cluster.groups[0], 0, stride.members, stride.stride));
  }
}

TEST_CASE("a world of 131,072 ranks is answered by a handful of strides") {
  const Layout layout = layout_of("tp=8,cp=16,pp=16,dp=64,ep=64,etp=1,zero=1,dp_replicate=2");
  const Cluster cluster = testing::h100s(131072);
  CHECK(world_size(layout) == 131072);
  for (int kind = 0; kind <= static_cast<int>(GroupKind::World); ++kind) {
    const GroupPlacement placed = place_group(layout, static_cast<GroupKind>(kind), cluster);
    // What is kept, and so what is worked on, does not grow with the world.
    CHECK(placed.group.strides.size() <= 2);
    CHECK(placed.tiers.size() == 3);
    CHECK(placed.group.size * placed.group.count == 131072);
    CHECK(placed.uniform);
  }
}

TEST_CASE("a world beyond 64 bits saturates instead of wrapping") {
  const Layout layout = layout_of("tp=16777216,pp=16777216,dp=16777216,cp=16777216");
  CHECK(world_size(layout) == INT64_MAX);
  CHECK(place_group(layout, GroupKind::Dp, testing::h100s(64)).group.size == 16777216);
}

}  // namespace
}  // namespace trainwright
