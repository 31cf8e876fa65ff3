#include <doctest/doctest.h>

#include "trainwright/base/text.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/testing/published_table.h"

namespace trainwright {
namespace {

struct PublishedRow {
  std::string scheduler;
  int ranks, microbatches, chunks;
  double forward, input, weight, transfer, makespan, peak;
};

std::vector<PublishedRow> published_rows() {
  std::vector<PublishedRow> rows;
  for (const auto& cells : testing::published_table("sailsg_reference_schedules.csv")) {
    REQUIRE(cells.size() >= 13);
    const auto number = [&](std::size_t i) { return parse_number(cells[i]).value_or(-1); };
    rows.push_back({cells[0], static_cast<int>(number(1)), static_cast<int>(number(2)),
                    static_cast<int>(number(12)), number(3), number(4), number(5), number(6),
                    number(8), number(10)});
  }
  return rows;
}

// Produced by running the schedulers of sail-sg/zero-bubble-pipeline-parallelism. `c` delays every
// edge that crosses ranks, fused backward sends its gradient after I + W, memory counts one chunk
// from the start of F to the end of W; the file's peak is in stages.
TEST_CASE("1f1b and interleaved 1f1b reproduce the 60 published rows to the unit") {
  const std::vector<PublishedRow> rows = published_rows();
  if (rows.empty()) return;
  int compared = 0;
  for (const PublishedRow& row : rows) {
    if (row.scheduler != "1f1b" && row.scheduler != "vpp2") continue;
    const ScheduleKind kind =
        row.chunks == 1 ? ScheduleKind::OneFOneB : ScheduleKind::InterleavedOneFOneB;
    CAPTURE(row.scheduler);
    CAPTURE(row.ranks);
    CAPTURE(row.microbatches);
    const auto schedule = make(kind, {row.ranks, row.microbatches, row.chunks});
    REQUIRE(schedule);
    const Timeline timeline = simulate(
        *schedule, even_costs(row.ranks * row.chunks, Seconds(row.forward), Seconds(row.input),
                              Seconds(row.weight), Seconds(row.transfer)));
    CHECK(timeline.makespan.value() == doctest::Approx(row.makespan).epsilon(1e-12));
    CHECK(static_cast<double>(peak(timeline).value()) == row.peak * row.chunks);
    ++compared;
  }
  CHECK(compared == 60);
}

}  // namespace
}  // namespace trainwright
