#include "trainwright/base/digits.h"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

namespace trainwright {
namespace {

TEST_CASE("numbers that differ in the sixteenth digit are one number of nine digits") {
  const double step = 2.6349871234567;
  for (const double other : {std::nextafter(step, 0), std::nextafter(step, 10)}) {
    CHECK(other != step);
    CHECK(in_nine_digits(other) == in_nine_digits(step));
    CHECK(in_nine_decimal_digits(other) == in_nine_decimal_digits(step));
  }
  CHECK(in_nine_decimal_digits(step) == 2.63498712);
  CHECK(in_nine_decimal_digits(1234567891234.0) == 1234567890000.0);
}

TEST_CASE("what has nine digits stays, and so does what is no number") {
  for (const double number : {0.0, 1.0, -2.5, 0.1, 12345678.9, 1e-300, 1e300}) {
    CHECK(in_nine_decimal_digits(number) == number);
    // Half a unit of 30 bits, 2^-31, of a mantissa of at least 1/2: 9.4e-10 of it.
    CHECK(std::abs(in_nine_digits(number) - number) <= std::abs(number) * 9.4e-10);
    CHECK(in_nine_digits(in_nine_digits(number)) == in_nine_digits(number));
  }
  const double endless = std::numeric_limits<double>::infinity();
  CHECK(in_nine_digits(endless) == endless);
  CHECK(in_nine_decimal_digits(-endless) == -endless);
}

TEST_CASE("rounding to nine digits keeps the order") {
  double last = 0;
  for (double number = 1; number < 1 + 1e-7; number += 1.3e-11) {
    CHECK(in_nine_digits(number) >= last);
    last = in_nine_digits(number);
  }
}

}  // namespace
}  // namespace trainwright
