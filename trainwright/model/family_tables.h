#pragma once
// Private: the pieces of the family table.
#include <span>
#include <vector>

#include "trainwright/model/family.h"

namespace trainwright::detail {

std::vector<Family> dense_families();
std::vector<Family> classic_families();
std::vector<Family> expert_families();
std::vector<Family> hybrid_families();
Family megatron_family();
// Those that are made after one of the others.
std::vector<Family> related_families(std::span<const Family> others);

}  // namespace trainwright::detail
