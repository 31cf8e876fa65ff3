#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/base/json.h"
#include "trainwright/base/text.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright {
namespace {

Diagnostic first_fault(const Result<Schedule>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error().diagnostics.front();
}

TEST_CASE("a CSV reads back to the schedule it was written from") {
  for (const KindFacts& facts : kinds()) {
    const int chunks = std::clamp(2, facts.chunks_least, facts.chunks_most);
    const Schedule schedule = *make(facts.kind, {3, 5, chunks});
    CHECK(*read_schedule_csv(to_csv(schedule), "s.csv") == schedule);
    const Schedule lowered =
        *lower(schedule, even_costs(3 * chunks, Seconds(1), Seconds(1), Seconds(1)));
    CHECK(*read_schedule_csv(to_csv(lowered), "s.csv") == lowered);
  }
}

TEST_CASE("a CSV has one row per rank and no trailing comma or blank line") {
  CHECK(to_csv(*make(ScheduleKind::OneFOneB, {2, 2, 1})) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST_CASE("bubbles, blanks and carriage returns in a CSV are skipped") {
  const auto schedule = read_schedule_csv("0F0, 0F1 ,,0B0,,0B1,\r\n,1F0,1B0,1F1,1B1\r\n", "s.csv");
  REQUIRE(schedule);
  CHECK(*schedule == *make(ScheduleKind::OneFOneB, {2, 2, 1}));
}

TEST_CASE("the old grammar is refused with a hint") {
  const Diagnostic fault = first_fault(read_schedule_csv("0F0,0BW0\n", "old.csv"));
  CHECK(fault.where == "old.csv:1 cell 2");
  CHECK(fault.hint.find("B") != std::string::npos);
  CHECK(fault.what.find("old grammar") != std::string::npos);
}

// PyTorch matches a prefix and ignores the rest.
TEST_CASE("rubbish after an action is refused") {
  CHECK(first_fault(read_schedule_csv("2F0xyz\n", "s.csv")).what == "'2F0xyz' is not an action");
}

TEST_CASE("every faulty cell is reported with its row and column") {
  const auto result = read_schedule_csv(
      "0F0,F1,0Q2\n0F,0REDUCE_GRAD3,\"0F1\"\n(0F1)OVERLAP_F_B,(0F1;0B0\n", "s.csv");
  REQUIRE_FALSE(result);
  std::vector<std::string> places;
  for (const Diagnostic& fault : result.error().diagnostics) places.push_back(fault.where);
  CHECK(places == std::vector<std::string>{"s.csv:1 cell 2", "s.csv:1 cell 3", "s.csv:2 cell 1",
                                           "s.csv:2 cell 2", "s.csv:2 cell 3", "s.csv:3 cell 1",
                                           "s.csv:3 cell 2"});
}

TEST_CASE("a blank line, an empty file, a stage on two ranks and a gap in the stages are refused") {
  CHECK(first_fault(read_schedule_csv("0F0,0B0\n\n1F0,1B0\n", "s.csv")).hint.find("blank") !=
        std::string::npos);
  CHECK(first_fault(read_schedule_csv("0F0,0B0\n,\n", "s.csv")).what == "a rank without actions");
  CHECK(first_fault(read_schedule_csv(" \n", "s.csv")).what == "the file has no actions");
  CHECK(first_fault(read_schedule_csv("0F0\n0B0\n", "s.csv")).hint == "a stage lies on one rank");
  CHECK(first_fault(read_schedule_csv("0F0,2F0\n", "s.csv")).what == "no row names stage 1");
}

TEST_CASE("ids beyond what a schedule can hold are refused") {
  CHECK(first_fault(read_schedule_csv("99999F0\n", "s.csv")).what.find("range") !=
        std::string::npos);
  CHECK(first_fault(read_schedule_csv("0F99999999\n", "s.csv")).what.find("range") !=
        std::string::npos);
  CHECK_FALSE(read_schedule_csv("0F99999999999999999999999\n", "s.csv"));
}

TEST_CASE("costs are read from one line for all stages") {
  const auto costs = parse_costs("F=1,I=2,W=3,comm=0.5,loss=4,kept=10,input=3,size=7", 3);
  REQUIRE(costs);
  CHECK(costs->stages.size() == 3);
  CHECK(costs->stages[2].backward == Seconds(5));
  CHECK(costs->stages[1].kept == Bytes(10));
  CHECK(costs->stages[1].released_by_input == Bytes(3));
  CHECK(costs->boundaries.size() == 2);
  CHECK(costs->boundaries[0].gradient == Seconds(0.5));
  CHECK(costs->boundaries[0].size == Bytes(7));
  CHECK(costs->loss == Seconds(4));
}

TEST_CASE("all faults of the costs are reported at once") {
  const auto costs = parse_costs("F=-1,I=x,V=2,comm=1,comm=2,overlap=3,kept=1.5", 2);
  REQUIRE_FALSE(costs);
  CHECK(costs.error().diagnostics.size() == 7);  // six of the list, and W is missing
}

TEST_CASE("costs by stage are read from JSON") {
  const auto costs = read_costs_json(
      R"({"F": [1, 2], "I": 1, "W": [3, 4], "B": [3.5, 4.5], "comm": [0.25], "kept": [100, 200]})",
      "c.json", 2);
  REQUIRE(costs);
  CHECK(costs->stages[1].forward == Seconds(2));
  CHECK(costs->stages[1].backward == Seconds(4.5));
  CHECK(costs->stages[0].kept == Bytes(100));
  CHECK(costs->boundaries[0].activation == Seconds(0.25));
  const auto wrong =
      read_costs_json(R"({"F": [1, 2, 3], "I": "a", "W": 1, "comms": 1})", "c.json", 2);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().diagnostics.size() >= 3);
  CHECK_FALSE(read_costs_json("[]", "c.json", 2));
}

TEST_CASE("costs that do not fit the stages or the clock are refused") {
  Costs costs = even_costs(2, Seconds(1), Seconds(1), Seconds(1));
  CHECK(check_costs(costs, 2, 8).empty());
  CHECK(check_costs(costs, 3, 8).size() == 1);
  costs.stages[0].forward = Seconds(-1);
  costs.stages[1].kept = Bytes(std::int64_t{1} << 61);
  CHECK(check_costs(costs, 2, 8).size() == 2);
}

Timeline timed(const Schedule& schedule) {
  const int stages = schedule.placement.stages();
  return simulate(schedule, even_costs(stages, Seconds(1), Seconds(1), Seconds(1), Seconds(0.5)),
                  {.detail = Detail::Full});
}

TEST_CASE("a trace has a slice per action and bubble and a memory counter per rank") {
  const Schedule schedule = *make(ScheduleKind::OneFOneB, {2, 2, 1});
  const Timeline timeline = timed(schedule);
  const auto trace = parse_json(to_trace(schedule, timeline), "trace.json");
  REQUIRE(trace);
  double busy = 0, idle = 0;
  int counters = 0;
  for (const Json& event : trace->find("traceEvents")->items) {
    const std::string& phase = event.find("ph")->string;
    if (phase == "C") ++counters;
    if (phase != "X") continue;
    (event.find("cat")->string == "bubble" ? idle : busy) += event.find("dur")->number;
  }
  // Two ranks, two micro-batches of 3 s; the rest of the step is bubbles. In microseconds.
  CHECK(busy == doctest::Approx(12e6));
  CHECK(busy + idle == doctest::Approx(2e6 * timeline.makespan.value()));
  // Rank 0 changes four times; on rank 1 the second F starts as the first B ends.
  CHECK(counters == 7);
}

TEST_CASE("a drawing keeps to its width and shows every rank") {
  for (const KindFacts& facts : kinds()) {
    const int chunks = std::clamp(2, facts.chunks_least, facts.chunks_most);
    const Schedule schedule = *make(facts.kind, {4, 8, chunks});
    const std::string drawing = to_drawing(schedule, timed(schedule), 80);
    const auto lines = split(drawing, '\n');
    for (const std::string_view line : lines) CHECK(line.size() <= 80);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      CHECK(lines[rank].starts_with(std::to_string(rank) + " |"));
    }
  }
}

// 3 s of 4 columns each: F takes one third of a micro-batch's F and B.
TEST_CASE("a drawing shows what runs when") {
  const Schedule schedule = *make(ScheduleKind::GPipe, {1, 2, 1});
  const Timeline timeline = simulate(schedule, even_costs(1, Seconds(1), Seconds(1), Seconds(1)),
                                     {.detail = Detail::Full});
  const std::string drawing = to_drawing(schedule, timeline, 2 + 3 + 5 + 24);
  CHECK(split(drawing, '\n')[0] == "0 |F0--F1--B0------B1------|100 %");
}

TEST_CASE("more ranks than lines are thinned out") {
  const Schedule schedule = *make(ScheduleKind::OneFOneB, {200, 4, 1});
  const std::string drawing = to_drawing(schedule, timed(schedule), 80);
  CHECK(drawing.find("every 4th of 200 ranks") != std::string::npos);
  CHECK(split(drawing, '\n').size() == 50 + 5);
}

TEST_CASE("an SVG has a rectangle for every action") {
  const Schedule schedule = *make(ScheduleKind::ZbV, {2, 3, 2});
  Costs costs = even_costs(4, Seconds(1), Seconds(1), Seconds(1));
  const std::string svg = to_svg(schedule, timed(schedule), costs);
  std::size_t titles = 0;
  for (std::size_t at = 0; (at = svg.find("<title>", at)) != std::string::npos; ++at) ++titles;
  CHECK(titles == 2 * 3 * 6);
  CHECK(svg.starts_with("<svg"));
  // Without sizes the memory is a count, with sizes it is bytes.
  CHECK(svg.find(" kept</text>") != std::string::npos);
  costs.stages[0].kept = Bytes(2);
  CHECK(to_svg(schedule, timed(schedule), costs).find(" B</text>") != std::string::npos);
}

}  // namespace
}  // namespace trainwright
