#include "trainwright/base/digits.h"

#include <fmt/format.h>

#include <cmath>

#include "trainwright/base/text.h"

namespace trainwright {

double in_nine_digits(double number) {
  constexpr int kBits = 30;
  int exponent = 0;
  const double mantissa = std::frexp(number, &exponent);
  return std::ldexp(std::round(std::ldexp(mantissa, kBits)), exponent - kBits);
}

double in_nine_decimal_digits(double number) {
  return parse_number(fmt::format("{:.9g}", number)).value_or(number);
}

}  // namespace trainwright
