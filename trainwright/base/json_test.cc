#include "trainwright/base/json.h"

#include <doctest/doctest.h>

namespace trainwright {
namespace {

std::string where_of(const Result<Json>& result) {
  REQUIRE(!result);
  return result.error().diagnostics[0].where;
}

TEST_CASE("comments are allowed and every value knows its line") {
  const Json json =
      parse_json("{\n  // how many\n  \"nodes\": 4,\n  \"node\": {\n    \"gpus\": 8\n  }\n}",
                 "c.json")
          .value();
  CHECK(json.find("nodes")->integer == 4);
  CHECK(json.find("nodes")->line == 3);
  CHECK(json.find("node")->line == 4);
  CHECK(json.find("node")->find("gpus")->line == 5);
}

TEST_CASE("broken JSON is answered with line and column of the end of the offending token") {
  CHECK(where_of(parse_json("{\n  \"a\": 1\n  \"b\": 2\n}", "x.json")) == "x.json:3:5");
  CHECK(where_of(parse_json("", "x.json")) == "x.json");
  CHECK(where_of(parse_json("{\"a\": tru}", "x.json")).starts_with("x.json:1:"));
}

TEST_CASE("a repeated field is a fault") {
  const auto json = parse_json("{\"a\": 1, \"a\": 2}", "x.json");
  REQUIRE(!json);
  CHECK(json.error().diagnostics[0].what == "the field 'a' appears twice");
}

TEST_CASE("nesting is bounded, so that hostile input cannot exhaust the stack") {
  CHECK(!parse_json(std::string(100'000, '['), "x.json"));
  CHECK(parse_json(std::string(200, '[') + std::string(200, ']'), "x.json"));
}

TEST_CASE("whole numbers beyond 64 bits become plain numbers") {
  const Json json = parse_json("[9223372036854775807, 18446744073709551615]", "x").value();
  CHECK(json.items[0].integer == INT64_MAX);
  CHECK(json.items[1].kind == Json::Kind::Number);
}

TEST_CASE("a reader gathers all faults of an object, with places and the nearest name") {
  const Json json =
      parse_json("{\n\"nodes\": \"four\",\n\"gpus\": 0,\n\"nmae\": \"x\"\n}", "c.json").value();
  Diagnostics faults;
  JsonFields fields(json, "c.json", "", faults);
  fields.integer("nodes");
  fields.integer("gpus", {.least = 1});
  fields.string("name");
  fields.finish();
  REQUIRE(faults.size() == 4);
  CHECK(faults[0] == Diagnostic{"c.json:2 /nodes", "expected a whole number, found a string", ""});
  CHECK(faults[1] == Diagnostic{"c.json:3 /gpus", "0 is out of range", "at least 1"});
  CHECK(faults[2].what == "the field 'name' is missing");
  CHECK(faults[2].hint == "did you mean 'nmae'?");
  CHECK(faults[3].what == "unknown field 'nmae'");
}

TEST_CASE("output keeps the order of the fields and puts plain arrays on one line") {
  Json json = Json::object();
  json.add("z", Json::of(1)).add("a", Json::array().push(Json::of(1.5)).push(Json::of("x")));
  CHECK(to_text(json) == "{\n  \"z\": 1,\n  \"a\": [1.5, \"x\"]\n}\n");
}

TEST_CASE("a missing file and a directory are told apart") {
  CHECK(read_file("/nonexistent").error().diagnostics[0].what == "no such file");
  CHECK(read_file("/tmp").error().diagnostics[0].what == "is a directory, not a file");
}

TEST_CASE("a file without an end is refused") {
  CHECK(read_file("/dev/zero").error().diagnostics[0].what == "is larger than 256 MiB");
  CHECK(read_file("/dev/null").value().empty());
}

}  // namespace
}  // namespace trainwright
