#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/base/json.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright {
namespace {

struct Proven {
  int ranks, microbatches;
  AutoOptions options;
  Costs costs;
  double makespan;
};

Proven read_instance(const Json& json, Diagnostics& faults) {
  JsonFields fields(json, "schedule_optima.json", "", faults);
  Proven proven;
  proven.ranks = static_cast<int>(fields.integer("ranks"));
  proven.microbatches = static_cast<int>(fields.integer("microbatches"));
  proven.options.chunks = static_cast<int>(fields.integer("chunks"));
  proven.options.placements = {fields.string("placement") == "v" ? StagePlacement::V
                                                                 : StagePlacement::Loop};
  if (const auto cap = fields.optional_integer("cap")) proven.options.cap = {Bytes(*cap)};
  const Seconds transfer(fields.number("transfer"));
  proven.makespan = fields.number("makespan");
  for (const Json& item : fields.array("stages")->items) {
    JsonFields stage(item, "schedule_optima.json", "/stages", faults);
    const Seconds input(stage.number("input")), weight(stage.number("weight"));
    proven.costs.stages.push_back({Seconds(stage.number("forward")), input, weight, input + weight,
                                   Bytes(stage.integer("kept")),
                                   Bytes(stage.integer("released_by_input"))});
  }
  proven.costs.boundaries.resize(proven.costs.stages.size() - 1, {transfer, transfer, Bytes(0)});
  return proven;
}

// tools/make/make_schedule_oracle.py made the instances; CP-SAT has proven each makespan shortest.
TEST_CASE("auto is optimal on 95 of 100 small pipelines and never 3 percent off") {
  const auto json =
      read_json_file(std::string(TRAINWRIGHT_SOURCE_DIR) + "/tests/oracle/schedule_optima.json");
  REQUIRE(json);
  REQUIRE(json->find("instances") != nullptr);
  const auto& instances = json->find("instances")->items;
  REQUIRE(instances.size() >= 200);
  Diagnostics faults;
  int optimal = 0;
  double worst = 0;
  for (const Json& item : instances) {
    Proven proven = read_instance(item, faults);
    REQUIRE(faults.empty());
    proven.options.good_enough = Seconds(proven.makespan);
    const auto best = make_auto(proven.ranks, proven.microbatches, proven.costs, proven.options);
    REQUIRE(best);
    REQUIRE(best->schedule);
    CHECK(best->lower_bound.value() <= proven.makespan);
    const double over = best->timeline.makespan.value() / proven.makespan - 1;
    CHECK(over >= 0);
    optimal += over == 0;
    worst = std::max(worst, over);
  }
  MESSAGE(optimal << " of " << instances.size() << " optimal, worst " << 100 * worst << " % off");
  CHECK(optimal * 100 >= 95 * static_cast<int>(instances.size()));
  CHECK(worst <= 0.03);
}

}  // namespace
}  // namespace trainwright
