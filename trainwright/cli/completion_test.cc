#include "trainwright/cli/completion.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/cli/command_line.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright::cli {
namespace {

std::vector<std::string> after(std::vector<std::string> typed) {
  static const DataDirectory data(kShippedData);
  std::vector<std::string> words;
  for (const Candidate& one : next_words(typed, data)) words.push_back(one.word);
  return words;
}

bool offers(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void check_options(std::vector<std::string> path, const Command& command) {
  path.push_back(command.name);
  for (const Command& sub : command.commands) check_options(path, sub);
  path.emplace_back("--");
  const std::vector<std::string> offered = after(path);
  for (const Argument& argument : command.arguments) {
    CAPTURE(argument.name);
    if (argument.is_option()) CHECK(offers(offered, "--" + bare_name(argument.name)));
  }
  CHECK(offers(offered, "--json"));
}

TEST_CASE("every command and every option of it is offered") {
  const std::vector<std::string> first = after({""});
  for (const Command& command : all_commands()) {
    CHECK(offers(first, command.name));
    check_options({}, command);
  }
}

TEST_CASE("names are offered where they are read") {
  CHECK(after({"show", "mo"}) == std::vector<std::string>{"model"});
  CHECK(offers(after({"plan", "llama-3.1"}), "llama-3.1-405b"));
  CHECK(offers(after({"plan", "llama-3.1-8b", "--on", "64xH1"}), "64xH100-SXM"));
  CHECK(offers(after({"plan", "llama-3.1-8b", "--on", "32x8xA100"}), "32x8xA100-SXM-80GB"));
  CHECK(offers(after({"plan", "llama-3.1-8b", "--on=64xH1"}), "--on=64xH100-SXM"));
  CHECK(offers(after({"plan", "llama-3.1-8b", "--on", "=", "64xH1"}), "64xH100-SXM"));
  CHECK(offers(after({"plan", "--json", "llama-3.1-8b", "--trainer", "="}), "torchtitan"));
  CHECK(offers(after({"schedule", "draw", "zb"}), "zb-v"));
  CHECK(after({"schedule", "draw", "1f1b", "--links", ""}) ==
        std::vector<std::string>{"unlimited", "serialised"});
  CHECK(offers(after({"help", "la"}), "layout"));
  CHECK(offers(after({"show", "model", "gpt3-175b", "llama-2-"}), "llama-2-7b"));
}

TEST_CASE("nothing is offered where a path or a number is wanted") {
  CHECK(after({"report", ""}).empty());
  CHECK(after({"plan", "llama-3.1-8b", "--batch", ""}).empty());
  CHECK(after({"nonsense", "--on", "x"}).empty());
}

TEST_CASE("every command has a manual page that names all of its options") {
  static const DataDirectory data(kShippedData);
  const std::vector<std::string> words = {"man", "--out", "pages"};
  const Reply reply = run_command_line(words, {.data = data});
  const std::vector<Command> commands = all_commands();
  REQUIRE(reply.files.size() == commands.size() + 1);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    CHECK(reply.files[0].content.find(".B " + commands[i].name + "\n") != std::string::npos);
    const File& page = reply.files[i + 1];
    CHECK(page.path == "pages/trainwright-" + commands[i].name + ".1");
    std::vector<Command> parts = commands[i].commands;
    parts.push_back(commands[i]);
    for (const Command& part : parts) {
      for (const Argument& argument : part.arguments) {
        CAPTURE(argument.name);
        CHECK(page.content.find(argument.help.substr(0, 20)) != std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace trainwright::cli
