#include "trainwright/search/rates.h"

#include <algorithm>

#include "trainwright/cost/cost.h"
#include "trainwright/search/search.h"

namespace trainwright {
namespace {

FlopsPerSecond peak_of(const Accelerator& accelerator, PrecisionKind precision) {
  return peak_or_wider(accelerator, compute_type(precision));
}

}  // namespace

FlopsPerSecond detail::slowest_peak(const Cluster& cluster, PrecisionKind precision) {
  FlopsPerSecond least = peak_of(cluster.groups.front().accelerator, precision);
  for (const Group& group : cluster.groups) {
    least = std::min(least, peak_of(group.accelerator, precision));
  }
  return least;
}

FlopsPerSecond detail::sum_of_peaks(const Cluster& cluster, PrecisionKind precision) {
  FlopsPerSecond sum;
  for (const Group& group : cluster.groups) {
    sum += peak_of(group.accelerator, precision) * static_cast<double>(group.count);
  }
  return sum;
}

std::int64_t detail::smallest_domain(const Cluster& cluster) {
  std::int64_t least = cluster.groups.front().per_domain;
  for (const Group& group : cluster.groups) least = std::min(least, group.per_domain);
  return least;
}

PrecisionKind usual_precision(const Cluster& cluster, const Trainer& trainer) {
  const auto multiplies = [&](ComputeType type) {
    return std::all_of(cluster.groups.begin(), cluster.groups.end(), [&](const Group& group) {
      return peak(group.accelerator, type).has_value();
    });
  };
  for (const PrecisionKind kind : {PrecisionKind::Bf16, PrecisionKind::Fp16}) {
    if (multiplies(compute_type(kind)) && find_kind(trainer.precisions, kind) != nullptr) {
      return kind;
    }
  }
  return PrecisionKind::Fp32;
}

}  // namespace trainwright
