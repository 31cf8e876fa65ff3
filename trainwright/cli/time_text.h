#pragma once
// Private: a step time in words.
#include <string>

#include "trainwright/simulate/simulate.h"

namespace trainwright::cli {

// "14.2 s a step (90 % interval 11.0 to 18.3 s), ...", then where it goes, largest part first.
std::string time_text(const StepTime& time);

}  // namespace trainwright::cli
