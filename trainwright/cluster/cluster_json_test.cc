#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "trainwright/cluster/cluster.h"

namespace trainwright {
namespace {

using namespace literals;

const Hardware& known() {
  static const Hardware hardware = load_hardware(TRAINWRIGHT_SOURCE_DIR "/data").value();
  return hardware;
}

Result<Cluster> read(std::string_view text) {
  return parse_json(text, "c.json").and_then([](const Json& json) {
    return read_cluster(json, "c.json", known());
  });
}

Diagnostics faults(std::string_view text) {
  const auto cluster = read(text);
  return cluster ? Diagnostics{} : cluster.error().diagnostics;
}

TEST_CASE("a group without tiers is built as usual") {
  const Cluster cluster =
      read(R"({"name": "mine", "groups": [{"accelerator": "H100", "nodes": 8}]})").value();
  CHECK(cluster.groups == parse_cluster("64xH100", known()).value().groups);
  const Cluster racks =
      read(R"({"groups": [{"accelerator": "GB200", "nodes": 32, "per_domain": 64}]})").value();
  CHECK(racks.groups == parse_cluster("128xGB200", known()).value().groups);
  CHECK(racks.name == "c.json");
}

TEST_CASE("tiers are read as they are written and the last joins all") {
  const Cluster cluster = read(R"({"groups": [{"accelerator": "A100", "nodes": 16, "per_node": 4,
    "tiers": [
      {"name": "nvlink", "domain": 4, "bandwidth": "300GB/s", "latency": "3us", "efficiency": 0.8},
      {"name": "leaf", "domain": 32, "bandwidth": "25GB/s", "latency": "10us"},
      {"name": "core", "bandwidth": "25GB/s", "latency": "12us", "oversubscription": 4}]}]})")
                              .value();
  const Group& group = cluster.groups.front();
  REQUIRE(group.tiers.size() == 3);
  CHECK(group.count == 64);
  CHECK(group.rails == 1);
  CHECK(group.tiers[1].domain == 32);
  CHECK(group.tiers[2].domain == 64);
  CHECK(group.tiers[2].oversubscription == 4);
  CHECK(group.tiers[0].latency.value() == doctest::Approx(3e-6));
}

TEST_CASE("every known cluster and accelerator reads back from its JSON") {
  for (const Cluster& cluster : known().clusters) {
    const Json json = parse_json(to_text(to_json(cluster)), "again").value();
    // Accelerators are written whole, so nothing has to be known to read them.
    CHECK(read_cluster(json, "again", Hardware{}).value() == cluster);
  }
  for (const Accelerator& accelerator : known().accelerators) {
    const Json json = parse_json(to_text(to_json(accelerator)), "again").value();
    CHECK(read_accelerator(json, "again").value() == accelerator);
  }
}

TEST_CASE("ten mistakes give ten diagnostics, each with its line") {
  const Diagnostics found = faults(R"({
    "nam": "mine",
    "groups": [
      {"accelerator": "H1000", "nodes": 0, "per_node": "8"},
      {"accelerator": "H100", "nodes": 2, "colour": "red",
       "tiers": [
         {"name": "nv link", "domain": 8, "bandwidth": "450Gb/s", "latency": "3"},
         {"name": "leaf", "bandwidth": "50GB/s", "latency": "14us", "efficiency": 2}]},
      7
    ]
  })");
  REQUIRE(found.size() == 10);
  CHECK(found[0].where == "c.json:4 /groups/0/accelerator");
  CHECK(found[0].hint.find("'H100'") != std::string::npos);
  CHECK(found[1].where == "c.json:4 /groups/0/nodes");
  CHECK(found[2].where == "c.json:4 /groups/0/per_node");
  CHECK(found[3].where == "c.json:7 /groups/1/tiers/0/name");
  CHECK(found[4].what.find("bits are not accepted") != std::string::npos);
  CHECK(found[4].hint.find("56.25") != std::string::npos);
  CHECK(found[5].what.find("unit is missing") != std::string::npos);
  CHECK(found[6].where == "c.json:8 /groups/1/tiers/1/efficiency");
  CHECK(found[7].what == "unknown field 'colour'");
  CHECK(found[8].where == "c.json:9 /groups/2");
  CHECK(found[9].what == "unknown field 'nam'");
}

