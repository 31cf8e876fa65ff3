#include <doctest/doctest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "trainwright/testing/folder.h"
#include "trainwright/tune/tune.h"

namespace trainwright {
namespace {

// Steps of the seconds that the layout says: "l3" prints 3, "oom", "hang" and "crash" do that.
constexpr const char* kTrainer = R"(case "$1" in
  oom) echo "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has"; exit 1 ;;
  hang) sleep 1000 ;;
  crash) echo "NCCL WARN something"; exit 3 ;;
  *) for i in 1 2 3 4 5 6 7 8; do echo "step time: ${1#l} s"; done ;;
esac
)";

TuneJob job_in(const std::string& folder,
               const std::vector<std::pair<std::string, double>>& layouts) {
  std::ofstream(folder + "/trainer") << kTrainer;
  TuneJob job;
  double at = 0;
  for (const auto& [name, predicted] : layouts) {
    job.trials.push_back({name, Seconds(predicted), {}, {at += 100}, 0.01});
  }
  job.trial_of = [](const std::string& layout) -> Result<Trial> { return fail(layout, "unknown"); };
  job.files = [](const std::string& layout) -> Result<TrialFiles> {
    return TrialFiles{{{"settings", layout}}, {layout}, {}};
  };
  job.command = {"/bin/sh", folder + "/trainer", "{settings}"};
  job.reading.pattern = "step time: ([0-9.]+) s";
  job.time_limit = Seconds(20);
  job.silence = Seconds(0.5);
  return job;
}

History begin(const std::string& folder) {
  auto history = History::begin(folder + "/history", {{"model", "m"}}, "{}");
  REQUIRE(history);
  return *std::move(history);
}

TEST_CASE("trials run one after the other until none can be faster") {
  const Folder folder;
  const TuneJob job = job_in(folder.path, {{"l10", 10},
                                           {"l11", 10.2},
                                           {"l9", 10.4},
                                           {"oom", 9.9},
                                           {"crash", 10.1},
                                           {"hang", 10.3},
                                           {"l30", 30}});
  History history = begin(folder.path);
  std::vector<std::string> told;
  const auto tuned =
      run_trials(history, job, {.tell = [&](const std::string& line) { told.push_back(line); }});
  REQUIRE(tuned);
  CHECK(tuned->last.stop == TuneStop::Proven);
  REQUIRE(tuned->last.best);
  CHECK(tuned->trials[tuned->outcomes[*tuned->last.best].trial].layout == "l9");
  const auto records = history.records();
  REQUIRE(records);
  CHECK(records->size() == 6);  // all but l30
  const auto end_of_layout = [&](const char* layout) {
    return std::find_if(records->begin(), records->end(),
                        [&](const TrialRecord& one) { return one.layout == layout; })
        ->end;
  };
  CHECK(end_of_layout("oom") == TrialEnd::OutOfMemory);
  CHECK(end_of_layout("hang") == TrialEnd::Hang);
  CHECK(end_of_layout("crash") == TrialEnd::Crash);
  CHECK(told.size() == 12);  // why before, and what became of it after
}

// A file of SQLite that is no history of ours.
void write_database(const std::string& folder, const std::string& sql) {
  std::filesystem::create_directories(folder);
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open((folder + "/history.sqlite").c_str(), &database) == SQLITE_OK);
  CHECK(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
}

TEST_CASE("a history that computes what it holds is refused before anything is read of it") {
  const Folder folder;
  const std::string about =
      "CREATE TABLE about (part TEXT PRIMARY KEY, text TEXT NOT NULL);"
      "INSERT INTO about VALUES ('asked', '{}');";
  // Trials without end.
  write_database(folder.path + "/view",
                 about +
                     "CREATE VIEW trials AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT "
                     "x + 1 FROM c) SELECT x AS id, '' AS layout, 'ended' AS state, '' AS why, "
                     "0 AS predicted, 0 AS oom, 0 AS pid, 0 AS born, '' AS boot, '' AS ending, "
                     "0 AS step, 0 AS spread, 0 AS took, '' AS cause, '' AS memory FROM c;");
  const auto view = History::look(folder.path + "/view");
  REQUIRE(!view);
  CHECK(view.error().diagnostics[0].what == "it has a view, which no history has");
  write_database(folder.path + "/trigger",
                 about +
                     "CREATE TABLE trials (id); CREATE TRIGGER t AFTER INSERT ON trials BEGIN "
                     "DELETE FROM about; END;");
  CHECK(!History::begin(folder.path + "/trigger", {{"model", "m"}}, "{}"));
  // A milliard of zeros from a few bytes.
  write_database(folder.path + "/parts",
                 "CREATE TABLE about (part TEXT PRIMARY KEY, text TEXT AS (zeroblob(999999999)));"
                 "INSERT INTO about VALUES ('asked');");
  CHECK(!History::look(folder.path + "/parts"));
}

