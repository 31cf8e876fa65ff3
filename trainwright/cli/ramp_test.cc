#include "trainwright/cli/ramp.h"

#include <doctest/doctest.h>

namespace trainwright::cli {
namespace {

using Batches = std::vector<std::int64_t>;

TEST_CASE("a ramp of two batches doubles, and ends at the second whatever doubling meets") {
  CHECK(parse_ramp("256-1024") == Batches{256, 512, 1024});
  CHECK(parse_ramp("3072-15360") == Batches{3072, 6144, 12288, 15360});
  CHECK(parse_ramp("1k-2k") == Batches{1024, 2048});
}

TEST_CASE("a ramp of three numbers adds the second, as Megatron's --rampup-batch-size does") {
  CHECK(parse_ramp("256:256:1024") == Batches{256, 512, 768, 1024});
  CHECK(parse_ramp("100:400:1000") == Batches{100, 500, 900, 1000});
}

TEST_CASE("what does not grow, or has more than 64 stages, is no ramp") {
  for (const char* text : {"1024", "1024-256", "256-256", "0-8", "256:0:512", "8-16-32", "1:1:65",
                           "256:512", "a-b", "-", "4M-tokens"}) {
    CAPTURE(text);
    CHECK(!parse_ramp(text).has_value());
  }
  CHECK(parse_ramp("1:1:64")->size() == kMostStages);
}

}  // namespace
}  // namespace trainwright::cli
