#pragma once
// Private to the module: the constants of memory, fitted to rows.
#include <map>
#include <string>
#include <vector>

#include "trainwright/calibrate/calibrate.h"

namespace trainwright::detail {

using Indices = std::vector<std::size_t>;  // of rows

// The constants that these rows tell, and their values. O(leads x evaluations x rows).
FittedConstants fitted_on(const ScoredRows& scored, const Indices& among,
                          const MemoryConstants& constants);

// The lead that the rows of each source tell by themselves.
using OwnLeads = std::map<std::string, std::size_t>;
OwnLeads own_leads(const ScoredRows& scored, const MemoryConstants& constants);
// The median of them, one source left out; of an even number the lower of the two in the middle.
FittedConstants agreed(const OwnLeads& own, const std::string& but);

}  // namespace trainwright::detail
