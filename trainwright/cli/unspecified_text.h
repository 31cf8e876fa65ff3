#pragma once
// Private: what a question leaves open of its machines, in words.
#include <string>
#include <vector>

#include "trainwright/cluster/cluster.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright::cli {

// "Not specified, and what widens the interval most: network. With half ... a step takes ...";
// empty where nothing that is open is felt.
std::string unspecified_text(const std::vector<UnspecifiedEffect>& open, const Cluster& cluster);
Json unspecified_json(const std::vector<UnspecifiedEffect>& open, const Cluster& cluster);

}  // namespace trainwright::cli
