#pragma once
// Private: the pieces of the family table.
#include <vector>

#include "trainwright/model/family.h"

namespace trainwright::detail {

std::vector<Family> dense_families();
std::vector<Family> classic_families();
std::vector<Family> expert_families();
std::vector<Family> hybrid_families();
Family megatron_family();

}  // namespace trainwright::detail
