#pragma once
// Public: what ranks hold over time, drawn. The Timeline needs Detail::Full.
#include <optional>
#include <string>

#include "trainwright/schedule/schedule.h"

namespace trainwright {

// As files.h has it, with the memory of each rank as a curve under the cap.
std::string to_svg(const Schedule& schedule, const Timeline& timeline, const Costs& costs,
                   Bytes cap);
// One line per rank over the same time as to_drawing's, in blocks up to the cap or the highest
// peak.
std::string to_memory_drawing(const Timeline& timeline, const Costs& costs, int width = 80,
                              std::optional<Bytes> cap = {});

}  // namespace trainwright
