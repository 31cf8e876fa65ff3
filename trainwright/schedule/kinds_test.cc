#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright {
namespace {

std::string row(const std::vector<Action>& list) {
  std::vector<std::string> cells;
  for (const Action& action : list) cells.push_back(to_text(action));
  return join(cells, " ");
}

int default_chunks(const KindFacts& facts) {
  return std::clamp(2, facts.chunks_least, facts.chunks_most);
}

TEST_CASE("1f1b runs one more warm-up forward on every rank further from the last") {
  const auto schedule = make(ScheduleKind::OneFOneB, {3, 4, 1});
  REQUIRE(schedule);
  CHECK(row(schedule->ranks[0]) == "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  CHECK(row(schedule->ranks[1]) == "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3");
  CHECK(row(schedule->ranks[2]) == "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
}

// Megatron-LM with pipeline 2, 2 chunks, 4 micro-batches: rank 0 warms up with
// 2 (p - r - 1) + (v - 1) p = 4 forwards, rank 1 with 2.
TEST_CASE("interleaved 1f1b takes the micro-batches in groups of p") {
  const auto schedule = make(ScheduleKind::InterleavedOneFOneB, {2, 4, 2});
  REQUIRE(schedule);
  CHECK(row(schedule->ranks[0]) ==
        "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  CHECK(row(schedule->ranks[1]) ==
        "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
}

TEST_CASE("looped bfs runs the backwards in the reverse order of the forwards") {
  const auto schedule = make(ScheduleKind::LoopedBfs, {2, 2, 2});
  REQUIRE(schedule);
  CHECK(row(schedule->ranks[1]) == "1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0");
}

TEST_CASE("every kind makes schedules that pass the checker for any ranks and micro-batches") {
  for (const KindFacts& facts : kinds()) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (int microbatches = 1; microbatches <= 20; ++microbatches) {
        for (int chunks = facts.chunks_least; chunks <= std::min(facts.chunks_most, 4); ++chunks) {
          CAPTURE(facts.name);
          CAPTURE(ranks);
          CAPTURE(microbatches);
          CAPTURE(chunks);
          const auto schedule = make(facts.kind, {ranks, microbatches, chunks});
          REQUIRE(schedule);
          const auto violations = check(*schedule);
          if (!violations.empty()) FAIL(violations.front().why);
          // On one rank a loop and a V are the same.
          const auto style = ranks == 1 && chunks > 1 ? StagePlacement::Loop : facts.placement;
          CHECK(style_of(schedule->placement) == style);
        }
      }
    }
  }
}

TEST_CASE("interleaved kinds accept any group of at least p micro-batches") {
  for (const ScheduleKind kind :
       {ScheduleKind::InterleavedOneFOneB, ScheduleKind::InterleavedZeroBubble}) {
    for (int ranks = 1; ranks <= 6; ++ranks) {
      for (int microbatches = 1; microbatches <= 13; ++microbatches) {
        for (int group = std::min(ranks, microbatches); group <= microbatches; ++group) {
          for (int chunks = 2; chunks <= 4; ++chunks) {
            CAPTURE(ranks);
            CAPTURE(microbatches);
            CAPTURE(group);
            CAPTURE(chunks);
            const auto schedule = make(kind, {ranks, microbatches, chunks}, {group, 0, {}});
            REQUIRE(schedule);
            const auto violations = check(*schedule);
            if (!violations.empty()) FAIL_CHECK(violations.front().why);
          }
        }
      }
    }
  }
}

// Primus prints for p = 8, m = 32, F = B = W = 1000 per stage and free transfers, memory in stage
// activations: 1F1B 117000 (8), ZB-H1 103000 (8), interleaved with 2 chunks 106500 (11.5), ZB-V
// 99500 (8). Per chunk the costs are half, an activation counts half.
TEST_CASE("makespan and memory of the classic kinds are the published ones") {
  struct Row {
    ScheduleKind kind;
    int chunks;
    double makespan;
    std::int64_t peak;  // in chunk activations
  };
  for (const Row& row :
       {Row{ScheduleKind::OneFOneB, 1, 117000, 8}, Row{ScheduleKind::ZbH1, 1, 103000, 8},
        Row{ScheduleKind::InterleavedOneFOneB, 2, 106500, 23},
        Row{ScheduleKind::ZbV, 2, 99500, 16}}) {
    CAPTURE(facts_of(row.kind).name);
    const auto schedule = make(row.kind, {8, 32, row.chunks});
    REQUIRE(schedule);
    const Seconds time(1000.0 / row.chunks);
    const Timeline timeline = simulate(*schedule, even_costs(8 * row.chunks, time, time, time));
    CHECK(timeline.makespan.value() == row.makespan);
    CHECK(peak(timeline) == Bytes(row.peak));
  }
}

// ZB-H2 leaves no bubble inside a rank when F = I = W: a rank starts r late and is then busy to
// its end, so the makespan is 3m + p - 1, at 2p - 1 activations.
TEST_CASE("zb-h2 keeps every rank busy from its first action to its last") {
  const auto schedule = make(ScheduleKind::ZbH2, {6, 24, 1});
  REQUIRE(schedule);
  const Timeline timeline = simulate(*schedule, even_costs(6, Seconds(1), Seconds(1), Seconds(1)));
  CHECK(timeline.makespan == Seconds(3 * 24 + 5));
  for (const RankTotals& rank : timeline.ranks) CHECK(rank.steady == Seconds(0));
  CHECK(peak(timeline) == Bytes(11));
}

// Half and a third of 1f1b's p activations (2p chunk activations), plus a constant of the block.
TEST_CASE("v-half and v-min keep about a half and a third of what 1f1b keeps") {
  for (const int ranks : {4, 8, 16, 32}) {
    const Costs costs = even_costs(2 * ranks, Seconds(1), Seconds(1), Seconds(1));
    const auto half = make(ScheduleKind::VHalf, {ranks, 6 * ranks, 2});
    const auto third = make(ScheduleKind::VMin, {ranks, 6 * ranks, 2});
    REQUIRE(half);
    REQUIRE(third);
    CHECK(peak(simulate(*half, costs)) <= Bytes(ranks + 3));
    CHECK(peak(simulate(*third, costs)) <= Bytes((2 * ranks + 2) / 3 + 3));
  }
}

TEST_CASE("zb-vpp stays within its limit for any number of chunks") {
  for (const int chunks : {2, 3, 5}) {
    for (const int limit : {chunks, 2 * chunks, 4 * chunks, 8 * chunks}) {
      const auto schedule = make(ScheduleKind::ZbVpp, {4, 12, chunks}, {0, limit, {}});
      REQUIRE(schedule);
      CHECK(check(*schedule).empty());
      const Costs costs = even_costs(4 * chunks, Seconds(1), Seconds(1), Seconds(1));
      CHECK(peak(simulate(*schedule, costs)) <= Bytes(limit));
    }
  }
}

TEST_CASE("dualpipe-v overlaps a forward with a backward of another micro-batch") {
  const auto schedule = make(ScheduleKind::DualPipeV, {2, 4, 2});
  REQUIRE(schedule);
  CHECK(schedule->ranks[1][3].overlaps_next == false);
  int groups = 0;
  for (const Action& action : schedule->ranks[0]) groups += action.overlaps_next ? 1 : 0;
  CHECK(groups == 3);  // main step of 0 + 1 rounds of two, and one F1B0 after it
}

TEST_CASE("arguments out of range are refused together") {
  const auto schedule = make(ScheduleKind::OneFOneB, {0, 0, 2});
  REQUIRE_FALSE(schedule);
  CHECK(schedule.error().diagnostics.size() == 3);
  CHECK_FALSE(make(ScheduleKind::ZbV, {4, 8, 3}));
  CHECK_FALSE(make(ScheduleKind::InterleavedOneFOneB, {4, 8, 2}, {9, 0, {}}));
  CHECK_FALSE(make(ScheduleKind::InterleavedOneFOneB, {4, 8, 2}, {3, 0, {}}));
  CHECK_FALSE(make(ScheduleKind::ZbVpp, {4, 8, 3}, {0, 2, {}}));
  CHECK_FALSE(make(ScheduleKind::OneFOneB, {16384, 1 << 20, 1}));
}

TEST_CASE("a misspelt kind gets a suggestion") {
  const auto kind = parse_kind("zbw");
  REQUIRE_FALSE(kind);
  CHECK(kind.error().diagnostics.front().hint.find("zb-v") != std::string::npos);
  for (const KindFacts& facts : kinds()) CHECK(parse_kind(facts.name) == facts.kind);
}

TEST_CASE("a kind is taken by everybody's spelling and by the names that trainers give it") {
  for (const char* name : {"zbh1", "ZBH1", " ZB-H1 ", "zb_h1"})
    CHECK(parse_kind(name) == ScheduleKind::ZbH1);
  for (const char* name : {"zbvpp", "ZB-VPP"}) CHECK(parse_kind(name) == ScheduleKind::ZbVpp);
  for (const char* name : {"vpp", "VPP", "Interleaved1F1B"})
    CHECK(parse_kind(name) == ScheduleKind::InterleavedOneFOneB);
  for (const char* name : {"zbv", "ZBVZeroBubble"}) CHECK(parse_kind(name) == ScheduleKind::ZbV);
  CHECK(parse_kind("1F1B") == ScheduleKind::OneFOneB);
  CHECK(parse_kind("FThenB") == ScheduleKind::GPipe);
  CHECK(parse_kind("InterleavedZeroBubble") == ScheduleKind::InterleavedZeroBubble);
  CHECK_FALSE(
      parse_kind("DualPipe"));  // of two directions, which is another schedule than DualPipeV
  CHECK_FALSE(parse_kind(""));
}

TEST_CASE("the streamed clock answers what the clock answers on the lists") {
  for (const KindFacts& facts : kinds()) {
    const Shape shape{4, 10, default_chunks(facts)};
    const Costs costs =
        even_costs(shape.ranks * shape.chunks, Seconds(2), Seconds(3), Seconds(1), Seconds(1));
    const auto streamed = simulate_kind(facts.kind, shape, costs);
    REQUIRE(streamed.has_value() == streams(facts));
    if (!streams(facts)) continue;
    const Timeline listed = simulate(*make(facts.kind, shape), costs);
    CHECK(streamed->makespan == listed.makespan);
    CHECK(peak(*streamed) == peak(listed));
  }
}

}  // namespace
}  // namespace trainwright
