#pragma once
// Private: a step time in words.
#include <string>
#include <string_view>

#include "trainwright/simulate/simulate.h"

namespace trainwright::cli {

// "14.2 s", "92.1 ms", "1,979 s": three digits, or those before the point.
std::string seconds_text(Seconds time);
std::string range_text(Seconds low, Seconds high);  // "2.56 to 4.01 s", "980 ms to 1.2 s"
std::string_view words_of(TimePart part);           // "GEMMs"
// The largest ways in which b's step differs: "pipeline bubble +120 ms, data parallel -28 ms".
std::string differences_text(const StepTime& a, const StepTime& b, std::size_t most = 3);
// "14.2 s/step (90 % interval 11.0 to 18.3 s), ...", then where it goes, largest part first.
std::string time_text(const StepTime& time, PrecisionKind precision);
// For a step of hours, which is seldom meant; empty for a shorter one.
std::string long_step_warning(const StepTime& time, int width);
// "41.2 %", "31.0 % of the fp8 peak".
std::string mfu_text(const StepTime& time, PrecisionKind precision);

}  // namespace trainwright::cli
