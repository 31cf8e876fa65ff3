// A published pair of runs. Bars of all sources: tests/rows/bars.py.
#include <doctest/doctest.h>

#include "trainwright/calibrate/calibrate.h"
#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/testing/skip.h"

namespace trainwright {
namespace {

// Llama-7B's shape with one layer on each of four RTX 3090: allocated under ZB-H1 less that under
// 1F1B, 316, 830, 1344 and 2791 MiB.
TEST_CASE("ZB-H1 adds to each of four cards what was measured, within 1 %") {
  if (!testing::shared_path("measurements")) return;
  auto runs = read_measured_runs(*testing::shared_path("measurements"));
  const auto known = load_knowledge(kShippedData);
  const auto constants = load_memory_constants(kShippedData);
  REQUIRE((runs && known && constants));
  std::erase_if(*runs, [](const MeasuredRun& run) { return run.source != "zbh1_3090"; });
  const ScoredRows scored = score_rows(cases_of(*runs, *known), *constants);
  std::vector<double> one, split, measured_one, measured_split;
  for (const ScoredRow& row : scored.rows) {
    if (row.kind != MemoryKind::Allocated) continue;
    const double bytes = predicted(row, scored, *constants, {}).bytes;
    CHECK(bytes == doctest::Approx(row.measured).epsilon(0.005));
    const bool zero_bubble = row.label.find("ZBH1") != std::string::npos;
    (zero_bubble ? split : one).push_back(bytes);
    (zero_bubble ? measured_split : measured_one).push_back(row.measured);
  }
  REQUIRE(one.size() == 4);
  REQUIRE(split.size() == 4);
  for (std::size_t card = 0; card < 4; ++card) {
    const double measured = measured_split[card] - measured_one[card];
    CAPTURE(card);
    CHECK(split[card] - one[card] == doctest::Approx(measured).epsilon(0.01));
  }
}

}  // namespace
}  // namespace trainwright
