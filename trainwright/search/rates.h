#pragma once
// Private: links of a cluster whose accelerators may differ.
#include "trainwright/cluster/cluster.h"

namespace trainwright::detail {

// Accelerators that every scale-up domain has.
std::int64_t smallest_domain(const Cluster& cluster);

}  // namespace trainwright::detail
