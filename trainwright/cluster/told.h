#pragma once
// What a question tells of the machines of a group, beside their build. Part of cluster.h: include
// that one.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/units.h"

namespace trainwright {

// A CPU, by what an operator of a trainer takes it over the Xeon of an H100's node.
struct Host {
  std::string name;  // "xeon-8480"
  std::vector<std::string> aliases;
  double pace = 1;
  std::string source;
  friend bool operator==(const Host&, const Host&) = default;
};
// Adapters of a node. Without any the tiers tell the network.
struct Network {
  std::string name;  // "8x200g"
  std::int64_t nics = 0;
  BytesPerSecond nic_bandwidth{0};
  double efficiency = 0.95;
  friend bool operator==(const Network&, const Network&) = default;
};
// What is told of a group's machines. All else is taken as it usually is with their accelerators,
// and step times are less sure of it.
struct Told {
  std::optional<Network> network = {};
  std::optional<Host> host = {};
  double power = 0;  // W that an accelerator may draw; 0: not told
  friend bool operator==(const Told&, const Told&) = default;
};

}  // namespace trainwright
