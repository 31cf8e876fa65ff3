// Whatever is accepted as `--on` text or as a cluster file reads back to the same cluster, and can
// be asked about from end to end.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainwright/cluster/cluster.h"

using namespace trainwright;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

const Hardware& known() {
  static const Hardware hardware = load_hardware(TRAINWRIGHT_DATA_DIR).value();
  return hardware;
}

void ask(const Cluster& cluster) {
  const std::int64_t last = accelerator_count(cluster) - 1;
  require(last >= 0 && last < kMostAccelerators && node_count(cluster) >= 1);
  require(place_of(cluster, last).group + 1 == cluster.groups.size());
  require(bandwidth_under_load(shared_tier(cluster, 0, last)).value() > 0);
  for (const Group& group : cluster.groups) {
    require(shared_tier(group, 0, group.count - 1) + 1 == group.tiers.size() || group.count == 1);
    require(spanned_tier(group, 0, group.count, 1) < group.tiers.size());
    const std::int64_t rail = rail_of(group, group.count - 1);
    require(rail >= 0 && rail < group.rails);
  }
}

void check(const Cluster& cluster) {
  ask(cluster);
  const auto json = parse_json(to_text(to_json(cluster)), "again");
  require(json.has_value());
  const auto again = read_cluster(*json, "again", Hardware{});
  require(again.has_value() && *again == cluster);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // Paths are left out: what is fuzzed is the text, not the files of this machine.
  if (text.find('/') == std::string_view::npos && text.find(".json") == std::string_view::npos) {
    if (const auto cluster = parse_cluster(text, known())) {
      check(*cluster);
      const auto again = parse_cluster(cluster->name, known());
      require(again.has_value() && *again == *cluster);
    }
  }
  const auto json = parse_json(text, "fuzz");
  if (!json) return 0;
  if (const auto cluster = read_cluster(*json, "fuzz", known())) check(*cluster);
  if (const auto accelerator = read_accelerator(*json, "fuzz")) {
    const std::int64_t domain = accelerator->scale_up.back().domain;
    ask({.name = "usual",
         .groups = {usual_group(*accelerator, kMostAccelerators / domain, domain)},
         .between = std::nullopt,
         .sources = {}});
  }
  return 0;
}
