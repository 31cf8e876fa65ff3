#pragma once
// Nine digits: what is compared and what is answered.
//
// Processors and libraries of mathematics differ in the last of the sixteen digits of a double, and
// a browser is one of them. What is decided by a comparison, or answered, is rounded first, so that
// they differ only where such a difference straddles the half of a ninth digit: once in millions.
#include "trainwright/base/units.h"

namespace trainwright {

// The nearest number of 30 bits, which are nine digits; exact arithmetic, so the same everywhere.
// Order stays: a <= b gives in_nine_digits(a) <= in_nine_digits(b).
double in_nine_digits(double number);
inline Seconds in_nine_digits(Seconds time) { return Seconds(in_nine_digits(time.value())); }

// The nearest number of nine decimal digits, as answers are written.
double in_nine_decimal_digits(double number);

}  // namespace trainwright
