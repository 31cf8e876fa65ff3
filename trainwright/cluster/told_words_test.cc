#include <doctest/doctest.h>

#include "trainwright/cluster/cluster.h"

namespace trainwright {
namespace {

const Hardware& known() {
  static const Hardware hardware = load_hardware(TRAINWRIGHT_SOURCE_DIR "/data").value();
  return hardware;
}

Cluster cluster(std::string_view text) { return parse_cluster(text, known()).value(); }
const Tier& network(const Cluster& of) { return of.groups.front().tiers.back(); }

Diagnostic fault(std::string_view text) {
  const auto read = parse_cluster(text, known());
  REQUIRE(!read.has_value());
  REQUIRE(read.error().diagnostics.size() == 1);
  return read.error().diagnostics.front();
}

TEST_CASE("a network is the adapters of a node: each accelerator has its share of them") {
  // 4 x 200 Gb/s are 100 GB/s, an eighth of it 12.5.
  CHECK(network(cluster("16xH100,network=4x200G")).bandwidth == BytesPerSecond(12.5e9));
  CHECK(cluster("16xH100,network=4x200G").groups.front().rails == 4);
  // As many as usual, 8: 25 GB/s each.
  CHECK(network(cluster("16xH100,network=200Gbps")).bandwidth == BytesPerSecond(25e9));
  // 400 Gb/s for the node of P4d, 3,200 for that of P5.
  CHECK(network(cluster("16xA100,network=efa")).bandwidth == BytesPerSecond(6.25e9));
  CHECK(network(cluster("16xH100,network=efa")).bandwidth == BytesPerSecond(50e9));
  // 12.5 GB/s, of which sockets reach 0.45.
  CHECK(bandwidth_under_load(network(cluster("16xH100,network=ethernet"))).value() ==
        doctest::Approx(12.5e9 / 8 * 0.45));
  // Links inside of a node stay.
  CHECK(cluster("16xH100,network=ethernet").groups.front().tiers.front() ==
        cluster("16xH100").groups.front().tiers.front());
}

TEST_CASE("what is told of machines is in the cluster's name, and in its file") {
  const Cluster told = cluster("16xH100, Network=4x200G, cpu=7742, power=500W");
  CHECK(told.name == "16xH100-SXM,network=4x200g,cpu=epyc-7742,power=500W");
  CHECK(cluster(told.name) == told);
  CHECK(told.groups.front().told.host->pace == 1.45);
  CHECK(told.groups.front().told.power == 500);
  const auto file = read_cluster(to_json(told), "mine.json", known());
  REQUIRE(file.has_value());
  CHECK(file->groups == told.groups);
  const Cluster plain = cluster("16xH100");
  CHECK(read_cluster(to_json(plain), "mine.json", known())->groups == plain.groups);
  CHECK(!plain.groups.front().told.network.has_value());
  // Tiers of a known cluster are its network.
  CHECK(cluster("64xselene").groups.front().told.network.has_value());
  CHECK(cluster("16xH100,cpu=1.3").groups.front().told.host->pace == 1.3);
}

TEST_CASE("in a mixed cluster each part is told of by itself") {
  const Cluster mixed = cluster("8xH100,network=1x100G+8xA100-80GB,cpu=grace");
  CHECK(network(mixed).bandwidth == BytesPerSecond(12.5e9 / 8));
  CHECK(mixed.groups.back().told.host->name == "grace");
  CHECK(!mixed.groups.front().told.host.has_value());
  CHECK(mixed.between->bandwidth == BytesPerSecond(12.5e9 / 8));
}

TEST_CASE("wrong words about machines are faults with a hint") {
  CHECK(fault("16xH100,network=fast").hint.find("network=8x200G") != std::string::npos);
  CHECK(fault("16xH100,network=3200G").what == "'3200G' is not a network");
  CHECK(fault("16xT4,network=efa").what == "no instance with EFA is known for T4");
  CHECK(fault("16xH100,cpu=xeon-8481").hint.find("xeon-8480") != std::string::npos);
  CHECK(fault("16xH100,power=900W").hint == "H100-SXM draws at most 700 W, and at least 210 W");
  CHECK(fault("16xH100,power=500").what == "'500' is no power");
  CHECK(fault("16xH100,netwrk=efa").hint.find("network") != std::string::npos);
  CHECK(fault("16xH100,cpu=grace,cpu=1").what == "'cpu=1' is said twice");
}

}  // namespace
}  // namespace trainwright
