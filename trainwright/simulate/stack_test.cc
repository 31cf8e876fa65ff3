#include "trainwright/simulate/stack.h"

#include <doctest/doctest.h>

#include "trainwright/simulate/simulate.h"

namespace trainwright {
namespace {

const std::string kData = TRAINWRIGHT_SOURCE_DIR "/data";

TEST_CASE(
    "an interval widens with what is not timed alone, with experts, adapters, nodes and other "
    "vendors") {
  const WidthRule rule{
      .least = 0.3, .rest = 1, .nodes = 0.1, .experts = 1.5, .adapters = 2, .untaught = 3};
  const auto near = [](double value) { return doctest::Approx(value); };
  CHECK(width_of(rule, {}, 0) == near(0.3));
  CHECK(width_of(rule, {}, 0.2) == near(0.5));
  CHECK(width_of(rule, {.nodes = 8}, 0.2) == near(0.65));   // 0.5 x (1 + 0.1 x 3)
  CHECK(width_of(rule, {.nodes = 0.5}, 0.2) == near(0.5));  // a part of a node is one
  CHECK(width_of(rule, {.experts = true}, 0.2) == near(0.75));
  CHECK(width_of(rule, {.adapters = true}, 0.2) == near(1.0));
  CHECK(width_of(rule, {.untaught = true}, 0.2) == near(1.5));
  CHECK(width_of({}, {.nodes = 64, .experts = true}, 0.9) == near(1));  // without a rule
}

TEST_CASE("stacks are read as they are written") {
  const Stacks shipped = *load_stacks(kData);
  const Stacks again = *read_stacks(to_json(shipped), "again");
  REQUIRE(again.list.size() == shipped.list.size());
  for (std::size_t i = 0; i < again.list.size(); ++i) {
    CHECK(again.list[i].constants == shipped.list[i].constants);
  }
  CHECK(shipped.list.back().trainers.empty());
  CHECK(again.width == shipped.width);
  CHECK(again.list.front().constants.width == shipped.width);
}

TEST_CASE("a calibration without a rule of widths has one width for all, a wrong rule is a fault") {
  Json json = to_json(*load_stacks(kData));
  REQUIRE(json.members.back().key == "width");
  Json& least = json.members.back().value.members.front().value;
  least = Json::of(-1.0);
  const auto wrong = read_stacks(json, "mine.json");
  REQUIRE(!wrong.has_value());
  CHECK(wrong.error().diagnostics.front().where.find("/width/least") != std::string::npos);
  json.members.pop_back();
  CHECK(read_stacks(json, "mine.json")->width == WidthRule{});
}

TEST_CASE("a constant out of its bounds, and a stack for nobody, are faults with their place") {
  Json json = to_json(*load_stacks(kData));
  REQUIRE(json.members.front().key == "shared");
  for (JsonMember& constant : json.members.front().value.members) {
    if (constant.key == "products") constant.value = Json::of(30.0);
  }
  const auto read = read_stacks(json, "mine.json");
  REQUIRE(!read.has_value());
  CHECK(read.error().diagnostics.front().where.find("products") != std::string::npos);
}

}  // namespace
}  // namespace trainwright
