// JSON, and what is read from it: models, clusters, trainers, costs, constants.
#include "shapes.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/layout/layout.h"
#include "trainwright/measured/case.h"
#include "trainwright/model/model.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/simulate/stack.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright::growth {
namespace {

template <class Read>
bool read_as(const std::string& text, Read read) {
  const auto json = parse_json(text, "x");
  return json && read(*json).has_value();
}

bool json(const std::string& text) { return parse_json(text, "x").has_value(); }
bool model(const std::string& text) {
  return parse_model(text, "x", TRAINWRIGHT_DATA_DIR).has_value();
}
bool cluster(const std::string& text) {
  return read_as(text, [](const Json& read) { return read_cluster(read, "x", Hardware{}); });
}
bool accelerator(const std::string& text) {
  return read_as(text, [](const Json& read) { return read_accelerator(read, "x"); });
}
bool trainer(const std::string& text) {
  const TrainerFile files[] = {{"x.json", text}};
  return read_trainers(files).has_value();
}
bool rules(const std::string& text) {
  const TrainerFile files[] = {{"rules.json", text}};
  return read_trainers(files).has_value();
}
bool layout_json(const std::string& text) {
  return read_as(text, [](const Json& read) { return read_layout(read, "x"); });
}
bool job_json(const std::string& text) {
  return read_as(text, [](const Json& read) { return read_job(read, "x"); });
}
bool costs(const std::string& text) { return read_costs_json(text, "x", 4).has_value(); }
bool stacks(const std::string& text) {
  return read_as(text, [](const Json& read) { return read_stacks(read, "x"); });
}

// What every reader of an object may find in it.
std::vector<Shape> with_objects(std::vector<Shape> own) {
  const std::vector<Shape> every = {
      {"unknown fields", "{", R"("k@": 0,)", R"("last": 0})"},
      {"one key again and again", "{", R"("k": 0,)", "\"k\": 0}"},
      {"one huge key", "{\"", "k", "\": 0}"},
      {"deep objects", "", R"({"config": )", "0", "}"},
      {"a huge key that holds many", "{\"" + std::string(5'000, 'k') + "\": {", R"("k@": 0,)",
       R"("last": 0}})"},
  };
  own.insert(own.end(), every.begin(), every.end());
  return own;
}

}  // namespace

std::vector<Reader> json_readers() {
  const std::string llama =
      R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100, )"
      R"("num_attention_heads": 4, "intermediate_size": 128, )";
  return {
      {.name = "json",
       .read = json,
       .shapes = with_objects({{"open brackets", "", "["},
                               {"brackets that close", "", "[", "", "]"},
                               {"small values", "[", "0,", "0]"},
                               {"small strings", "[", "\"aaaaaaaa\",", "\"\"]"},
                               {"small objects", "[", R"({"a": {}, "b": []},)", "0]"},
                               {"line breaks", "[", "\n", "0]"},
                               {"comments", "[", "/* // */ ", "0]"},
                               {"one string", "\"", "a", "\""},
                               {"escapes", "\"", "\\u00e9\\\"", "\""},
                               {"one number", "", "1"},
                               {"numbers without end", "[", "Infinity,", "0]"},
                               {"quotes", "", "\""}})},
      {.name = "model",
       .read = model,
       .shapes = with_objects(
           {{"fields of no model", llama, R"("unknown_@": 1,)", R"("last": 1})"},
            {"fields of a family that is unknown", R"({"model_type": "x", )", R"("k@": 1,)",
             R"("last": 1})"},
            {"kinds of layers", llama + R"("layer_types": [)", "\"full_attention\",", "\"\"]}"},
            {"fields of a long name", llama, R"("unknown_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_@": 1,)",
             R"("last": 1})"},
            {"ignored fields", llama + "\"id2label\": {", R"("@": "a",)", R"("a": 0}})"}})},
      {.name = "cluster",
       .read = cluster,
       .shapes =
           with_objects({{"groups", R"({"name": "x", "groups": [)", "{},", "{}]}"},
                         {"tiers", R"({"name": "x", "groups": [{"accelerator": "a", "tiers": [)",
                          R"({"name": "n@", "domain": 8},)", "{}]}]}"},
                         {"sources", R"({"name": "x", "groups": [], "sources": {)", R"("k@": "s",)",
                          R"("a": ""}})"}})},
      {.name = "accelerator",
       .read = accelerator,
       .shapes = with_objects({{"aliases", R"({"name": "x", "aliases": [)", "\"a@\",", "\"\"]}"},
                               {"tiers", R"({"name": "x", "scale_up": [)", "{},", "{}]}"}})},
      {.name = "trainer",
       .read = trainer,
       .shapes = with_objects(
           {{"rules", R"({"name": "x", "rules": [)", R"({"id": "r@", "require": "tp > 1"},)",
             "{}]}"},
            {"versions of rules", R"({"name": "x", "rules": [)",
             R"({"id": "r", "versions": {"from": "0.@"}, "when": "tp > 1", "require": "pp == 1"},)",
             "{}]}"},
            {"aliases", R"({"name": "x", "aliases": [)", "\"a@\",", "\"\"]}"},
            {"precisions", R"({"name": "x", "precisions": {)", R"("p@": {},)", "\"q\": {}}}"},
            {"settings", R"({"name": "x", "settings": {)", R"("p@": "s@",)", "\"q\": \"\"}}"},
            {"one expression", R"({"name": "x", "rules": [{"id": "r", "require": ")", "(",
             "\"}]}"}})},
      {.name = "rules of all trainers",
       .read = rules,
       .shapes = with_objects({{"rules", R"({"rules": [)",
                                R"({"id": "r@", "require": "tp > 1", "reason": "@"},)", "{}]}"}})},
      {.name = "layout as json",
       .read = layout_json,
       .shapes = with_objects({{"stages", R"({"pp": 4, "layers": [)", "1,", "1]}"},
                               {"switches", R"({"on": [)", "\"a@\",", "\"\"]}"}})},
      {.name = "job as json", .read = job_json, .shapes = with_objects({})},
      {.name = "costs of a schedule",
       .read = costs,
       .shapes = with_objects({{"stages", R"({"forward": [)", "1,", "1]}"}})},
      {.name = "stacks of constants",
       .read = stacks,
       .shapes = with_objects({{"stacks", R"({"stacks": {)", R"("s@": {},)", R"("a": {}}})"},
                               {"a list", R"({"stacks": [)", R"({"name": "s@"},)", "{}]}"}})},
  };
}

}  // namespace trainwright::growth
