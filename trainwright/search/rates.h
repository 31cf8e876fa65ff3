#pragma once
// Private: peaks and links of a cluster whose accelerators may differ.
#include "trainwright/cluster/cluster.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright::detail {

// The peak of the unit for a precision, or of the next wider one an accelerator has: of the slowest
// accelerator, and of all together.
FlopsPerSecond slowest_peak(const Cluster& cluster, PrecisionKind precision);
FlopsPerSecond sum_of_peaks(const Cluster& cluster, PrecisionKind precision);

// Accelerators that every scale-up domain has.
std::int64_t smallest_domain(const Cluster& cluster);

}  // namespace trainwright::detail
