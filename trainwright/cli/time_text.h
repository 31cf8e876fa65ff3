#pragma once
// Private: a step time in words.
#include <string>

#include "trainwright/cli/command.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright::cli {

// "14.2 s a step (11.0 to 18.3), ...", then where it goes, largest part first.
std::string time_text(const StepTime& time);

extern const Argument kCalibrationArgument;  // --calibration FILE

}  // namespace trainwright::cli
