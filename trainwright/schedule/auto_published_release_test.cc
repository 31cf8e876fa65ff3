#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "trainwright/base/text.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/testing/published_table.h"

namespace trainwright {
namespace {

#ifdef NDEBUG
constexpr int kMostRanks = 64;
#else
constexpr int kMostRanks = 16;  // enough for the slower build with sanitisers
#endif

double number(const std::string& cell) { return parse_number(cell).value_or(-1); }
int integer(const std::string& cell) { return static_cast<int>(number(cell)); }

// A line of the table in docs/schedules.md.
struct Compared {
  int rows = 0, not_longer = 0;
  double makespans = 0, gaps = 0, largest_gap = 0;  // makespans as parts of theirs
};

// Made by the schedulers of sail-sg/zero-bubble-pipeline-parallelism. The cap is their own peak;
// the stages are placed as theirs. One row has no figures. All at the default budget.
TEST_CASE("auto is not longer than the published schedulers on any row at their memory") {
  std::map<std::string, Compared> kinds;
  int compared = 0;
  for (const auto& cells : testing::published_table("sailsg_reference_schedules.csv")) {
    if (cells.size() < 13 || number(cells[8]) < 0 || integer(cells[1]) > kMostRanks) continue;
    const std::string kind = cells[0].substr(0, cells[0].find(':'));
    const int ranks = integer(cells[1]), microbatches = integer(cells[2]);
    const int chunks = integer(cells[12]);
    const Seconds reference(number(cells[8]));
    const Bytes cap(std::llround(number(cells[10]) * chunks));
    const Costs costs =
        even_costs(ranks * chunks, Seconds(number(cells[3])), Seconds(number(cells[4])),
                   Seconds(number(cells[5])), Seconds(number(cells[6])));
    const StagePlacement style = kind == "vpp2" ? StagePlacement::Loop : StagePlacement::V;
    const auto best = make_auto(
        ranks, microbatches, costs,
        {.chunks = chunks, .placements = {style}, .cap = {cap}, .good_enough = reference});
    REQUIRE(best);
    REQUIRE(best->schedule);
    CAPTURE(cells[0]);
    CAPTURE(ranks);
    CAPTURE(microbatches);
    CHECK(best->timeline.makespan <= reference);
    CHECK(best->timeline.makespan >= best->lower_bound * (1 - 1e-12));
    CHECK(peak(best->timeline) <= cap);
    Compared& of = kinds[kind];
    ++of.rows;
    of.not_longer += best->timeline.makespan <= reference;
    of.makespans += best->timeline.makespan / reference;
    of.gaps += gap(*best);
    of.largest_gap = std::max(of.largest_gap, gap(*best));
    ++compared;
  }
  for (const auto& [kind, of] : kinds) {
    MESSAGE(fmt::format("| {} | {} | {} | {:.1f} % | {:.1f} % | {:.1f} % |", kind, of.rows,
                        of.not_longer, 100 * (of.makespans / of.rows - 1), 100 * of.gaps / of.rows,
                        100 * of.largest_gap));
  }
  if (compared > 0) CHECK(compared == (kMostRanks == 64 ? 332 : 216));
}

// Made by Paddle's VScheduleCreator. It adds the loss to F, B and W of the last stage, starts one
// transfer late, and counts F +2, B -1, W -1.
TEST_CASE("auto is not longer than Paddle's zero-bubble pass at its memory") {
  int compared = 0;
  for (const auto& cells : testing::published_table("paddle_zbv_reference_runs.csv")) {
    if (cells.size() < 9 || number(cells[5]) < 0) continue;  // FAIL
    const auto times = split(cells[0], '/');
    REQUIRE(times.size() == 5);
    const auto time = [&](std::size_t i) { return Seconds(number(std::string(times[i]))); };
    const int ranks = integer(cells[1]), microbatches = integer(cells[2]);
    const int chunks = integer(cells[3]);
    Costs costs = even_costs(ranks * chunks, time(0), time(1), time(2), time(4));
    for (StageCosts& stage : costs.stages) {
      stage.kept = Bytes(2);
      stage.released_by_input = Bytes(1);
    }
    StageCosts& last = costs.stages.back();
    last.forward += time(3);
    last.backward_input += time(3);
    last.backward_weight += time(3);
    last.backward += time(3) + time(3);
    const Seconds reference(number(cells[5]));
    const Bytes cap(integer(cells[8]));
    const auto best = make_auto(ranks, microbatches, costs,
                                {.chunks = chunks, .cap = {cap}, .good_enough = reference});
    REQUIRE(best);
    REQUIRE(best->schedule);
    CAPTURE(cells[0]);
    CAPTURE(ranks);
    CAPTURE(microbatches);
    CHECK(best->timeline.makespan <= reference);
    CHECK(peak(best->timeline) <= cap);
    ++compared;
  }
  if (compared > 0) CHECK(compared == 76);
}

}  // namespace
}  // namespace trainwright
