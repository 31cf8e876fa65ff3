// What holds of every answer in JSON, whichever command gives it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "trainwright/base/digits.h"
#include "trainwright/base/text.h"
#include "trainwright/cli/command_line.h"
#include "trainwright/testing/folder.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright::cli {
namespace {

Reply reply_to(const std::vector<std::string>& words) {
  static const DataDirectory data(kShippedData);
  // Only a shell that can be told of trials starts any.
  return run_command_line(words, {.data = data, .tell = [](const std::string&) {}});
}

Json document_of(const Reply& reply, const std::string& question) {
  INFO(question);
  auto json = parse_json(reply.output, "reply");
  REQUIRE_MESSAGE(json.has_value(), reply.output);
  REQUIRE(json->is_object());
  REQUIRE(json->members.size() > 2);
  CHECK(json->members[0].key == "schema");
  CHECK(json->members[0].value.integer == kSchema);
  CHECK(json->members[1].key == "made_by");
  const Json* data = json->members[1].value.find("data");
  REQUIRE(data != nullptr);
  CHECK(data->string.size() == 16);
  return *json;
}

// The words of an example that are the program's, with --json. What `tune` would start is `false`,
// its history is in the test's own folder, and so would be tables of runs, which take minutes.
std::vector<std::string> asked_in_json(std::string_view example, const std::string& folder) {
  std::vector<std::string> words;
  bool begun = false;
  for (const std::string_view part : split(example, ' ')) {
    std::string word(part);
    if (word == "|" || word == ">") break;
    if (begun && word.ends_with(')')) word.pop_back();  // source <(trainwright ...)
    if (word == "tuning" || word.starts_with("../"))
      word = folder + '/' + word.substr(word.rfind('/') + 1);
    if (begun && word != "--json") words.push_back(word);
    begun = begun || word.ends_with("trainwright");
  }
  const auto end = std::find(words.begin(), words.end(), "--");
  const bool runs = end != words.end() && words.front() == "tune";
  words.insert(end, "--json");
  if (runs) words.erase(std::find(words.begin(), words.end(), "--") + 1, words.end());
  if (runs) words.emplace_back("false");
  return words;
}

// Every command with what it runs, by its whole name.
std::vector<std::pair<std::string, Command>> runnable(const std::vector<Command>& commands,
                                                      const std::string& under) {
  std::vector<std::pair<std::string, Command>> all;
  for (const Command& command : commands) {
    const auto inner = runnable(command.commands, under + command.name + ' ');
    all.insert(all.end(), inner.begin(), inner.end());
    if (command.commands.empty()) all.emplace_back(under + command.name, command);
  }
  return all;
}

TEST_CASE("every command answers --json by an object with its schema and who made it") {
  const Folder folder;
  std::vector<std::string> refused;
  for (const auto& [name, command] : runnable(all_commands(), "")) {
    REQUIRE_MESSAGE(!command.examples.empty(), name);
    bool answered = false;
    for (const std::string& example : command.examples) {
      if (example.find("--slurm") != std::string::npos) continue;  // asks a scheduler
      const Reply reply = reply_to(asked_in_json(example, folder.path));
      const Json document = document_of(reply, example);
      CHECK((document.find("error") == nullptr) == (reply.exit != Exit::BadInput));
      answered = answered || reply.exit != Exit::BadInput;
    }
    if (!answered) refused.push_back(name);
  }
  // Their examples read files that are not here.
  std::sort(refused.begin(), refused.end());
  CHECK(join(refused, ", ") ==
        "calibrate, check, reconcile, replay, schedule check, schedule simulate, tune export, "
        "validate choice, validate memory, validate time, validate tune");
}

TEST_CASE("help, versions and whatever is printed are objects with --json, too") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--help", "--json"},
           {"help", "--json"},
           {"help", "plan", "--json"},
           {"help", "layout", "--json"},
           {"plan", "--json", "--help"},
           {"--json", "--version"},
           {"show", "model", "llama-2-7b", "llama-2-13b", "--json"},
           {"show", "trainer", "megatron", "--sources", "--json"},
           {"show", "work", "llama-2-7b", "--on", "8xH100", "--layout", "tp=3,gbs=8,seq=512",
            "--json"},
           {"schedule", "make", "1f1b", "--ranks", "2", "--microbatches", "2", "--csv", "-",
            "--json"},
           {"schedule", "make", "auto", "--ranks", "2", "--microbatches", "2", "--csv", "-",
            "--json"},
           {"list", "modles", "--json"},
           {"estimate", "--json"},
           {"list", "models", "--width", "7", "--json"},
           {"list", "models", "--data", "/nonexistent", "--json"}}) {
    document_of(reply_to(words), join(words, " "));
  }
  CHECK(document_of(reply_to({"help", "layout", "--json"}), "help").find("help")->string ==
        trim(reply_to({"help", "layout"}).output));
}

void add_odd_keys(const Json& json, std::set<std::string>& odd) {
  for (const Json& item : json.items) add_odd_keys(item, odd);
  for (const auto& [key, value] : json.members) {
    if (key.find('-') != std::string::npos) odd.insert(key);
    add_odd_keys(value, odd);
  }
}

TEST_CASE("parts of a step that are rounded each by itself add up to it in eight digits") {
  const Reply reply = reply_to({"estimate", "llama-2-7b", "--on", "8xH100", "--layout",
                                "tp=2,pp=2,zero=1,mbs=1,gbs=64,seq=4096", "--json"});
  const Json time = *document_of(reply, "estimate").find("time");
  double sum = 0;
  for (const auto& [part, seconds] : time.find("parts")->members) {
    CHECK(in_nine_decimal_digits(seconds.number) == seconds.number);
    sum += seconds.number;
  }
  // 14 parts and the total itself, half a unit of the ninth digit each: 7.5e-9 of a step of one
  // digit before the point, less of its smaller parts.
  const double step = time.find("step")->number;
  CHECK(std::abs(sum - step) <= 7.5e-9 * step);
}

TEST_CASE("keys of a trainer are words with underscores, its values as they are typed") {
  for (const Trainer& trainer : shipped_trainers()) {
    const Reply reply = reply_to({"show", "trainer", trainer.name, "--json"});
    const Json document = document_of(reply, trainer.name);
    std::set<std::string> odd;
    add_odd_keys(document, odd);
    CHECK_MESSAGE(odd.empty(), trainer.name << ": " << (odd.empty() ? "" : *odd.begin()));
  }
  const Reply reply = reply_to({"show", "trainer", "megatron", "--json"});
  const Json document = document_of(reply, "megatron");
  CHECK(document.find("overlaps")->find("gradient_reduce")->find("use")->string == "opt-in");
}

}  // namespace
}  // namespace trainwright::cli
