#pragma once
// A cluster's links in SimGrid: flows share them fairly (CM02 without TCP's effects).
#include <map>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "flows.h"

namespace trainwright::network {

// Rail: a NIC for each accelerator, on a switch of its own rail. FatTree: two on a NIC, all NICs of
// a node on one leaf switch. Either way a leaf's links to the spine carry the traffic of all it
// joins, divided by the spine's oversubscription.
enum class Fabric { Rail, FatTree };

// Hosts and links of a cluster with tiers nvlink, leaf and spine. Only pairs that talk get a route;
// `seal` before anything is timed.
class Platform {
 public:
  Platform(const std::string& name, Group group, Fabric fabric);
  void add_routes(const Round& round);
  void seal() { zone_->seal(); }
  // From within an actor.
  double seconds(const Round& round) const;
  simgrid::s4u::Host* host(std::int64_t rank) const;

 private:
  struct Pair {
    simgrid::s4u::Link *up, *down;
  };
  using Path = std::vector<const simgrid::s4u::Link*>;
  Pair pair(const char* what, std::int64_t number, double rate, double latency);
  Path path(std::int64_t from, std::int64_t to) const;
  void add_spine(Path& path, std::int64_t from, std::int64_t to) const;

  std::string name_;
  Group group_;
  Fabric fabric_;
  simgrid::s4u::NetZone* zone_;
  std::vector<simgrid::s4u::Host*> hosts_;
  std::vector<Pair> nvlinks_, nics_, ups_;
  std::map<std::pair<std::int64_t, std::int64_t>, bool> known_;
};

// Before the first platform.
void configure();

}  // namespace trainwright::network
