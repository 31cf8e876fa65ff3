#include "trainwright/base/units.h"

#include <doctest/doctest.h>

#include <type_traits>

#include "trainwright/base/check.h"
#include "trainwright/base/ids.h"

namespace trainwright {
namespace {
using namespace literals;

template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };
template <class A, class B>
concept Multipliable = requires(A a, B b) { a* b; };

TEST_CASE("only quantities of one kind add, and only meaningful products exist") {
  static_assert(Addable<Bytes, Bytes>);
  static_assert(!Addable<Bytes, Seconds>);
  static_assert(!Addable<Bytes, std::int64_t>);
  static_assert(!Addable<Flops, FlopsPerSecond>);
  static_assert(!Multipliable<Bytes, Bytes>);
  static_assert(!Multipliable<Bytes, BytesPerSecond>);
  static_assert(Multipliable<FlopsPerSecond, Seconds>);
  static_assert(!std::is_convertible_v<std::int64_t, Bytes>);
  static_assert(!std::is_convertible_v<RankId, StageId>);
  CHECK(3_KiB + 1_B == Bytes(3073));
}

TEST_CASE("bytes over a rate are seconds: 80 GB over 40 GB/s take 2 s") {
  CHECK(80_GB / 40_GBps == 2_s);
  CHECK(40_GBps * 2_s == 80_GB);
  CHECK(Flops(1e15) / 500_TFLOPS == 2_s);
}

TEST_CASE("the quotient of two quantities of one kind is a plain number") {
  CHECK(1_GiB / 4_GiB == doctest::Approx(0.25));
}

TEST_CASE("states of ten trillion parameters are counted exactly in 64 bits") {
  // 10^13 parameters x (2 + 4 + 12) bytes.
  CHECK((Bytes(10'000'000'000'000) * 18).value() == 180'000'000'000'000);
}

TEST_CASE("integer overflow is reported, it never wraps") {
  CHECK_THROWS_AS(Bytes(INT64_MAX) + 1_B, InternalError);
  CHECK_THROWS_AS(Bytes(INT64_MAX / 2) * 3, InternalError);
  CHECK_THROWS_AS(Bytes(INT64_MIN) - 1_B, InternalError);
}

TEST_CASE("whole FLOP counts are exact up to 2^53") {
  CHECK((Flops(0x1.0p53 - 1) + Flops(1)).value() == 0x1.0p53);
}

TEST_CASE("ceil_div rounds up") {
  CHECK(ceil_div(0, 4) == 0);
  CHECK(ceil_div(8, 4) == 2);
  CHECK(ceil_div(9, 4) == 3);
}

}  // namespace
}  // namespace trainwright
