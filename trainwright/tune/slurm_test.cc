#include "trainwright/tune/slurm.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "trainwright/testing/folder.h"
#include "trainwright/tune/tune.h"

namespace trainwright {
namespace {

using Kind = CommandEnd::Kind;

// As scontrol 22.05 wrote it; the command comes last.
std::string line_of(const std::string& state, const std::string& codes = "0:0") {
  return "JobId=12 JobName=trainwright-1 UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=0 "
         "JobState=" +
         state + " Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=" + codes +
         " RunTime=1-00:01:02 TimeLimit=UNLIMITED Command=/t/job.sh JobState=RUNNING";
}
CommandEnd end_with(const std::string& state, const std::string& codes = "0:0") {
  const auto read = detail::job_state(line_of(state, codes));
  REQUIRE(read);
  const auto end = detail::end_of_job("12", *read);
  REQUIRE(end);
  return *end;
}

TEST_CASE("a job's state in Slurm's words is how its command ended") {
  CHECK(end_with("COMPLETED Reason=None").kind == Kind::Exited);
  CHECK(end_with("COMPLETED Reason=None").took == Seconds(86'400 + 62));
  CHECK(end_with("COMPLETED Reason=None").said == "Slurm's job 12: COMPLETED");
  CHECK(end_with("FAILED Reason=NonZeroExitCode", "7:0").code == 7);
  const CommandEnd killed = end_with("FAILED Reason=JobLaunchFailure", "0:9");
  CHECK(killed.kind == Kind::Killed);
  CHECK(killed.code == 9);
  CHECK(end_with("CANCELLED Reason=None", "0:15").kind == Kind::Cancelled);
  CHECK(end_with("PREEMPTED Reason=None").kind == Kind::Cancelled);
  CHECK(end_with("TIMEOUT Reason=TimeLimit", "0:15").kind == Kind::TimeLimit);
  CHECK(end_with("OUT_OF_MEMORY Reason=OutOfMemory", "0:125").kind == Kind::OutOfMemory);
  CHECK(end_with("NODE_FAIL Reason=NodeDown").said == "Slurm's job 12: NODE_FAIL, NodeDown");
  for (const char* goes_on : {"PENDING", "RUNNING", "COMPLETING", "SUSPENDED"}) {
    CHECK(!detail::end_of_job("12", *detail::job_state(line_of(goes_on))));
  }
  CHECK(!detail::job_state("slurm_load_jobs error: Invalid job id specified"));
}

TEST_CASE("accounting tells how a purged job ended") {
  const auto state = detail::accounted_state("trainwright-1|CANCELLED by 1000|0:15|62");
  REQUIRE(state);
  CHECK(state->name == "trainwright-1");
  const auto end = detail::end_of_job("12", *state);
  REQUIRE(end);
  CHECK(end->kind == Kind::Cancelled);
  CHECK(end->took == Seconds(62));
  CHECK(detail::end_of_job("12", *detail::accounted_state("t|OUT_OF_MEMORY|0:125|5"))->kind ==
        Kind::OutOfMemory);
  CHECK(detail::end_of_job("12", *detail::accounted_state("t|TIMEOUT|0:0|5"))->kind ==
        Kind::TimeLimit);
  CHECK(!detail::accounted_state("Slurm accounting storage is disabled"));
}

TEST_CASE("options of sbatch keep their quotes, and what is more than one job is refused") {
  const auto words = sbatch_options("--nodes 2 --comment=\"two words\" --x='a \"b\"' c\\ d");
  REQUIRE(words);
  CHECK(*words ==
        std::vector<std::string>{"--nodes", "2", "--comment=two words", "--x=a \"b\"", "c d"});
  for (const char* refused :
       {"--array=0-1", "-a 0-1", "--wrap=x", "--nodes=1 : --nodes=2", "--export=NONE",
        "--export NONE", "--output=x", "-o x", "--comment=\"open"}) {
    CHECK(!sbatch_options(refused));
  }
  CHECK(sbatch_options("--export=ALL --account=a").value().size() == 2);
  const auto both = sbatch_options("--array=0-1 --export=NONE");
  REQUIRE(!both);
  CHECK(both.error().diagnostics.size() == 2);
}

TEST_CASE("no job ran for less than no time") {
  for (const char* odd : {"--15:01:02", "-1", "INVALID"}) {
    std::string line = line_of("RUNNING");
    line.replace(line.find("1-00:01:02"), 10, odd);
    const auto state = detail::job_state(line);
    REQUIRE(state);
    CHECK(state->ran >= Seconds(0));
  }
}

// Stands in for Slurm: one job, whose state is in files. `die` kills who submits, once it is done.
constexpr const char* kSbatch = R"sh(#!/bin/sh
here=$(dirname "$0")
echo x >>"$here/submissions"
for word; do
  case "$word" in
    --job-name=*) echo "${word#*=}" >"$here/name" ;;
    --output=*) log=${word#*=} ;;
    *job.sh) break ;;
  esac
  shift
done
if grep -q refused "$here/mode"; then echo "sbatch: error: invalid partition"; exit 1; fi
echo PENDING >"$here/state"
{ echo "exec >$log 2>&1"; echo "cd $here"; echo "sh $*"; } >"$here/script"
if grep -q die "$here/mode"; then echo >"$here/mode"; kill -9 $PPID; fi
echo 7
)sh";
constexpr const char* kScontrol = R"sh(#!/bin/sh
here=$(dirname "$0")
if [ "$1" = release ]; then
  echo RUNNING >"$here/state"
  (sh "$here/script"; echo COMPLETED >"$here/state") >/dev/null 2>&1 &
  exit 0
fi
if grep -q lost "$here/mode"; then echo "slurm_load_jobs error: Invalid job id specified"; exit 1; fi
echo "JobId=7 JobName=$(cat "$here/name") JobState=$(cat "$here/state") Reason=None Restarts=0" \
  "ExitCode=0:0 RunTime=00:00:01 Command=x"
)sh";
constexpr const char* kSqueue = R"sh(#!/bin/sh
if [ "$2" = "--name=$(cat "$(dirname "$0")/name")" ]; then echo 7; fi
)sh";
constexpr const char* kScancel = R"sh(#!/bin/sh
here=$(dirname "$0")
if [ "$*" = "--name=$(cat "$here/name") 7" ]; then echo CANCELLED >"$here/state"; fi
)sh";

