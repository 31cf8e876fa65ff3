#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "trainwright/cluster/cluster.h"

namespace trainwright {
namespace {

const Hardware& known() {
  static const Hardware hardware = load_hardware(TRAINWRIGHT_SOURCE_DIR "/data").value();
  return hardware;
}

// The accelerator or known cluster of that number: its name, and one group of it.
std::pair<std::string, Group> kind(std::size_t number) {
  if (number < known().accelerators.size()) {
    const Accelerator& accelerator = known().accelerators[number];
    const std::int64_t domain = accelerator.scale_up.back().domain;
    return {accelerator.name, usual_group(accelerator, 1000, domain)};
  }
  const Cluster& cluster = known().clusters[number - known().accelerators.size()];
  return {cluster.name, cluster.groups.front()};
}

// "16x4xH100-SXM": any accelerator or known cluster, any part of a node or any number of nodes of
// each domain, any number of domains.
std::string any_part() {
  const std::size_t kinds = known().accelerators.size() + known().clusters.size();
  const auto [name, group] = kind(*rc::gen::inRange<std::size_t>(0, kinds));
  const auto up_to = [](std::int64_t most) { return *rc::gen::inRange<std::int64_t>(1, most + 1); };
  const std::int64_t domains = up_to(group.count / group.per_domain);
  const std::int64_t per_domain = *rc::gen::arbitrary<bool>()
                                      ? up_to(group.per_node)
                                      : group.per_node * up_to(group.per_domain / group.per_node);
  return std::to_string(domains) + "x" + std::to_string(per_domain) + "x" + name;
}

TEST_CASE("a cluster read from text reads back from its name and from its JSON") {
  CHECK(rc::check([] {
    const std::string text =
        *rc::gen::arbitrary<bool>() ? any_part() : any_part() + "+" + any_part();
    const auto cluster = parse_cluster(text, known());
    RC_ASSERT(cluster.has_value());
    RC_ASSERT(parse_cluster(cluster->name, known()).value() == *cluster);
    const Json json = parse_json(to_text(to_json(*cluster)), "again").value();
    RC_ASSERT(read_cluster(json, "again", known()).value() == *cluster);
  }));
}

TEST_CASE("a bare count is either refused or filled equally, and its name says the same") {
  CHECK(rc::check([] {
    const std::size_t kinds = known().accelerators.size() + known().clusters.size();
    const auto [name, group] = kind(*rc::gen::inRange<std::size_t>(0, kinds));
    const auto count = *rc::gen::inRange<std::int64_t>(1, 4 * group.per_domain);
    const std::string text = std::to_string(count) + "x" + name;
    const auto cluster = parse_cluster(text, known());
    if (!cluster) {
      RC_ASSERT(count > group.per_node);  // less than a node always works
      RC_ASSERT(cluster.error().diagnostics.size() == 1U);
      RC_ASSERT(!cluster.error().diagnostics.front().hint.empty());
      return;
    }
    RC_ASSERT(cluster->name == text);
    RC_ASSERT(accelerator_count(*cluster) == count);
  }));
}

TEST_CASE("domains are equal, nested and end at the group") {
  CHECK(rc::check([] {
    const auto cluster = parse_cluster(any_part(), known());
    RC_ASSERT(cluster.has_value());
    const Group& group = cluster->groups.front();
    RC_ASSERT(group.count % group.per_domain == 0);
    RC_ASSERT(group.per_domain % group.per_node == 0);
    RC_ASSERT(group.rails >= 1 && group.rails <= group.per_node);
    RC_ASSERT(group.tiers.back().domain == group.count);
    for (std::size_t t = 0; t + 2 < group.tiers.size(); ++t) {
      RC_ASSERT(group.tiers[t + 1].domain % group.tiers[t].domain == 0);
      RC_ASSERT(group.tiers[t + 1].domain > group.tiers[t].domain);
    }
  }));
}

// The obvious way: the smallest tier in which the members, one by one, have the same domain.
std::size_t spanned_by_members(const Group& group, std::int64_t first, std::int64_t members,
                               std::int64_t stride) {
  for (std::size_t t = 0; t < group.tiers.size(); ++t) {
    bool together = true;
    for (std::int64_t m = 0; m < members; ++m) {
      together =
          together && (first + m * stride) / group.tiers[t].domain == first / group.tiers[t].domain;
    }
    if (together) return t;
  }
  return group.tiers.size();
}

TEST_CASE("the tier of a strided communicator is the one its members share") {
  CHECK(rc::check([] {
    const auto cluster = parse_cluster(any_part(), known());
    RC_ASSERT(cluster.has_value());
    const Group& group = cluster->groups.front();
    const auto stride =
        *rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(group.count, 300) + 1);
    const auto most = std::min<std::int64_t>(64, (group.count - 1) / stride + 1);
    const auto members = *rc::gen::inRange<std::int64_t>(1, most + 1);
    const auto first = *rc::gen::inRange<std::int64_t>(0, group.count - (members - 1) * stride);
    RC_ASSERT(spanned_tier(group, first, members, stride) ==
              spanned_by_members(group, first, members, stride));
  }));
}

TEST_CASE("a smaller part of a cluster never has a faster innermost network than the whole") {
  CHECK(rc::check([] {
    const Cluster& whole =
        known().clusters[*rc::gen::inRange<std::size_t>(0, known().clusters.size())];
    const Group& all = whole.groups.front();
    const auto nodes = *rc::gen::inRange<std::int64_t>(1, node_count(all) + 1);
    const auto part =
        parse_cluster(std::to_string(nodes * all.per_node) + "x" + whole.name, known());
    RC_PRE(part.has_value());
    const Group& group = part->groups.front();
    RC_ASSERT(group.tiers.size() <= all.tiers.size());
    RC_ASSERT(group.tiers.back().bandwidth >= all.tiers.back().bandwidth);
    RC_ASSERT(group.tiers.front().bandwidth == all.tiers.front().bandwidth);
  }));
}

}  // namespace
}  // namespace trainwright