TEST_CASE("sizes that do not nest are refused") {
  const auto group = [](std::string_view rest) {
    return faults(R"({"groups": [{"accelerator": "H100", )" + std::string(rest) + "}]}");
  };
  const auto tier = [](std::string_view name, std::string_view domain) {
    return R"({"name": ")" + std::string(name) + R"(", )" + std::string(domain) +
           R"( "bandwidth": "1GB/s", "latency": "1us"})";
  };
  CHECK(group(R"("nodes": 2, "per_domain": 12)").size() == 1);
  CHECK(group(R"("nodes": 3, "per_domain": 16)").size() == 1);
  CHECK(group(R"("nodes": 2, "per_node": 16)").front().hint == "list the tiers");
  CHECK(
      group(R"("nodes": 2, "tiers": [)" + tier("a", R"("domain": 3,)") + ", " + tier("b", "") + "]")
          .size() == 1);
  CHECK(group(R"("nodes": 2, "tiers": [)" + tier("a", R"("domain": 8,)") + ", " +
              tier("b", R"("domain": 8,)") + "]")
            .size() == 1);
  CHECK(group(R"("nodes": 4, "tiers": [)" + tier("a", R"("domain": 8,)") + ", " +
              tier("b", R"("domain": 16,)") + "]")
            .front()
            .what == "the last tier joins 16 of 32 accelerators");
  CHECK(group(R"("nodes": 1, "tiers": [)" + tier("a", R"("domain": 8,)") + ", " +
              tier("b", R"("domain": 16,)") + "]")
            .front()
            .what == "a network joins 16 of 8 accelerators");
  CHECK(
      group(R"("nodes": 2, "tiers": [)" + tier("a", R"("domain": 4,)") + ", " + tier("b", "") + "]")
          .front()
          .what.find("no tier joins the 8") != std::string::npos);
  CHECK(group(R"("nodes": 2, "tiers": [])").size() == 1);
  CHECK(group(R"("nodes": 16777216)").front().what == "more accelerators than are accepted");
}

TEST_CASE("several groups are joined by what the file says, or by the weaker network") {
  const std::string groups =
      R"("groups": [{"accelerator": "H100", "nodes": 8}, {"accelerator": "A100", "nodes": 4}])";
  const Cluster plain = read("{" + groups + "}").value();
  CHECK(plain.between.value().domain == 96);
  CHECK(plain.between.value().bandwidth == 25_GBps);
  const Cluster told =
      read("{" + groups +
           R"(, "between": {"name": "wan", "bandwidth": "1GB/s", "latency": "1ms"}})")
          .value();
  CHECK(told.between.value().bandwidth == 1_GBps);
  CHECK(told.between.value().domain == 96);
  CHECK(faults(R"({"groups": [{"accelerator": "H100", "nodes": 8}],
    "between": {"name": "wan", "bandwidth": "1GB/s", "latency": "1ms"}})")
            .front()
            .what == "there is only one group");
}

TEST_CASE("an accelerator that nobody knows can be described in place") {
  const std::string chip = R"({"name": "Chip", "vendor": "Us", "year": 2026, "memory": "100GiB",
    "memory_bandwidth": "5TB/s", "peak": {"bf16": "1PFLOP/s"},
    "scale_up": [{"name": "link", "domain": 16, "bandwidth": "400GB/s", "latency": "2us"}],
    "host_link": "64GB/s",
    "node": {"accelerators": 8, "nics": 8, "nic_bandwidth": "50GB/s", "leaf_domains": 4}})";
  const Cluster cluster =
      read(R"({"groups": [{"nodes": 8, "accelerator": )" + chip + "}]}").value();
  const Group& group = cluster.groups.front();
  CHECK(group.per_domain == 16);
  CHECK(group.accelerator.memory_visible == 100_GiB);
  CHECK(group.accelerator.job_domain == 16);
  CHECK(peak(group.accelerator, ComputeType::Fp8) == std::nullopt);
}

TEST_CASE("a data directory that cannot be read says which") {
  const auto missing = load_hardware("/no/such/place");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().diagnostics.size() == 2);
  CHECK(missing.error().diagnostics.front().where == "/no/such/place/accelerators");
}

TEST_CASE("two things of one name in a data directory are refused") {
  const auto directory = std::filesystem::temp_directory_path() / "trainwright_cluster_json_test";
  std::filesystem::create_directories(directory / "accelerators");
  std::filesystem::create_directories(directory / "clusters");
  const auto write = [&](const char* file, const Json& json) {
    std::ofstream(directory / file) << to_text(json);
  };
  Accelerator chip = known().accelerators.front();
  write("accelerators/one.json", to_json(chip));
  chip.name = "other";
  write("accelerators/two.json", to_json(chip));  // the same aliases
  const auto loaded = load_hardware(directory.string());
  std::filesystem::remove_all(directory);
  REQUIRE_FALSE(loaded.has_value());
  CHECK(loaded.error().diagnostics.size() == chip.aliases.size());
}

}  // namespace
}  // namespace trainwright
