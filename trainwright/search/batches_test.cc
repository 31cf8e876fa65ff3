#include "trainwright/search/batches.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/testing/search_cases.h"

namespace trainwright {
namespace {

using testing::Job8;

TEST_CASE("the odd part of a number is what no factor of two is left in") {
  CHECK(odd_part(1) == 1);
  CHECK(odd_part(64) == 1);
  CHECK(odd_part(56) == 7);
  CHECK(odd_part(1000) == 125);
}

TEST_CASE("a batch splits badly where it lacks an odd factor of the accelerators") {
  CHECK(splits_badly(512, 56));
  CHECK(splits_badly(1024, 1000));
  CHECK_FALSE(splits_badly(504, 56));
  CHECK_FALSE(splits_badly(512, 64));
  CHECK_FALSE(splits_badly(1536, 96));  // 3 divides it
}

TEST_CASE(
    "nearby batches are one below and one above, within a quarter, that the cluster divides") {
  const Job8 job("24xH100");  // odd part 3; of 64 sequences: 48 to 63 and 65 to 80
  const auto found = nearby_batches(job.question(64));
  REQUIRE(found.has_value());
  REQUIRE(found->size() == 2);
  CHECK(found->front().gbs < 64);
  CHECK(found->back().gbs > 64);
  for (const Nearby& other : *found) {
    CHECK(other.gbs % 3 == 0);
    CHECK(other.gbs >= 48);
    CHECK(other.gbs <= 80);
    CHECK(other.sized.plan.layout.gbs == other.gbs);
  }
}

TEST_CASE(
    "nearby sizes are whole nodes: fewer, and the next more whose odd part divides the batch") {
  const Job8 job("24xH100");
  const Hardware hardware = *load_hardware(Job8::kData);
  const ClusterOf sizes = [&](std::int64_t count) -> std::optional<Cluster> {
    return *parse_cluster(std::to_string(count) + "xH100", hardware);
  };
  const auto found = nearby_sizes(job.question(64), sizes);
  REQUIRE(found.has_value());
  REQUIRE(found->size() == 2);
  CHECK(accelerator_count(found->front().sized.cluster) == 16);  // 8 spares
  CHECK(accelerator_count(found->back().sized.cluster) == 32);
}

TEST_CASE("dp x mbs of every layout divides the batch and each smaller one of its ramp") {
  const Job8 job;
  SearchQuestion question = job.question(64);
  question.ramp = {24, 48};
  CHECK(shared_batch(question) == 8);
  const auto layouts = list_layouts(question);
  CHECK(!layouts.empty());
  for (const Layout& layout : layouts) {
    CHECK(24 % (layout.dp * layout.mbs) == 0);
    CHECK(48 % (layout.dp * layout.mbs) == 0);
  }
}

}  // namespace
}  // namespace trainwright
