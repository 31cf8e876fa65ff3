#include "trainwright/cluster/cluster.h"

#include <doctest/doctest.h>

#include "trainwright/base/check.h"

namespace trainwright {
namespace {

using namespace literals;

const Hardware& known() {
  static const Hardware hardware = load_hardware(TRAINWRIGHT_SOURCE_DIR "/data").value();
  return hardware;
}

Group group_of(std::string_view text) {
  return parse_cluster(text, known()).value().groups.front();
}

TEST_CASE("1,024 H100 have NVLink in the node, leaves of 32 nodes and a spine") {
  const Group group = group_of("1024xH100");
  REQUIRE(group.tiers.size() == 3);
  CHECK(group.tiers[0].name == "nvlink");
  CHECK(group.tiers[0].domain == 8);
  CHECK(group.tiers[0].bandwidth == 450_GBps);  // 900 GB/s both ways
  CHECK(group.tiers[1].name == "leaf");
  CHECK(group.tiers[1].domain == 256);         // 32 nodes of 8
  CHECK(group.tiers[1].bandwidth == 50_GBps);  // 400 Gb/s for each GPU
  CHECK(group.tiers[2].name == "spine");
  CHECK(group.tiers[2].domain == 1024);
  CHECK(group.rails == 8);
  CHECK(node_count(group) == 128);
}

TEST_CASE("tiers that would join nothing more are left out") {
  CHECK(group_of("8xH100").tiers.size() == 1);   // one node: NVLink only
  CHECK(group_of("64xH100").tiers.size() == 2);  // eight nodes: one leaf, no spine
  CHECK(group_of("64xH100").tiers[1].domain == 64);
  CHECK(group_of("16x1xH100").tiers.size() == 1);  // one of each node: the leaf only
  CHECK(group_of("16x1xH100").tiers[0].name == "leaf");
  REQUIRE(group_of("1xH100").tiers.size() == 1);  // alone, and still with a tier to ask about
  CHECK(group_of("1xH100").tiers[0].domain == 1);
}

TEST_CASE("two accelerators talk over the innermost tier that holds both") {
  const Group group = group_of("1024xH100");
  CHECK(shared_tier(group, 0, 7) == 0);
  CHECK(shared_tier(group, 7, 8) == 1);
  CHECK(shared_tier(group, 0, 255) == 1);
  CHECK(shared_tier(group, 255, 256) == 2);
  CHECK(shared_tier(group, 1023, 0) == 2);
  CHECK(shared_tier(group, 5, 5) == 0);
  CHECK(same_node(group, 8, 15));
  CHECK_FALSE(same_node(group, 7, 8));
}

TEST_CASE("a strided communicator spans the tier of its first and last member") {
  const Group group = group_of("1024xH100");
  CHECK(spanned_tier(group, 0, 8, 1) == 0);
  CHECK(spanned_tier(group, 4, 8, 1) == 1);  // 4 to 11: across two nodes
  CHECK(spanned_tier(group, 0, 2, 4) == 0);
  CHECK(spanned_tier(group, 3, 32, 8) == 1);  // 3 to 251
  CHECK(spanned_tier(group, 3, 33, 8) == 2);  // 3 to 259
  CHECK(spanned_tier(group, 300, 1, 8) == 0);
}

TEST_CASE("accelerators at the same position of their nodes share a rail") {
  const Group group = group_of("64xH100");
  CHECK(rail_of(group, 3) == 3);
  CHECK(rail_of(group, 8 + 3) == 3);
  // 4 adapters for 8 dies: neighbours share one.
  const Group frontier = group_of("64xMI250X-GCD");
  CHECK(frontier.rails == 4);
  CHECK(rail_of(frontier, 0) == 0);
  CHECK(rail_of(frontier, 1) == 0);
  CHECK(rail_of(frontier, 7) == 3);
}

TEST_CASE("256 GB200 are 64 of the 72 in each of four racks") {
  const Group group = group_of("256xGB200");
  CHECK(group.per_domain == 64);
  CHECK(group.per_node == 4);
  CHECK(node_count(group) == 64);
  CHECK(group.tiers[0].domain == 64);
  CHECK(group.tiers[0].bandwidth == 900_GBps);  // 1.8 TB/s both ways
  CHECK(shared_tier(group, 0, 63) == 0);
  CHECK(shared_tier(group, 63, 64) == 1);
  CHECK(rail_of(group, 63) == 3);
}

TEST_CASE("a rack of GB200 is used whole when the count says so") {
  CHECK(group_of("72xGB200").per_domain == 72);
  CHECK(group_of("144xGB200").per_domain == 72);
  CHECK(group_of("128xGB200").per_domain == 64);
  CHECK(group_of("576xGB200").per_domain == 64);  // 9 x 64, although 8 x 72 would do
  CHECK(group_of("8x72xGB200").per_domain == 72);
  CHECK(group_of("2496xGB200").count / 64 == 39);
  CHECK(group_of("2xGB200").per_node == 2);
}

TEST_CASE("bandwidth under load is the line rate times efficiency over oversubscription") {
  const Tier tier{.name = "top",
                  .domain = 64,
                  .bandwidth = 50_GBps,
                  .latency = 14_us,
                  .efficiency = 0.5,
                  .oversubscription = 5};
  CHECK(bandwidth_under_load(tier) == 5_GBps);
}

TEST_CASE("the aggregation of Meta's H100 cluster is oversubscribed seven times") {
  // The Llama 3 Herd of Models, section 3.3.1.
  const Cluster cluster = parse_cluster("meta-h100-roce", known()).value();
  CHECK(accelerator_count(cluster) == 24'576);
  CHECK(shared_tier(cluster, 0, 15).name == "rack");
  CHECK(shared_tier(cluster, 0, 3071).name == "pod");
  CHECK(shared_tier(cluster, 0, 3072).oversubscription == 7);
}

TEST_CASE("adapters that several accelerators share divide their bandwidth") {
  // 4 adapters of 100 Gb/s, 12.5 GB/s, for 8 V100.
  CHECK(group_of("64xV100").tiers[1].bandwidth == BytesPerSecond(6.25e9));
}

TEST_CASE("a bridge between pairs survives only where pairs are used") {
  CHECK(group_of("8xA100-PCIe").tiers.size() == 2);
  CHECK(group_of("8xA100-PCIe").tiers[0].domain == 2);
  CHECK(group_of("4x3xA100-PCIe").tiers[0].name == "pcie");
  CHECK(group_of("4x6xA100-PCIe").tiers[0].name == "bridge");
}

TEST_CASE("groups follow one another and meet over the weaker of their networks") {
  const Cluster cluster = parse_cluster("64xH100+32x8xA100", known()).value();
  REQUIRE(cluster.groups.size() == 2);
  CHECK(accelerator_count(cluster) == 64 + 256);
  CHECK(node_count(cluster) == 8 + 32);
  CHECK(place_of(cluster, 63) == Place{.group = 0, .index = 63});
  CHECK(place_of(cluster, 64) == Place{.group = 1, .index = 0});
  CHECK(shared_tier(cluster, 63, 64).bandwidth == 25_GBps);  // HDR beside NDR
  CHECK(shared_tier(cluster, 64, 71).name == "nvlink");
}

TEST_CASE("single nodes meet over the adapters that they are usually built with") {
  const Cluster cluster = parse_cluster("8xH100+8xA100", known()).value();
  CHECK(shared_tier(cluster, 0, 7).name == "nvlink");
  CHECK(shared_tier(cluster, 0, 8).bandwidth == 25_GBps);  // HDR beside NDR
}

TEST_CASE("a million accelerators are answered as fast as eight") {
  const Group group = group_of("131072x8xH100");
  CHECK(group.count == 1'048'576);
  CHECK(group.tiers.size() == 3);
  CHECK(shared_tier(group, 0, 1'048'575) == 2);
}

TEST_CASE("an accelerator outside the cluster is a fault of ours") {
  const Cluster cluster = parse_cluster("64xH100", known()).value();
  CHECK_THROWS_AS(place_of(cluster, 64), InternalError);
  CHECK_THROWS_AS(place_of(cluster, -1), InternalError);
  CHECK_THROWS_AS(usual_group(known().accelerators.front(), 1, 0), InternalError);
}

}  // namespace
}  // namespace trainwright
