#include "trainwright/base/json.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "trainwright/testing/growth.h"

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

TEST_CASE("a field is found to be repeated in an object of any length, and its first value stays") {
  for (const int keys : {2, 15, 16, 17, 18, 100}) {
    std::string text = "{\"k0\": 0";
    for (int i = 1; i < keys; ++i) text += fmt::format(",\n\"k{}\": {}", i, i);
    const auto whole = parse_json(text + "}", "x.json");
    REQUIRE(whole.has_value());
    CHECK(whole->members.size() == static_cast<std::size_t>(keys));
    for (const int again : {0, keys - 1}) {
      const auto json = parse_json(text + fmt::format(",\n\"k{}\": [1, {{}}]}}", again), "x.json");
      REQUIRE(!json);
      REQUIRE(json.error().diagnostics.size() == 1);
      CHECK(json.error().diagnostics[0].where == fmt::format("x.json:{}", keys + 1));
      CHECK(json.error().diagnostics[0].what ==
            fmt::format("the field 'k{}' appears twice", again));
    }
  }
}

TEST_CASE("the work of reading grows as the text, also of one object with many keys") {
  const auto read = [](int keys) {
    std::string text = "{";
    for (int i = 0; i < keys; ++i) text += fmt::format("\"key{}\": {},\n", i, i);
    text += "\"last\": 0}";
    return [text = std::move(text), keys] {
      Diagnostics faults;
      const auto json = parse_json(text, "x.json");
      REQUIRE(static_cast<int>(json->members.size()) == keys + 1);
      JsonFields fields(*json, "x.json", "", faults);
      fields.integer("last");
      fields.finish();
      REQUIRE(faults.size() == kMostUnknown + 1);
    };
  };
  // Linear 4, quadratic 16.
  CHECK(testing::growth(read(2'000), read(8'000)) < 8);
}

TEST_CASE("of an object with more fields than any of ours has none is looked for") {
  std::string text = "{\n\"first\": 1";
  for (int i = 0; i < 10'000; ++i) text += fmt::format(",\"k{}\": 1", i);
  const Json json = parse_json(text + "}", "x.json").value();
  Diagnostics faults;
  JsonFields fields(json, "x.json", "/sources", faults);
  for (const JsonMember& member : json.members) (void)fields.optional_integer(member.key);
  fields.finish();
  REQUIRE(faults.size() == 1);
  CHECK(faults[0] == Diagnostic{"x.json:1 /sources", "has more than 10,000 fields", ""});
}

TEST_CASE("of many unknown fields the first are named and the others counted") {
  std::string text = "{\"a\": 1";
  for (int i = 0; i < 1500; ++i) text += fmt::format(", \"k{}\": 1", i);
  const Json json = parse_json(text + "}", "x.json").value();
  Diagnostics faults;
  JsonFields fields(json, "x.json", "", faults);
  fields.integer("a");
  fields.finish();
  REQUIRE(faults.size() == 21);
  CHECK(faults[19].what == "unknown field 'k19'");
  CHECK(faults[20] == Diagnostic{"x.json:1", "has 1,480 more unknown fields", ""});
}

TEST_CASE("a document that would take far more memory than its text is refused") {
  std::string text = "[";
  for (int i = 0; i < (1 << 20); ++i) text += "0,";
  const auto json = parse_json(text + "0]", "x.json");
  REQUIRE(!json);
  CHECK(json.error().diagnostics[0].what == "holds more than 1,048,576 values");
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

TEST_CASE("text that no file can be called is no file") {
  CHECK(!is_file(std::string(10'000, 'a')));
  CHECK(!is_file(""));
  CHECK(!is_file("/tmp"));
  CHECK(is_file("/dev/null"));
}

TEST_CASE("a file without an end is refused") {
  CHECK(read_file("/dev/zero").error().diagnostics[0].what == "is larger than 256 MiB");
  CHECK(read_file("/dev/null").value().empty());
}

}  // namespace
}  // namespace trainwright
