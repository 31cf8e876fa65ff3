#include "trainwright/cli/help.h"

#include <doctest/doctest.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/command_line.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/layout/keys.h"
#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright::cli {
namespace {

Reply reply_to(std::vector<std::string> words) {
  static const DataDirectory data(kShippedData);
  return run_command_line(words, {.data = data});
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Every key of an object and of what it holds.
void check_keys(const Json& json, const std::string& text) {
  for (const JsonMember& member : json.members) {
    CAPTURE(member.key);
    CHECK(holds(text, " " + member.key + " "));
    const bool described_elsewhere = member.key == "accelerator" || member.key == "sources";
    if (!described_elsewhere) check_keys(member.value, text);
  }
  for (const Json& item : json.items) check_keys(item, text);
}

TEST_CASE("help names every key that a layout and a job are read with") {
  const std::string layout = help_text("layout", 100), job = help_text("job", 100);
  for (const EntryKey& key : layout_keys()) CHECK(holds(layout, "  " + std::string(key.example)));
  for (const EntryKey& key : job_keys()) CHECK(holds(job, "  " + std::string(key.example)));
}

TEST_CASE("help names every key of a cluster file") {
  const auto hardware = load_hardware(kShippedData);
  REQUIRE(hardware.has_value());
  check_keys(to_json(*parse_cluster("64xH100+32xA100-80GB", *hardware)), help_text("cluster", 100));
}

TEST_CASE("help names every key of a trainer's file") {
  const std::string text = help_text("trainer", 100);
  for (const char* key : {"based_on", "kernels", "loss", "workspaces", "code", "gradients"}) {
    CHECK(holds(text, std::string("  ") + key + " "));
  }
  for (const CodeFact& fact : kCodeFacts) CHECK(holds(text, " " + std::string(fact.name) + " "));
}

TEST_CASE("no line of help is wider than asked for") {
  for (const std::string& topic : help_topics()) {
    for (const std::string_view line : split(help_text(topic, 80), '\n')) {
      CAPTURE(line);
      CHECK(line.size() <= 80);
    }
  }
}

TEST_CASE("nothing at all, help and --help are one answer") {
  const std::string help = reply_to({"--help"}).output;
  CHECK(reply_to({}).output == help);
  CHECK(reply_to({"help"}).output == help);
  CHECK(reply_to({}).exit == Exit::Ok);
}

TEST_CASE("help on a command is that command's") {
  CHECK(reply_to({"help", "estimate"}).output == reply_to({"estimate", "--help"}).output);
  CHECK(reply_to({"help", "show", "model"}).output == reply_to({"show", "model", "--help"}).output);
  CHECK(holds(reply_to({"estimate", "--help"}).output, help_text("layout", 80)));
}

TEST_CASE("help on a term is its definition in the glossary, by any of its names") {
  const Reply bubble = reply_to({"help", "bubble"});
  CHECK(bubble.output ==
        "Bubble, pipeline bubble: time in which a pipeline rank waits for others during\n"
        "warm-up and cool-down.\n");
  CHECK(reply_to({"help", "MFU"}).output == reply_to({"help", "hfu"}).output);
  CHECK(holds(reply_to({"help", "exposed", "communication"}).output, "no computation hides"));
  const Reply wrong = reply_to({"help", "bubbel"});
  CHECK(wrong.exit == Exit::BadInput);
  CHECK(holds(wrong.error, "bubble"));
}

}  // namespace
}  // namespace trainwright::cli
