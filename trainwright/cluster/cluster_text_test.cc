#include <doctest/doctest.h>

#include "trainwright/cluster/cluster.h"

namespace trainwright {
namespace {

const Hardware& known() {
  static const Hardware hardware = load_hardware(TRAINWRIGHT_SOURCE_DIR "/data").value();
  return hardware;
}

Diagnostics faults(std::string_view text) {
  const auto cluster = parse_cluster(text, known());
  return cluster ? Diagnostics{} : cluster.error().diagnostics;
}

// The hint of a text that has exactly one fault.
std::string hint(std::string_view text) {
  const Diagnostics found = faults(text);
  REQUIRE(found.size() == 1);
  return found.front().hint;
}

std::string what(std::string_view text) {
  const Diagnostics found = faults(text);
  REQUIRE(found.size() == 1);
  return found.front().what;
}

TEST_CASE("a cluster is named by its shortest text") {
  const auto name = [](std::string_view text) { return parse_cluster(text, known()).value().name; };
  CHECK(name("64xH100") == "64xH100-SXM");
  CHECK(name(" 64 X h100-80gb ") == "64xH100-SXM");
  CHECK(name("8x8xH100") == "64xH100-SXM");
  CHECK(name("16x4xH100") == "16x4xH100-SXM");
  CHECK(name("32x8xA100-80GB") == "256xA100-SXM-80GB");
  CHECK(name("4x64xGB200") == "256xGB200");
  CHECK(name("64xMI300X") == "64xMI300X");
  CHECK(name("64x910B") == "64xAscend-910B");
  CHECK(name("4xH100") == "4xH100-SXM");
  CHECK(name("Selene") == "selene");
  CHECK(name("64xselene") == "64xselene");
  CHECK(name("64xH100 + 8x4xA100") == "64xH100-SXM+8x4xA100-SXM-80GB");
}

TEST_CASE("a part of a known cluster keeps its network") {
  const Cluster part = parse_cluster("64xvtrain", known()).value();
  CHECK(accelerator_count(part) == 64);
  CHECK(part.groups.front().tiers.back().bandwidth == BytesPerSecond(12.5e9));
  CHECK(part.sources.contains("network"));
  // 6,144 of 24,576: two pods, still joined over the oversubscribed tier.
  const Cluster pods = parse_cluster("6144xmeta-h100-roce", known()).value();
  CHECK(pods.groups.front().tiers.back().name == "aggregation");
  CHECK(parse_cluster("3072xmeta-h100-roce", known()).value().groups.front().tiers.back().name ==
        "pod");
  // 16 V100 to a domain there, not the usual 8.
  CHECK(parse_cluster("32xdgx-2", known()).value().groups.front().per_domain == 16);
}

TEST_CASE("a misspelt name gets the nearest") {
  CHECK(hint("64xH1000").find("'H100'") != std::string::npos);
  CHECK(hint("64xGB2000").find("'GB200'") != std::string::npos);
  CHECK(hint("selen").find("'selene'") != std::string::npos);
  CHECK(hint("64xQuantumThing").find("list accelerators") != std::string::npos);
}

TEST_CASE("slips of form are told from unknown names") {
  CHECK(hint("64H100") == "write 64xH100");
  CHECK(hint("H100x64") == "write 64xH100");
  CHECK(hint("H100") == "write 8xH100-SXM");
  CHECK(what("0xH100") == "a count of 0");
  CHECK(what("64x") == "no accelerator or cluster is named");
  CHECK(what("") == "no cluster is named");
  CHECK(what("2x2x2xH100") == "more than two counts");
  CHECK(what("99999999999999999999xH100").find("more than is accepted") != std::string::npos);
  CHECK(what("16777216x8xH100").find("more than are accepted") != std::string::npos);
  CHECK(what("64xH100+") == "no accelerator or cluster is named");
  CHECK(what("-64xH100").find("unknown") != std::string::npos);
}

TEST_CASE("a count that leaves a node half full is refused with the counts that do not") {
  CHECK(what("60xH100") == "60 accelerators fill 7 nodes of 8 and leave 4 over");
  CHECK(hint("60xH100") ==
        "fill them equally: 56xH100-SXM (4 spare), 64xH100-SXM or 15x4xH100-SXM");
  // A prime count has no equal part of a node but one of each.
  CHECK(hint("13xH100") == "fill them equally: 8xH100-SXM (5 spare) or 16xH100-SXM");
  CHECK(what("100xGB200") == "100 accelerators fill 1 scale-up domain of 64 and leave 36 over");
  CHECK(hint("100xGB200") == "fill them equally: 64xGB200 (36 spare), 128xGB200 or 5x20xGB200");
  CHECK(what("4x6xGB200") == "6 of a domain fill 1 node of 4 and leave 2 over");
  CHECK(what("4x16xH100") == "a scale-up domain of H100-SXM holds 8, not 16");
}

TEST_CASE("a known cluster has no more accelerators than it was built with") {
  CHECK(what("8192xselene") == "selene has 4,480 accelerators, fewer than 8,192");
  CHECK(hint("8192xselene").find("8192xA100-SXM-80GB") != std::string::npos);
  CHECK(what("561x1xselene").find("selene has 4,480") != std::string::npos);
}

TEST_CASE("all faults of a text come at once") {
  const Diagnostics found = faults("0xH1000+60xH100+x+64xselen");
  REQUIRE(found.size() == 5);
  CHECK(found[0].where == "'0xH1000'");
  CHECK(found[1].where == "'0xH1000'");
  CHECK(found[2].where == "'60xH100'");
  CHECK(found[3].where == "'x'");
  CHECK(found[4].where == "'64xselen'");
}

TEST_CASE("a path is read as a file") {
  CHECK(what("no/such/cluster") == "no such file");
  CHECK(what("missing.json") == "no such file");
  const auto cluster = parse_cluster(TRAINWRIGHT_SOURCE_DIR "/data/clusters/selene.json", known());
  CHECK(accelerator_count(cluster.value()) == 4480);
}

}  // namespace
}  // namespace trainwright
