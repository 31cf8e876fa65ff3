#include "trainwright/measured/source.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "trainwright/measured/fill.h"
#include "trainwright/measured/measured.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

MeasuredRun run_of_eight() {
  MeasuredRun run;
  run.gpus = 8;
  run.vocab = 32000;
  run.precision = "bf16-mixed";
  run.notes = "family=gpt; swiglu=True";
  return run;
}

std::string text_of(std::string_view text, const MeasuredRun& run) {
  std::string missing;
  const std::string done = detail::filled(text, run, missing);
  return missing.empty() ? done : "missing " + missing;
}

TEST_CASE("texts are filled with columns, sums of them, and what stands in for empty ones") {
  const MeasuredRun run = run_of_eight();
  CHECK(text_of("{gpus}xH100", run) == "8xH100");
  CHECK(text_of("{vocab + 1}", run) == "32001");
  CHECK(text_of("{vocab - 1} {gpus * 4} {gpus / 3}", run) == "31999 32 2");
  CHECK(text_of("{layers|48}", run) == "48");
  CHECK(text_of("{kv_heads|gpus}", run) == "8");
  CHECK(text_of("{notes.family}", run) == "gpt");
  CHECK(text_of("{layers?}", run).empty());
  CHECK(text_of("{layers}", run) == "missing layers");
}

TEST_CASE("numbers and switches keep their kind, and optional fields are left out") {
  const auto json = parse_json(
      R"({"a": "{gpus}", "b": "{notes.swiglu}", "c": "{layers?}", "d": "x{gpus}"})", "t");
  REQUIRE(json.has_value());
  std::string missing;
  CHECK(to_line(detail::filled(*json, run_of_eight(), missing)) ==
        R"({"a": 8, "b": true, "d": "x8"})");
}

TEST_CASE("a condition is equal, begins, ends, holds, is not, is more or less") {
  const MeasuredRun run = run_of_eight();
  const auto holds = [&](std::vector<std::string> patterns, const char* column = "precision") {
    SourceRule rule;
    rule.when = {{column, std::move(patterns)}};
    return detail::holds(rule, run, Learned::Taken);
  };
  CHECK(holds({"bf16-mixed"}));
  CHECK(holds({"bf16*"}));
  CHECK(holds({"*mixed"}));
  CHECK(holds({"*16*"}));
  CHECK(holds({"fp8", "bf16*"}));
  CHECK_FALSE(holds({"bf16"}));
  CHECK(holds({"!bf16"}));
  CHECK(holds({">7"}, "gpus"));
  CHECK_FALSE(holds({"<8"}, "gpus"));
  CHECK(holds({""}, "layers"));
  CHECK_FALSE(holds({"!"}, "layers"));
}

TEST_CASE("later rules add to lists and take the place of values") {
  auto base = parse_json(R"({"on": ["a"], "kernels": {"x": true, "y": true}, "zero": 1})", "t");
  const auto top = parse_json(R"({"on": ["b"], "kernels": {"y": false}, "zero": 2})", "t");
  detail::lay_over(*base, *top);
  CHECK(to_line(*base) == R"({"on": ["a", "b"], "kernels": {"x": true, "y": false}, "zero": 2})");
}

