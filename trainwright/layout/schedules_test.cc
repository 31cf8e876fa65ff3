#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/layout/layout.h"
#include "trainwright/testing/layout_cases.h"

namespace trainwright {
namespace {

Layout pipelined(ScheduleKind kind, std::int64_t pp, std::int64_t vpp, std::int64_t group) {
  Layout layout;
  layout.pp = pp;
  layout.vpp = vpp;
  layout.gbs = 8;
  layout.schedule = kind;
  layout.placement = usual_placement(kind, vpp);
  layout.micro_batch_group = group;
  return layout;
}

bool is_about_schedules(const LayoutViolation& violation) {
  for (const char* id : {"chunks-need-a-pipeline", "pipeline-needs-a-schedule",
                         "one-stage-per-rank", "v-has-two-stages", "several-stages-per-rank",
                         "schedule-can-be-made", "schedule-placement"}) {
    if (violation.id == id) return true;
  }
  return false;
}

bool legal(const Layout& layout) {
  const auto found =
      violations(layout, {}, testing::gpt(), testing::h100s(layout.pp), testing::permissive());
  return std::none_of(found.begin(), found.end(), is_about_schedules);
}

bool can_be_made(const Layout& layout) {
  const Shape shape{static_cast<int>(layout.pp), static_cast<int>(micro_batch_count(layout)),
                    static_cast<int>(layout.vpp)};
  MakeOptions options;
  options.group = static_cast<int>(running_group(layout));
  return make(running_schedule(layout), shape, options).has_value();
}

TEST_CASE("a schedule is legal on so many ranks and chunks exactly where it can be made") {
  for (const KindFacts& facts : all_kinds()) {
    for (const std::int64_t pp : {1, 2, 3, 4, 8}) {
      for (const std::int64_t vpp : {1, 2, 3, 4, 8, 63, 64, 65, 130}) {
        for (const std::int64_t group : {0, 1, 2, 3, 4, 8, 9}) {
          const Layout layout = pipelined(facts.kind, pp, vpp, group);
          CAPTURE(facts.name);
          CAPTURE(pp);
          CAPTURE(vpp);
          CAPTURE(group);
          // A file's order is made by somebody else, for up to 64 chunks.
          const bool file = facts.order == OrderFrom::File && pp > 1;
          CHECK(legal(layout) == (file ? vpp <= 64 : can_be_made(layout)));
        }
      }
    }
  }
}

TEST_CASE("more ranks or stages than a schedule has are not legal") {
  // kMaxRanks is 16,384, kMaxStages 32,768.
  CHECK(legal(pipelined(ScheduleKind::OneFOneB, 16384, 1, 0)));
  CHECK_FALSE(legal(pipelined(ScheduleKind::OneFOneB, 16385, 1, 0)));
  CHECK(legal(pipelined(ScheduleKind::InterleavedOneFOneB, 8192, 4, 0)));
  CHECK_FALSE(legal(pipelined(ScheduleKind::InterleavedOneFOneB, 8192, 5, 0)));
}

TEST_CASE("the stages of a schedule lie where the schedule that is made has them") {
  for (const KindFacts& facts : kinds()) {
    const Layout layout = pipelined(facts.kind, 4, facts.chunks_least, 0);
    const auto made = make(facts.kind, {4, 8, facts.chunks_least});
    REQUIRE(made.has_value());
    for (std::int64_t stage = 0; stage < stage_count(layout); ++stage) {
      CHECK(made->placement.rank_of[static_cast<std::size_t>(stage)].index() ==
            stage_rank(layout, stage));
    }
  }
}

TEST_CASE("layouts differ in their pipeline alone if schedule, chunks and split are all") {
  const Layout layout = pipelined(ScheduleKind::OneFOneB, 4, 1, 0);
  Layout other = pipelined(ScheduleKind::InterleavedOneFOneB, 4, 2, 0);
  other.count_loss = 1;
  other.layers = {1, 2, 3, 4, 4, 3, 2, 1};
  CHECK(differ_in_pipeline_alone(layout, layout));
  CHECK(differ_in_pipeline_alone(layout, other));
  other.zero = 1;
  CHECK(!differ_in_pipeline_alone(layout, other));
  other = pipelined(ScheduleKind::OneFOneB, 8, 1, 0);
  CHECK(!differ_in_pipeline_alone(layout, other));
}

}  // namespace
}  // namespace trainwright
