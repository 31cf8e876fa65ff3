#include "trainwright/cli/time_text.h"

#include <doctest/doctest.h>

namespace trainwright::cli {
namespace {

TEST_CASE("seconds are told in three digits, long ones in whole seconds, and nothing as 0") {
  CHECK(seconds_text(Seconds(14.23)) == "14.2 s");
  CHECK(seconds_text(Seconds(0.0921)) == "92.1 ms");
  CHECK(seconds_text(Seconds(0.99951)) == "1 s");
  CHECK(seconds_text(Seconds(1978.64)) == "1,979 s");
  CHECK(seconds_text(Seconds(-3.06e-11)) == "0 ms");
  CHECK(seconds_text(Seconds(1e6)) == "1,000,000 s");
}

}  // namespace
}  // namespace trainwright::cli
