#pragma once
// Private to the module: what was read of memory, by the rules of a source.
#include <span>
#include <vector>

#include "trainwright/measured/run.h"
#include "trainwright/measured/source.h"

namespace trainwright::detail {

std::vector<MemoryReading> readings_of(const MeasuredRun& row,
                                       std::span<const ReadingRule* const> rules);

}  // namespace trainwright::detail