TEST_CASE("faults of source files name the file, the rule and what is near") {
  const auto data = std::filesystem::temp_directory_path() / "trainwright_sources";
  std::filesystem::create_directories(data / "sources");
  std::ofstream(data / "sources" / "shapes.json") << "{}";
  std::ofstream(data / "sources" / "mine.json") << R"({"source": "mine", "rules": [
    {"when": {"layer": "4"}, "cut": "by hand", "readings": [{"kind": "reserve"}], "modle": {}},
    {"model": {"shape": "round"}}]})";
  const auto sources = load_sources(data.string());
  REQUIRE_FALSE(sources.has_value());
  const std::string text = to_text(sources.error());
  for (const char* part : {"no column 'layer'", "'by hand' is not known", "'reserve' is not known",
                           "/rules/0/modle", "no shape 'round'"}) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("a rule that names a shape takes the place of the model before it") {
  const auto data = std::filesystem::temp_directory_path() / "trainwright_shapes";
  std::filesystem::create_directories(data / "sources");
  std::ofstream(data / "sources" / "shapes.json") << R"({"round": {"sides": 1}})";
  std::ofstream(data / "sources" / "mine.json") << R"({"source": "mine", "rules": [
    {"model": {"corners": 4}}, {"model": {"shape": "round", "corners": 0}}]})";
  const auto sources = load_sources(data.string());
  REQUIRE_MESSAGE(sources.has_value(), to_text(sources.error()));
  const std::vector<SourceRule>& rules = sources->at("mine").rules;
  CHECK_FALSE(rules[0].fresh_model);
  CHECK(rules[1].fresh_model);
  CHECK(to_line(rules[1].model) == R"({"sides": 1, "corners": 0})");
}

TEST_CASE("every source that ships is read with and without what was learned") {
  const auto sources = load_sources(kShippedData);
  REQUIRE_MESSAGE(sources.has_value(), to_text(sources.error()));
  CHECK(sources->size() == 21);
  for (const auto& [name, source] : *sources) {
    CAPTURE(name);
    CHECK_FALSE(source.rules.empty());
  }
}

const std::string kOwn =
    "model,on,trainer,layout,kind,measured,outcome\n"
    "llama-2-7b,8xA100-80GB,megatron@0.12,\"tp=2,pp=4,mbs=1,gbs=64,seq=4096\",reserved,41.2 GiB,\n"
    "llama-2-7b,8xA100-80GB,,\"tp=1,pp=1,mbs=8,gbs=64,seq=4096\",,,oom\n";

TEST_CASE("a table of one's own holds the words of estimate and what was measured") {
  const auto runs = parse_measured_runs(kOwn, "mine.csv");
  REQUIRE_MESSAGE(runs.has_value(), to_text(runs.error()));
  const auto knowledge = load_knowledge(kShippedData);
  REQUIRE(knowledge.has_value());
  const Cases cases = cases_of(*runs, *knowledge);
  REQUIRE(cases.cases.size() == 2);
  const Case& first = cases.cases[0];
  CHECK(first.source == "mine.csv");
  CHECK(first.label == "mine.csv:2");
  CHECK(first.layout.dp == 1);
  CHECK(cases.trainer_of(first).version == Version{0, 12, 0});
  REQUIRE(first.memory.size() == 1);
  CHECK(first.memory[0].kind == MemoryKind::Reserved);
  CHECK(first.memory[0].at == ReadAt::WorstRank);
  CHECK(first.memory[0].size.value() == 44238163149);  // 41.2 x 2^30, rounded
  CHECK(cases.cases[1].outcome == Outcome::Oom);
  CHECK(cases.cases[1].memory.empty());
  CHECK(cases.cases[1].layout.dp == 8);
}

TEST_CASE("faults in a table of one's own come with line and column, all at once") {
  const auto runs = parse_measured_runs(
      "model,on,layout,kind,measured,outcome\nm,1xH100,mbs=1,peak,much,ran\n", "mine.csv");
  REQUIRE_FALSE(runs.has_value());
  CHECK(runs.error().diagnostics.size() == 3);
  CHECK(runs.error().diagnostics[0].where == "mine.csv:2 kind");
}

TEST_CASE("a row of one's own that cannot be asked says why") {
  const auto runs =
      parse_measured_runs("model,on,layout,measured\nlama-2-7b,1xH100,mbs=1,1 GiB\n", "mine.csv");
  REQUIRE(runs.has_value());
  const Cases cases = cases_of(*runs, *load_knowledge(kShippedData));
  REQUIRE(cases.skipped.size() == 1);
  CHECK(cases.skipped[0].reason.find("no such model") != std::string::npos);
}

}  // namespace
}  // namespace trainwright
