#pragma once
// Private to the module: the names that are known, for diagnostics, and what joins unlike groups.
#include <string>
#include <vector>

#include "trainwright/cluster/cluster.h"

namespace trainwright::detail {

// Names and aliases, sorted.
std::vector<std::string> accelerator_names(const Hardware& hardware);
std::vector<std::string> cluster_names(const Hardware& hardware);

// The tier between groups of which nothing else is known: the weaker of their outermost tiers in
// every respect.
Tier tier_between(const std::vector<Group>& groups);

}  // namespace trainwright::detail