struct FakeSlurm {
  Folder own;
  const std::string& folder = own.path;
  std::string path = getenv("PATH");
  explicit FakeSlurm(const std::string& mode) {
    std::ofstream(folder + "/mode") << mode << '\n';
    std::ofstream(folder + "/trainer") << "for i in 1 2 3 4 5 6 7 8; do echo took 3 s; done\n";
    for (const auto& [name, text] : {std::pair{"sbatch", kSbatch},
                                     {"scontrol", kScontrol},
                                     {"squeue", kSqueue},
                                     {"scancel", kScancel}}) {
      const std::string file = folder + '/' + name;
      std::ofstream(file) << text;
      std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    }
    setenv("PATH", (folder + ':' + path).c_str(), 1);
  }
  FakeSlurm(const FakeSlurm&) = delete;
  FakeSlurm& operator=(const FakeSlurm&) = delete;
  ~FakeSlurm() { setenv("PATH", path.c_str(), 1); }
  std::int64_t submissions() const {
    return static_cast<std::int64_t>(std::filesystem::file_size(folder + "/submissions")) / 2;
  }
  Result<Tuned> tuned(History& history) const {
    TuneJob job;
    job.trials = {{"l", Seconds(3), {}, {0}, 0.01}};
    job.files = [](const std::string&) -> Result<TrialFiles> { return TrialFiles{}; };
    job.command = {"sh", folder + "/trainer"};
    job.sbatch = std::vector<std::string>{"--nodes=1"};
    job.reading.pattern = "took ([0-9.]+) s";
    return run_trials(history, job);
  }
  History history() const {
    auto begun = History::begin(folder + "/history", {{"model", "m"}}, "{}");
    REQUIRE(begun);
    return *std::move(begun);
  }
};

TEST_CASE("a job whose watcher died before its id was written down is found by its name") {
  const FakeSlurm slurm("die");
  History history = slurm.history();
  const auto tuned = slurm.tuned(history);
  REQUIRE(tuned);
  CHECK(slurm.submissions() == 1);
  const auto records = history.records();
  REQUIRE(records);
  REQUIRE(records->size() == 1);
  CHECK(records->front().end == TrialEnd::Ok);
  CHECK(records->front().step == Seconds(3));
  CHECK(records->front().cause.ends_with("; Slurm's job 7: COMPLETED"));
}

TEST_CASE("what sbatch refuses ends the tuning, with its words") {
  const FakeSlurm slurm("refused");
  History history = slurm.history();
  const auto tuned = slurm.tuned(history);
  REQUIRE(!tuned);
  CHECK(tuned.error().diagnostics.front().what == "sbatch: error: invalid partition");
  CHECK(slurm.submissions() == 1);
}

}  // namespace
}  // namespace trainwright
