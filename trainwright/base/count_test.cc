#include "trainwright/base/count.h"

#include <doctest/doctest.h>

namespace trainwright {
namespace {

TEST_CASE("k and m after a whole number count in powers of 1,024") {
  CHECK(parse_count("8") == 8);
  CHECK(parse_count("4k") == 4096);
  CHECK(parse_count("128K") == 131072);
  CHECK(parse_count("1m") == 1048576);
  CHECK(parse_count("-2k") == -2048);
}

TEST_CASE("digits that are not read are too many, whatever their sign and unit") {
  for (const char* text : {"99999999999999999999", "-99999999999999999999", "9007199254740993k"}) {
    CHECK(!parse_count(text));
    CHECK(count_fault(text) == "is too large");
  }
  for (const char* text : {"", "-", "k", "four", "4kk", "2.0", "1e3"}) {
    CHECK(count_fault(text) == "is not a whole number");
  }
}

TEST_CASE("what is not a whole number, or beyond 64 bits, is not read") {
  for (const char* text :
       {"", "k", "m", "4kk", "4.5k", "4 k", "four", "9007199254740992k", "-9007199254740993k"}) {
    CAPTURE(text);
    CHECK(!parse_count(text));
  }
}

}  // namespace
}  // namespace trainwright
