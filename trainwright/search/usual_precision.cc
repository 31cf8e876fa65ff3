#include <algorithm>

#include "trainwright/search/search.h"

namespace trainwright {

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
