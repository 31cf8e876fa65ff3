#include "trainwright/cli/tune.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "trainwright/base/text.h"
#include "trainwright/cli/command_line.h"
#include "trainwright/testing/folder.h"
#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/testing/skip.h"

namespace trainwright::cli {
namespace {

TEST_CASE("a trial under way is three lines within the width: progress, the best, its log") {
  TrialRecord first;
  first.id = 1;
  first.layout = "tp=8,pp=1,dp=1,sp,mbs=1,gbs=128,seq=8192";
  first.state = TrialState::Ended;
  first.step = Seconds(9.5);
  first.took = Seconds(300);
  TrialRecord second;
  second.id = 2;
  second.state = TrialState::Started;
  second.predicted = Seconds(6);
  const TuneTerms terms{.start_up = Seconds(120), .steps = 20, .most_trials = 5};
  const TrialUnderWay now{second, Seconds(61.7), "step 12  loss 3.2"};
  // 120 s + 20 steps of 6 s
  CHECK(under_way_text(now, {first, second}, terms, 100) ==
        "trial 2 of at most 5: 61 s, about 4 min expected; 5 min spent before\n"
        "  best: trial 1, 9.5 s a step: tp=8,pp=1,dp=1,sp,mbs=1,gbs=128,seq=8192\n"
        "  log: step 12  loss 3.2");
  const std::string narrow = under_way_text({second, Seconds(0), ""}, {second}, terms, 40);
  CHECK(narrow.find("best: none yet") != std::string::npos);
  CHECK(narrow.find("log: nothing yet") != std::string::npos);
  for (const std::string_view line : split(narrow, '\n')) CHECK(line.size() < 40);
}

// The files of a trial, by name.
std::map<std::string, std::string> files_of(const std::string& layout) {
  static const DataDirectory data(kShippedData);
  const Invocation invocation{.data = data,
                              .values = {{"model", {"llama-2-7b"}},
                                         {"on", {"4xH100"}},
                                         {"batch", {"16"}},
                                         {"seq", {"2048"}},
                                         {"trainer", {"torchtitan@0.3"}},
                                         {"among", {layout}},
                                         {"command", {"true"}}}};
  const auto question = tune_question(invocation);
  REQUIRE_MESSAGE(question.has_value(), to_text(question.error()));
  const auto trials = candidates(**question);
  REQUIRE_MESSAGE(trials.has_value(), to_text(trials.error()));
  const auto made = (*question)->job.files(trials->front().layout);
  REQUIRE_MESSAGE(made.has_value(), to_text(made.error()));
  std::map<std::string, std::string> files;
  for (const Artefact& file : made->files) files[file.path] = file.text;
  files["layout"] = trials->front().layout;
  files["orders"] = (*question)->key.contains("orders") ? (*question)->key.at("orders") : "";
  return files;
}

TEST_CASE("a schedule that the trainer has no name for is written as a file") {
  const auto files = files_of("pp=4,mbs=1,schedule=zb-h1,loss=loss-parallel");
  CHECK(files.at("layout").find("schedule=zb-h1") != std::string::npos);
  CHECK(files.at("schedule.csv") == to_csv(*make(ScheduleKind::ZbH1, {4, 16, 1})));
  CHECK(files.at("settings.sh").find("pipeline_parallel_schedule_csv") != std::string::npos);
  CHECK(files_of("pp=4,mbs=1,schedule=gpipe").count("schedule.csv") == 0);
}

TEST_CASE("a trial runs the order of the file that its layout names, and the history is of it") {
  const Folder folder;
  const std::string path = folder.path + "/mine.csv";
  const std::string order = to_csv(*make(ScheduleKind::VMin, {4, 16, 2}));
  std::ofstream(path) << order;
  const auto files = files_of("pp=4,vpp=2,placement=v,mbs=1,loss=loss-parallel,schedule=" + path);
  CHECK(files.at("layout").find("schedule=" + path) != std::string::npos);
  CHECK(files.at("schedule.csv") == order);
  CHECK(files.at("orders") == path + '\n' + order);
}

// A history that would start a command, as `tune run` leaves it, but of no question: nothing
// starts.
void begin_history(const std::string& folder, const std::string& more = "") {
  const std::string asked =
      R"({"model": ["llama-2-7b"], "on": ["4xH100"], "batch": ["16"], "seq": ["2048"],)" + more +
      R"("among": ["tp=2,mbs=1"], "command": ["touch", "a b\u001b"]})";
  const auto history = History::begin(folder, {}, asked);
  REQUIRE_MESSAGE(history.has_value(), to_text(history.error()));
}

std::string told;  // by what was resumed last

// What is said where it ends.
std::string resumed(const std::string& folder, const std::vector<std::string>& more = {}) {
  static const DataDirectory data(kShippedData);
  std::vector<std::string> words = {"tune", "resume", "--history", folder};
  words.insert(words.end(), more.begin(), more.end());
  told.clear();
  return run_command_line(
             words, {.data = data, .tell = [](const std::string& line) { told += line + '\n'; }})
      .error;
}

constexpr const char* kPastTheDoubt = "this history is of another question";

TEST_CASE("a history's command is told before it starts, and another may be given") {
  const Folder folder;
  begin_history(folder.path);
  CHECK(resumed(folder.path).find(kPastTheDoubt) != std::string::npos);
  CHECK(told.starts_with("starts: touch 'a b\x1b'\n"));  // made printable by whoever shows it
  CHECK(resumed(folder.path, {"--", "touch", "a"}).find(kPastTheDoubt) != std::string::npos);
  CHECK(told.starts_with("starts: touch a\n"));
}

TEST_CASE("a history of another user starts nothing that was not asked for again") {
  if (geteuid() != 0) return testing::skip("only root can give a folder away");
  for (const char* given : {"", "/history.sqlite"}) {
    const Folder folder;
    begin_history(folder.path);
    REQUIRE(lchown((folder.path + given).c_str(), 12345, 12345) == 0);
    const std::string refused = resumed(folder.path);
    CHECK(refused.find("belongs to another user (uid 12345)") != std::string::npos);
    CHECK(refused.find("touch 'a b\\u001b'") != std::string::npos);
    CHECK(told.empty());
    CHECK(resumed(folder.path, {"--yes"}).find(kPastTheDoubt) != std::string::npos);
    CHECK(resumed(folder.path, {"--", "touch", "a b\x1b"}).find(kPastTheDoubt) !=
          std::string::npos);
  }
}

TEST_CASE("options of sbatch in a history of another user are not confirmed by the command") {
  if (geteuid() != 0) return testing::skip("only root can give a folder away");
  const Folder folder;
  begin_history(folder.path, R"("slurm": ["--comment=evil"],)");
  REQUIRE(lchown(folder.path.c_str(), 12345, 12345) == 0);
  CHECK(resumed(folder.path, {"--", "touch", "a b\x1b"}).find("sbatch --comment=evil: touch") !=
        std::string::npos);
  CHECK(resumed(folder.path, {"--slurm=--nodes=1", "--", "touch", "a"}).find(kPastTheDoubt) !=
        std::string::npos);
  CHECK(resumed(folder.path, {"--yes"}).find(kPastTheDoubt) != std::string::npos);
}

}  // namespace
}  // namespace trainwright::cli