TEST_CASE("a history is of one question and of one writer") {
  const Folder folder;
  const std::string path = folder.path + "/history";
  {
    const History first = begin(folder.path);
    CHECK(!History::begin(path, {{"model", "m"}}, "{}"));  // locked
    CHECK(History::look(path));
  }
  const auto other = History::begin(path, {{"model", "n"}}, "{}");
  REQUIRE(!other);
  CHECK(other.error().diagnostics.front().what ==
        "this history is of another question: model changed");
  CHECK(History::begin(path, {{"model", "m"}}, "{}"));
  CHECK(!History::look(folder.path + "/nowhere"));
}

TEST_CASE("what is no database is diagnosed") {
  const Folder folder;
  std::filesystem::create_directories(folder.path + "/history");
  std::ofstream(folder.path + "/history/history.sqlite") << std::string(5000, 'x');
  CHECK(!History::look(folder.path + "/history"));
  CHECK(!History::begin(folder.path + "/history", {}, "{}"));
}

CommandEnd run_to_its_end(const Launch& launch) {
  auto held = hold(launch);
  REQUIRE(held);
  held->let_go();
  std::optional<CommandEnd> end;
  while (!(end = end_of(launch.folder, held->watcher()))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(!is_alive(held->watcher()));
  return *end;
}

TEST_CASE("a command's exit code, signal and absence are told") {
  const Folder folder;
  const auto run = [&](std::vector<std::string> words) {
    return run_to_its_end({.words = std::move(words), .folder = folder.path});
  };
  CHECK(run({"/bin/sh", "-c", "exit 7"}).code == 7);
  const CommandEnd killed = run({"/bin/sh", "-c", "kill -9 $$"});
  CHECK(killed.kind == CommandEnd::Kind::Killed);
  CHECK(killed.code == 9);
  CHECK(run({"/no/such/program"}).code == 127);
}

bool any_process_says(const std::string& what) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string words{std::istreambuf_iterator<char>(file), {}};
    if (words.find(what) != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("children that leave their session are ended with their trial") {
  const Folder folder;
  const std::string mark = "1000.0" + std::to_string(getpid());
  const CommandEnd end = run_to_its_end(
      {.words = {"/bin/sh", "-c", "setsid sleep " + mark + " & setsid sleep " + mark + " & wait"},
       .folder = folder.path,
       .time_limit = Seconds(0.3)});
  CHECK(end.kind == CommandEnd::Kind::TimeLimit);
  CHECK(!any_process_says(mark));
}

TEST_CASE("a watcher that was never let go runs nothing") {
  const Folder folder;
  {
    auto held = hold({.words = {"/bin/sh", "-c", "echo ran"}, .folder = folder.path});
  }
  CHECK(!std::filesystem::exists(folder.path + "/log"));
}

// As the program dies: at the n-th of the moments between two writes. `false`: it came to its end.
bool dies_at(const std::string& folder, const TuneJob& job, int moment) {
  const pid_t pid = fork();
  if (pid == 0) {
    auto history = History::begin(folder + "/history", {{"model", "m"}}, "{}");
    TuneHooks hooks;
    hooks.between = [&moment] {
      if (moment-- == 0) kill(getpid(), SIGKILL);
    };
    _exit(history && run_trials(*history, job, hooks) ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status);
}

TEST_CASE("killed between any two writes, it goes on as if nothing had happened") {
  bool dies = true;
  int moments = 0;
  for (int moment = 0; dies; ++moment) {
    const Folder folder;
    const TuneJob job = job_in(folder.path, {{"l10", 10}, {"oom", 10.1}, {"l9", 10.4}});
    dies = dies_at(folder.path, job, moment);
    moments += dies ? 1 : 0;
    History history = begin(folder.path);
    const auto tuned = run_trials(history, job);
    REQUIRE(tuned);
    CHECK(tuned->last.stop == TuneStop::NothingLeft);
    const auto records = history.records();
    REQUIRE(records);
    std::vector<std::string> layouts;
    for (const TrialRecord& record : *records) {
      CHECK(record.state == TrialState::Ended);
      layouts.push_back(record.layout);
    }
    std::sort(layouts.begin(), layouts.end());
    CHECK(layouts == std::vector<std::string>{"l10", "l9", "oom"});
    CHECK(tuned->outcomes[*tuned->last.best].step == Seconds(9));
    CHECK(history.integrity().value_or("") == "ok");
    CHECK(!any_process_says(folder.path));
  }
  CHECK(moments == 24);  // eight for each trial
}

// With the lines that ship.
Reading reading_of(const std::string& pattern = {}, std::int64_t steps = 0) {
  auto endings = load_endings(TRAINWRIGHT_SOURCE_DIR "/data");
  REQUIRE(endings);
  return {.size = {}, .pattern = pattern, .endings = *std::move(endings), .steps = steps};
}

TEST_CASE("each line of data/logs ends a trial as it says, and its sample holds it") {
  for (const EndingLine& line : reading_of().endings) {
    INFO(line.says);
    CHECK(line.sample.find(line.says) != std::string::npos);
    const TrialResult result = ending_of("starting\n" + line.sample + "\nexiting\n",
                                         CommandEnd{CommandEnd::Kind::Exited, 1, {}}, reading_of());
    CHECK(result.end == line.end);
    CHECK(result.host == line.host);
    CHECK(result.cause.find(line.says.substr(line.says.find_first_not_of(' '))) !=
          std::string::npos);
  }
}

TEST_CASE("exit code 0 with all of its steps is a success, whatever else the log says") {
  std::string log = "wandb: WARNING could not write: No space left on device\n";
  for (int i = 0; i < 10; ++i) log += "took 2 s\n";
  const auto end_with = [&](std::int64_t steps, int code) {
    return ending_of(log, CommandEnd{CommandEnd::Kind::Exited, code, {}},
                     reading_of("took ([0-9.]+) s", steps))
        .end;
  };
  CHECK(end_with(10, 0) == TrialEnd::Ok);
  CHECK(end_with(20, 0) == TrialEnd::NodeFailure);  // half of its steps
  CHECK(end_with(10, 1) == TrialEnd::NodeFailure);
}

TEST_CASE("a command that cannot be started blames no layout") {
  for (const int code : {126, 127}) {
    const TrialResult result =
        ending_of("sh: 1: torchrunn: not found\n", CommandEnd{CommandEnd::Kind::Exited, code, {}},
                  reading_of());
    CHECK(result.end == TrialEnd::NodeFailure);
    CHECK(result.cause.find("cannot be started") != std::string::npos);
  }
}

TEST_CASE("an end is told by its root cause") {
  const auto end_with = [](std::string_view log, CommandEnd end) {
    return ending_of(log, end, reading_of("step time: ([0-9.]+)")).end;
  };
  using Kind = CommandEnd::Kind;
  const std::string oom =
      "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 2 has "
      "a\n"
      "[rank0]: Connection closed by peer\n";
  CHECK(end_with(oom, {Kind::Exited, 1, {}}) == TrialEnd::OutOfMemory);
  // The others wait for the one that died.
  CHECK(end_with(oom, {Kind::Hang, 0, {}}) == TrialEnd::OutOfMemory);
  CHECK(end_with("", {Kind::Hang, 0, {}}) == TrialEnd::Hang);
  CHECK(end_with("", {Kind::TimeLimit, 0, {}}) == TrialEnd::TimeLimit);
  CHECK(end_with("", {Kind::Stopped, 0, {}}) == TrialEnd::Preempted);
  CHECK(end_with("train.py: error: unrecognized arguments: --tp\n", {Kind::Exited, 2, {}}) ==
        TrialEnd::Refused);
  CHECK(end_with("Segmentation fault\n", {Kind::Killed, 11, {}}) == TrialEnd::Crash);
  CHECK(end_with("", {Kind::Exited, 0, {}}) == TrialEnd::Crash);  // without a step
  CHECK(ending_of("", std::nullopt, {}).end == TrialEnd::NodeFailure);
}

TEST_CASE("the host's memory ends a trial too, unless it got over it") {
  const std::string log =
      "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't "
      "allocate memory: you tried to allocate 8589934592 bytes. Error code 12\n";
  const TrialResult failed =
      ending_of(log, CommandEnd{CommandEnd::Kind::Exited, 1, {}}, reading_of());
  CHECK(failed.end == TrialEnd::OutOfMemory);
  CHECK(failed.cause == "a rank asked for 8 GiB of the host's memory (line 1)");
  CHECK(failed.host);
  std::string steps = "MemoryError\n";
  for (int i = 0; i < 8; ++i) steps += "took 1 s\n";
  const Reading reading{.size = {}, .pattern = "took ([0-9.]+) s"};
  CHECK(ending_of(steps, CommandEnd{}, reading).end == TrialEnd::Ok);
  // The kernel, as slurmstepd of 22.05 and 23.11 tell of it.
  for (const char* line : {"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=8.batch.\n",
                           "slurmstepd: error: Detected 1 oom_kill event in StepId=8.batch.\n"}) {
    const TrialResult killed =
        ending_of(line, CommandEnd{CommandEnd::Kind::Killed, 9, {}}, reading_of());
    CHECK(killed.end == TrialEnd::OutOfMemory);
    CHECK(killed.host);
  }
}

TEST_CASE("memory that a log prints is kept by rank") {
  Folder folder;
  auto history = History::begin(folder.path, {{"model", "a"}}, "{}");
  REQUIRE(history.has_value());
  const auto ended = [&](const TrialResult& result) {
    const auto id = history->plan("l1", "", {});
    REQUIRE(id.has_value());
    REQUIRE(history->end(*id, result, Seconds(1)).has_value());
    return history->records()->back();
  };
  const std::vector<LoggedMemory> memory = {
      {.rank = std::nullopt, .allocated = Bytes(7), .reserved = std::nullopt},
      {.rank = 3, .allocated = Bytes(66'571'993'088), .reserved = Bytes(70'000'000'000)}};
  const auto kept = ended({.end = TrialEnd::Ok, .cause = "", .memory = memory}).memory;
  REQUIRE(kept.size() == 2);
  CHECK_FALSE(kept[0].rank.has_value());
  CHECK(kept[0].allocated == Bytes(7));
  CHECK_FALSE(kept[0].reserved.has_value());
  CHECK(kept[1].rank == 3);
  CHECK(kept[1].reserved == Bytes(70'000'000'000));
  CHECK(ended({.end = TrialEnd::OutOfMemory, .cause = "", .host = true}).host);
  CHECK_FALSE(ended({.end = TrialEnd::OutOfMemory, .cause = ""}).host);
}

// As another version, or a hand, would.
void change(const std::string& history, const std::string& statement) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open((history + "/history.sqlite").c_str(), &database) == SQLITE_OK);
  CHECK(sqlite3_exec(database, statement.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
}

TEST_CASE(
    "a history of a later version, or with words of one, is refused and not read as a success") {
  const Folder folder;
  const std::string path = folder.path + "/history";
  {
    History history = begin(folder.path);
    REQUIRE(history.plan("l1", "", {}).has_value());
    REQUIRE(history.end(1, {.end = TrialEnd::Crash, .cause = "x"}, Seconds(1)).has_value());
  }
  change(path, "UPDATE trials SET ending = 'thermal-throttle'");
  const auto records = History::look(path)->records();
  REQUIRE(!records);
  CHECK(records.error().diagnostics.front().what ==
        "trial 1 has the ending 'thermal-throttle', which this program does not know");
  change(path, "PRAGMA user_version = 2");
  CHECK(!History::look(path));
  CHECK(!History::begin(path, {{"model", "m"}}, "{}"));
}

TEST_CASE(
    "a history of version 0 outlives corrected data where model and cluster are asked by the same "
    "words") {
  const Folder folder;
  const std::string path = folder.path + "/history",
                    asked = R"({"model": ["llama"], "on": ["8xH100"]})";
  {
    REQUIRE(History::begin(
        path, {{"model", "{all that was known}"}, {"cluster", "{c}"}, {"job", "j"}}, asked));
  }
  change(path, "PRAGMA user_version = 0");
  CHECK(!History::begin(path, {{"model", "7 parameters"}, {"cluster", "8xH100"}, {"job", "other"}},
                        asked));
  CHECK(!History::begin(path, {{"model", "7 parameters"}, {"cluster", "8xH100"}, {"job", "j"}},
                        R"({"model": ["llama"], "on": ["16xH100"]})"));
  CHECK(History::begin(path, {{"model", "7 parameters"}, {"cluster", "8xH100"}, {"job", "j"}},
                       asked));
  CHECK(!History::begin(path, {{"model", "8 parameters"}, {"cluster", "8xH100"}, {"job", "j"}},
                        asked));
}

TEST_CASE("what is said anew replaces what a history was begun with, and nothing else does") {
  const Folder folder;
  const std::string path = folder.path + "/history";
  {
    REQUIRE(History::begin(path, {{"model", "m"}, {"command", "a"}}, "first"));
  }
  CHECK(!History::begin(path, {{"model", "m"}, {"command", "b"}}, "second"));
  CHECK(!History::begin(path, {{"model", "n"}, {"command", "b"}}, "second", {"command", "slurm"}));
  {
    const auto renewed = History::begin(path, {{"model", "m"}, {"command", "b"}, {"slurm", "-N 2"}},
                                        "second", {"command", "slurm"});
    REQUIRE(renewed);
    CHECK(renewed->asked().value() == "second");
  }
  CHECK(History::begin(path, {{"model", "m"}, {"command", "b"}, {"slurm", "-N 2"}}, "third"));
  CHECK(History::look(path)->asked().value() == "second");
}

TEST_CASE("a watcher that is killed before it may go on does not end the tuner") {
  const Folder folder;
  auto held = hold({.words = {"true"}, .folder = folder.path, .time_limit = Seconds(60)});
  REQUIRE(held);
  const Watcher watcher = held->watcher();
  kill(static_cast<pid_t>(watcher.pid), SIGKILL);
  while (is_alive(watcher)) usleep(1000);
  held->let_go();  // Nobody reads it, and it is no SIGPIPE.
  CHECK(!end_of(folder.path, watcher));
}

TEST_CASE("what a killed watcher leaves behind is found by its mark and ended") {
  const Folder folder;
  const std::string command = "setsid sh -c 'sleep 1000 & sleep 1000' & sleep 1000";
  auto held =
      hold({.words = {"sh", "-c", command}, .folder = folder.path, .time_limit = Seconds(60)});
  REQUIRE(held);
  const Watcher watcher = held->watcher();
  held->let_go();
  const auto ends = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!std::filesystem::exists(folder.path + "/log") && std::chrono::steady_clock::now() < ends)
    usleep(10'000);
  usleep(300'000);  // until the grandchildren are there
  kill(static_cast<pid_t>(watcher.pid), SIGKILL);
  waitpid(static_cast<pid_t>(watcher.pid), nullptr, 0);
  CHECK(sweep(folder.path + "/elsewhere") == 0);
  CHECK(sweep(folder.path) >= 2);  // the command itself dies with its watcher
  CHECK(sweep(folder.path) == 0);
}

TEST_CASE("a trial of another host is not started beside it") {
  const Folder folder;
  TuneJob job = job_in(folder.path, {{"l3", 3}});
  {
    History history = begin(folder.path);
    REQUIRE(history.plan("l3", "", {}).has_value());
    REQUIRE(
        history.start(1, {.pid = 1, .born = 1, .boot = "another", .host = "login2"}).has_value());
    const auto tuned = run_trials(history, job);
    REQUIRE(!tuned);
    CHECK(tuned.error().diagnostics.front().what ==
          "it was started on host login2, where it may still run");
    job.host_is_gone = true;
    CHECK(run_trials(history, job));
  }
}

TEST_CASE("a history from before memory was kept is read, and keeps it from then on") {
  const Folder folder;
  const std::string path = folder.path + "/history";
  {
    History history = begin(folder.path);
    REQUIRE(history.plan("l1", "", {}).has_value());
  }
  change(path, "ALTER TABLE trials DROP COLUMN memory");
  CHECK(History::look(path)->records()->size() == 1);
  History history = begin(folder.path);
  const TrialResult result{
      .end = TrialEnd::Ok, .cause = "", .memory = {{.rank = 2, .reserved = Bytes(5)}}};
  REQUIRE(history.end(1, result, Seconds(1)).has_value());
  CHECK(history.records()->front().memory.front().reserved == Bytes(5));
}

// Lines that srun 22.05 wrote when these happened to a step.
TEST_CASE("what Slurm and a full disk do to a trial is told by their own lines") {
  const auto end_with = [](std::string_view log, int code) {
    return ending_of(log, CommandEnd{CommandEnd::Kind::Exited, code, {}}, reading_of()).end;
  };
  const std::string cancelled =
      "srun: Job step aborted: Waiting up to 4 seconds for job step to finish.\n"
      "slurmstepd-n1: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-16T15:04:21 ***\n";
  CHECK(end_with(cancelled + "srun: error: n1: task 0: Terminated\n", 143) == TrialEnd::Preempted);
  CHECK(end_with("slurmstepd-n1: error: StepId=3.0 exceeded memory limit (263622656 > 209715200), "
                 "being killed\nsrun: Exceeded job memory limit\n" +
                     cancelled + "srun: error: n1: task 0: Killed\n",
                 137) == TrialEnd::OutOfMemory);
  CHECK(end_with("srun: error: Node failure on n3\nsrun: error: Node failure on n3\n", 0) ==
        TrialEnd::NodeFailure);
  CHECK(end_with("slurmstepd-n1: error: *** STEP 2.0 ON n1 CANCELLED AT 2026-11-16T15:05:40 DUE TO "
                 "TIME LIMIT ***\n",
                 143) == TrialEnd::TimeLimit);
  CHECK(end_with("OSError: [Errno 28] No space left on device\n", 1) == TrialEnd::NodeFailure);
  // The watcher ended it.
  CHECK(ending_of(cancelled, CommandEnd{CommandEnd::Kind::Hang, 0, {}}, {}).end == TrialEnd::Hang);
}

TEST_CASE("of a user's own lines the first five are warm-up and the median counts") {
  std::string log;
  for (const char* seconds : {"90", "80", "70", "60", "50", "3", "1", "2"}) {
    log += std::string("took ") + seconds + " s\n";
  }
  const TrialResult result =
      ending_of(log, CommandEnd{}, {.size = {}, .pattern = "took ([0-9.]+) s"});
  CHECK(result.end == TrialEnd::Ok);
  CHECK(result.step == Seconds(2));
  CHECK(step_pattern_fault("no group"));
  CHECK(step_pattern_fault("(["));
  CHECK(!step_pattern_fault("took ([0-9.]+) s"));
}

TEST_CASE("the last line of a log gives a terminal no orders") {
  CHECK(last_line("one\ntwo\r\x1b[2Jthree\a \n\n") == "[2Jthree");
  CHECK(last_line("") == "");
}

TEST_CASE("a command's words are filled in, settings as words of their own") {
  CHECK(filled_in({"run", "{settings}", "--out={folder}/x", "{steps}", "{layout}"}, {"--tp", "2"},
                  "t", "tp=2",
                  20) == std::vector<std::string>{"run", "--tp", "2", "--out=t/x", "20", "tp=2"});
}

}  // namespace
}  // namespace trainwright
