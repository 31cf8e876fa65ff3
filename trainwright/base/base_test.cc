#include <doctest/doctest.h>

#include <numeric>

#include "trainwright/base/check.h"
#include "trainwright/base/parallel.h"
#include "trainwright/base/random.h"
#include "trainwright/base/result.h"

namespace trainwright {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return fail("n", "is odd", "take an even number");
  return n / 2;
}
Result<int> quarter(int n) {
  const int first = TW_TRY(half(n));
  return half(first);
}

TEST_CASE("TW_TRY passes values on and returns errors unchanged") {
  CHECK(quarter(8).value() == 2);
  CHECK(quarter(6).error() == half(3).error());
  CHECK(to_text(quarter(6).error()) == "n: is odd\n  hint: take an even number");
}

TEST_CASE("a failed check throws with place, condition and message") {
  CHECK_THROWS_WITH_AS(TW_CHECK(1 > 2, "arithmetic"),
                       doctest::Contains("check failed: 1 > 2: arithmetic"), InternalError);
}

TEST_CASE("parallel results do not depend on the number of threads") {
  const auto square = [](std::size_t i) { return i * i; };
  const auto one = parallel_map(1000, Threads{1}, square);
  CHECK(one == parallel_map(1000, Threads{2}, square));
  CHECK(one == parallel_map(1000, Threads{}, square));
  CHECK(one[999] == 998001);
}

TEST_CASE("an exception inside a parallel loop reaches the caller") {
  const auto body = [](std::size_t i) { TW_CHECK(i != 500, "boom"); };
  CHECK_THROWS_AS(parallel_for(1000, Threads{2}, body), InternalError);
}

TEST_CASE("the generator is SplitMix64: published first outputs for seed 1234567") {
  // From the reference implementation's test values (Vigna, splitmix64.c; also Rosetta Code).
  Random random(1234567);
  CHECK(random.bits() == 6457827717110365317ULL);
  CHECK(random.bits() == 3203168211198807973ULL);
  CHECK(random.bits() == 9817491932198370423ULL);
}

TEST_CASE("random integers stay in their range and reals below one") {
  Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    const auto n = random.integer(-3, 3);
    REQUIRE(n >= -3);
    REQUIRE(n <= 3);
    const double x = random.real();
    REQUIRE(x >= 0);
    REQUIRE(x < 1);
  }
}

TEST_CASE("split streams differ from each other and repeat for the same seed") {
  const Random root(7);
  CHECK(root.split(0).bits() != root.split(1).bits());
  CHECK(root.split(3).bits() == Random(7).split(3).bits());
}

}  // namespace
}  // namespace trainwright
