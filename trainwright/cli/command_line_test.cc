#include "trainwright/cli/command_line.h"

#include <doctest/doctest.h>

#include "trainwright/testing/shipped_trainers.h"

namespace trainwright::cli {
namespace {

Reply reply_to(std::vector<std::string> words) {
  static const DataDirectory data(kShippedData);
  return run_command_line(words, {.data = data});
}

// The "what" of every fault in a JSON reply.
std::vector<std::string> faults_in(const Reply& reply) {
  const auto json = parse_json(reply.output, "reply");
  REQUIRE(json.has_value());
  std::vector<std::string> faults;
  REQUIRE(json->find("error") != nullptr);
  for (const Json& fault : json->find("error")->items) faults.push_back(fault.find("what")->string);
  return faults;
}

TEST_CASE("help and version are answers, not faults") {
  const Reply help = reply_to({"estimate", "--help"});
  CHECK(help.exit == Exit::Ok);
  CHECK(help.output.find("--layout") != std::string::npos);
  CHECK(reply_to({"--version"}).output.starts_with("trainwright "));
}

TEST_CASE("with --json every fault of the words is JSON, and text for people all the same") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"list", "--json"}, "a command is needed"},
      {{"estimat", "--json"}, "unknown command 'estimat'"},
      {{"estimate", "llama-2-7b", "--on", "8xH100", "--json", "--latout", "tp=8"},
       "unknown option '--latout'"},
      {{"estimate", "llama-2-7b", "--on", "8xH100", "--json"}, "--layout is required"},
      {{"schedule", "make", "1f1b", "--ranks", "four", "--microbatches", "4", "--json"},
       "'four' is not a whole number"},
      {{"show", "model", "lama-2-7b", "--json"},
       "there is no model of this name and no such file"}};
  for (const auto& [words, fault] : cases) {
    const Reply reply = reply_to(words);
    CHECK(reply.exit == Exit::BadInput);
    REQUIRE(faults_in(reply).size() == 1);
    CHECK(faults_in(reply)[0] == fault);
    CHECK(reply.error.find(fault) != std::string::npos);
    std::vector<std::string> plain = words;
    std::erase(plain, "--json");
    CHECK(reply_to(plain).output.empty());
    CHECK(reply_to(plain).error == reply.error);
  }
}

TEST_CASE("all values that are no numbers are told at once") {
  const Reply reply = reply_to({"plan", "llama-2-7b", "--on", "8xH100", "--batch", "sixty", "--seq",
                                "4k", "--risk", "7x", "--price", "cheap", "--json"});
  CHECK(reply.exit == Exit::BadInput);
  CHECK(faults_in(reply).size() == 3);
}

TEST_CASE("plan --export writes the recommended layout as export does") {
  const Reply reply = reply_to({"plan", "llama-3.2-1b", "--on", "8xH100", "--batch", "64", "--seq",
                                "2k", "--trainer", "torchtitan", "--export", "/nonexistent/run"});
  REQUIRE(reply.exit == Exit::Ok);
  REQUIRE(reply.files.size() == 4);
  CHECK(reply.files[0].path == "/nonexistent/run/settings.sh");
  CHECK(reply.files[2].content.find("trainwright estimate llama-3.2-1b --on 8xH100") !=
        std::string::npos);
  CHECK(reply.output.find("/nonexistent/run/launch.sh") != std::string::npos);
}

TEST_CASE("plan --json names the question, and the larger cluster where nothing fits") {
  const Reply reply =
      reply_to({"plan", "llama-2-7b", "--on", "1xA100-40GB", "--batch", "8", "--seq", "2k",
                "--precision", "bf16", "--attention", "flash", "--risk", "0.01", "--json"});
  CHECK(reply.exit == Exit::DoesNotFit);
  const auto json = parse_json(reply.output, "reply");
  REQUIRE(json.has_value());
  const auto text = [&](const char* key) { return json->find(key)->string; };
  CHECK(text("model") == "llama-2-7b");
  CHECK(text("cluster") == "1xA100-SXM-40GB");
  CHECK(text("precision") == "bf16");
  CHECK(text("attention") == "flash");
  CHECK(text("end") == "nothing-fits");
  // 16 bytes for each of 6.74 B parameters, most of them sharded: several cards of 40 GB.
  REQUIRE(json->find("fits_on") != nullptr);
  CHECK(json->find("fits_on")->find("cluster")->string.ends_with("xA100-SXM-40GB"));
}

TEST_CASE("files are given to be written, and nothing is written by a command") {
  const Reply reply = reply_to({"schedule", "make", "1f1b", "--ranks", "2", "--microbatches", "2",
                                "--csv", "/nonexistent/a.csv", "--svg", "b.svg"});
  CHECK(reply.exit == Exit::Ok);
  REQUIRE(reply.files.size() == 2);
  CHECK(reply.files[0].path == "/nonexistent/a.csv");
  CHECK(reply.files[0].content == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(reply.files[1].content.starts_with("<svg"));
}

TEST_CASE("an option that is longer than any file's name is not taken for one") {
  const std::string costs = "F=" + std::string(10'000, '1');
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"schedule", "make", "1f1b", "--ranks", "2", "--microbatches", "2", "--costs", costs},
           {"schedule", "make", costs, "--ranks", "2", "--microbatches", "2"},
           {"show", "model", costs},
           {"replay", costs}}) {
    CHECK(reply_to(words).exit == Exit::BadInput);
  }
}

}  // namespace
}  // namespace trainwright::cli
