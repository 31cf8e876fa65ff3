#pragma once
// Private to the module: what `--on` tells of the machines behind its count and name:
// "64xH100,network=8x200G,cpu=epyc-7742,power=500W".
#include <string>
#include <string_view>

#include "trainwright/cluster/cluster.h"

namespace trainwright::detail {

// Of one group. Returns the words as they are printed, ",network=8x200G,cpu=epyc-7742"; faults are
// reported with the group's own text as their place.
std::string read_told(std::string_view words, const std::string& where, const Hardware& hardware,
                      Group& group, Diagnostics& diagnostics);
// Its network tiers as told; nothing where none is.
void lay_network(Group& group);

// {"hosts": [...]} of hosts.json.
std::vector<Host> read_hosts(const Json& json, const std::string& origin, Diagnostics& diagnostics);

}  // namespace trainwright::detail
