#include "trainwright/tune/slurm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "trainwright/base/text.h"
#include "trainwright/tune/watch.h"

namespace trainwright {

std::string_view job_script() {
  return R"(#!/bin/sh
# Runs the words after the folder.
folder=$1
shift
rm -f "$folder/exit"  # of a run before Slurm requeued the job
"$@" &
while kill -0 $! 2>/dev/null; do
  if [ -e "$folder/stop" ]; then kill $!; fi  # Slurm no longer knows this job
  sleep 1
done
wait $!
code=$?
echo $code >"$folder/exit"
exit $code
)";
}

}  // namespace trainwright

namespace trainwright::detail {
namespace {

using Kind = CommandEnd::Kind;
constexpr double kMostPatience = 60;  // seconds for a job that Slurm has lost to end itself
constexpr double kSoonest = 0.5, kLatest = 5;  // seconds between two questions to Slurm

struct Answer {
  int code = 0;
  std::string text;  // of both outputs
};
Answer asked(const std::vector<std::string>& words,
             const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {126, "no pipe can be made"};
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    dprintf(2, "%s: cannot be started: errno %d", words.front().c_str(),
            become(words, environment));
    _exit(127);
  }
  close(ends[1]);
  Answer answer{pid < 0 ? 126 : 0, pid < 0 ? "no process can be made" : ""};
  std::array<char, 4096> part{};
  for (ssize_t got = 0; pid > 0 && (got = read(ends[0], part.data(), part.size())) != 0;) {
    if (got < 0 && errno != EINTR) break;
    if (got > 0) answer.text.append(part.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (pid > 0) answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  answer.text = std::string(trim(answer.text));
  return answer;
}

// "KEY=" of a line of scontrol, up to the next blank. What a user wrote comes last in the line.
std::string_view field(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view value = line.substr(at + key.size());
  return value.substr(0, value.find(' '));
}

// "1-02:03:04". What is no number, or below none (a clock that was set back), is no time.
Seconds run_time(std::string_view text) {
  const auto count = [](std::string_view part) {
    return std::max(0.0, static_cast<double>(parse_integer(part).value_or(0)));
  };
  double days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    days = count(text.substr(0, dash));
    text = text.substr(dash + 1);
  }
  double seconds = 0;
  for (const std::string_view part : split(text, ':')) seconds = 60 * seconds + count(part);
  return Seconds(86'400 * days + seconds);
}

// It may be up again in a moment, and then tell more.
bool is_down(const Answer& answer) {
  return answer.code != 0 && answer.text.find("Unable to contact") != std::string::npos;
}
bool is_unheard(const Answer& answer) {  // It may have done what was asked.
  return answer.code != 0 && answer.text.find("timed out") != std::string::npos;
}
// Again and again until Slurm answers.
Answer answered(const std::vector<std::string>& words) {
  Answer answer;
  while (answer = asked(words), is_down(answer) || is_unheard(answer)) rest(kLatest);
  return answer;
}

// `job`: a name that no other job has, and its id once it is known.
struct Job {
  std::string name, id;
};
Job job_of(const std::string& folder) {
  Job job;
  std::ifstream(folder + "/job") >> job.name >> job.id;
  return job;
}
bool write_job(const std::string& folder, const Job& job) {
  for (int tries = 0; tries < 600; ++tries, rest(0.1)) {
    if (written(folder + "/job", job.id.empty() ? job.name : job.name + ' ' + job.id)) return true;
  }
  return false;
}
std::string new_name() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/uuid") >> id;
  return "trainwright-" + id;
}

void cancel(const Job& job) { asked({"scancel", "--name=" + job.name, job.id}); }

CommandEnd not_started(std::string why) {
  return {Kind::NotStarted, 0, Seconds(0), std::move(why)};
}

// Held: it does not run before its id is written down. Options of the user come first, so that
// those that matter here win.
Answer submit(const Launch& launch, const std::string& folder, const std::string& name) {
  std::vector<std::string> words = {"sbatch"};
  words.insert(words.end(), launch.sbatch->begin(), launch.sbatch->end());
  const std::vector<std::string> ours = {"--parsable",
                                         "--hold",
                                         "--job-name=" + name,
                                         "--output=" + folder + "/log",
                                         "--error=" + folder + "/log",
                                         "--open-mode=truncate",
                                         folder + "/job.sh",
                                         folder};
  words.insert(words.end(), ours.begin(), ours.end());
  words.insert(words.end(), launch.words.begin(), launch.words.end());
  return asked(words, launch.environment);
}

std::string id_by_name(const std::string& name) {  // "" if there is none
  const Answer found = answered({"squeue", "--noheader", "--name=" + name, "--format=%i"});
  return found.code == 0 ? found.text.substr(0, found.text.find('\n')) : "";
}

// The job of the folder, submitted if it is not yet; or why it cannot be.
tl::expected<Job, CommandEnd> submitted(const Launch& launch, const std::string& folder) {
  Job job = job_of(folder);
  if (job.name.empty()) {
    job.name = new_name();
    if (!write_job(folder, job)) return tl::unexpected(not_started("`job` cannot be written"));
  } else if (job.id.empty()) {
    job.id = id_by_name(job.name);
  }
  while (job.id.empty()) {
    if (asked_to_stop != 0) return tl::unexpected(CommandEnd{Kind::Stopped, 0, Seconds(0)});
    const Answer answer = submit(launch, folder, job.name);
    // --parsable: "12" or "12;cluster", after warnings if there are any.
    const std::string last = answer.text.substr(answer.text.rfind('\n') + 1);
    if (answer.code == 0) job.id = last.substr(0, last.find(';'));
    if (is_unheard(answer)) job.id = id_by_name(job.name);
    if (job.id.empty() && !is_down(answer) && !is_unheard(answer)) {
      return tl::unexpected(
          not_started(fmt::format("{}", fmt::join(split(answer.text, '\n'), "; "))));
    }
  }
  if (write_job(folder, job)) return job;
  cancel(job);
  return tl::unexpected(not_started("the id of job " + job.id + " cannot be written"));
}

// What accounting, where there is any, says of a job that scontrol no longer knows.
std::optional<CommandEnd> accounted(const Job& job) {
  const Answer answer = asked({"sacct", "--noheader", "--parsable2", "--allocations",
                               "--jobs=" + job.id, "--format=JobName,State,ExitCode,ElapsedRaw"});
  if (answer.code != 0) return std::nullopt;
  for (const std::string_view line : split(answer.text, '\n')) {
    if (const auto state = accounted_state(line); state && state->name == job.name)
      return end_of_job(job.id, *state);
  }
  return std::nullopt;
}

// Slurm knows nothing of it, so it cannot be cancelled; what runs of it ends by itself.
CommandEnd lost(const std::string& folder, const Job& job, Seconds ran) {
  int code = 0;
  const auto has_ended = [&] { return bool(std::ifstream(folder + "/exit") >> code); };
  if (has_ended()) return {Kind::Exited, code, ran, fmt::format("Slurm lost job {}", job.id)};
  for (const auto start = Clock::now(); !has_ended() && since(start) < kMostPatience; rest(1)) {
    written(folder + "/stop", "");
  }
  return {Kind::NodeFailure, 0, ran,
          fmt::format("Slurm lost its record of job {}; {}", job.id,
                      has_ended() ? "what ran on was stopped" : "nothing was heard of it since")};
}

// What makes the watcher end a running job.
class Limits {
 public:
  Limits(const Launch& launch, std::string log) : launch_(launch), log_(std::move(log)) {}
  std::optional<Kind> broken(bool runs, Seconds ran) {
    struct stat now = {};
    const bool grew = stat(log_.c_str(), &now) == 0 && now.st_size != size_;
    if (grew || !runs) heard_ = Clock::now();
    size_ = now.st_size;
    if (asked_to_stop != 0) return Kind::Stopped;
    if (runs && ran > launch_.time_limit) return Kind::TimeLimit;
    if (since(heard_) > launch_.silence.value()) return Kind::Hang;
    return std::nullopt;
  }

 private:
  const Launch& launch_;
  std::string log_;
  off_t size_ = 0;
  Clock::time_point heard_ = Clock::now();
};

CommandEnd followed(const Launch& launch, const std::string& folder, const Job& job) {
  const auto start = Clock::now();
  Limits limits(launch, folder + "/log");
  std::optional<Kind> why;  // it is ended by the watcher
  JobState known;
  for (;; rest(std::clamp(since(start) / 20, kSoonest, kLatest))) {
    const Answer answer = asked({"scontrol", "--oneliner", "show", "job", job.id});
    const auto state = answer.code == 0 ? job_state(answer.text) : std::nullopt;
    const bool gone = answer.text.find("Invalid job id") != std::string::npos;
    if (gone || (state && state->name != job.name)) {
      const auto told = accounted(job);
      CommandEnd end = told ? *told : lost(folder, job, known.ran);
      if (why) end.kind = *why;
      return end;
    }
    if (state) known = *state;
    auto end = state ? end_of_job(job.id, *state) : std::nullopt;
    if (end && why) end->kind = *why;
    if (end) return *std::move(end);
    if (!why) why = limits.broken(known.state == "RUNNING", known.ran);
    if (why) cancel(job);
  }
}

}  // namespace

std::optional<JobState> accounted_state(std::string_view line) {
  const auto cells = split(line, '|');
  if (cells.size() != 4 || cells[0].empty()) return std::nullopt;
  const std::string_view state = cells[1];  // "CANCELLED by 1000"
  const auto codes = split(cells[2], ':');
  return JobState{.name = std::string(cells[0]),
                  .state = std::string(state.substr(0, state.find(' '))),
                  .reason = {},
                  .code = static_cast<int>(parse_integer(codes.front()).value_or(0)),
                  .signal = static_cast<int>(parse_integer(codes.back()).value_or(0)),
                  .restarts = 0,
                  .ran = Seconds(static_cast<double>(parse_integer(cells[3]).value_or(0)))};
}

std::optional<JobState> job_state(std::string_view line) {
  JobState state{.name = std::string(field(line, "JobName=")),
                 .state = std::string(field(line, "JobState=")),
                 .reason = std::string(field(line, "Reason=")),
                 .restarts = parse_integer(field(line, "Restarts=")).value_or(0),
                 .ran = run_time(field(line, "RunTime="))};
  if (state.name.empty() || state.state.empty()) return std::nullopt;
  const auto codes = split(field(line, "ExitCode="), ':');
  state.code = static_cast<int>(parse_integer(codes.front()).value_or(0));
  state.signal = static_cast<int>(parse_integer(codes.back()).value_or(0));
  return state;
}

std::optional<CommandEnd> end_of_job(const std::string& id, const JobState& state) {
  struct End {
    std::string_view state;
    Kind kind;
  };
  constexpr End kEnds[] = {{"COMPLETED", Kind::Exited},      {"FAILED", Kind::Exited},
                           {"CANCELLED", Kind::Cancelled},   {"PREEMPTED", Kind::Cancelled},
                           {"DEADLINE", Kind::Cancelled},    {"REVOKED", Kind::Cancelled},
                           {"TIMEOUT", Kind::TimeLimit},     {"OUT_OF_MEMORY", Kind::OutOfMemory},
                           {"NODE_FAIL", Kind::NodeFailure}, {"BOOT_FAIL", Kind::NodeFailure}};
  const auto* const found = std::find_if(std::begin(kEnds), std::end(kEnds),
                                         [&](const End& end) { return end.state == state.state; });
  if (found == std::end(kEnds)) return std::nullopt;
  CommandEnd end{found->kind, state.code, state.ran,
                 fmt::format("Slurm's job {}: {}", id, state.state)};
  if (state.reason != "None" && !state.reason.empty()) end.said += ", " + state.reason;
  if (state.restarts > 0) end.said += fmt::format(", restarts: {}", state.restarts);
  if (end.kind == Kind::Exited && state.signal != 0) {
    end.kind = Kind::Killed;
    end.code = state.signal;
  }
  return end;
}

CommandEnd run_job(const Launch& launch) {
  const std::string folder = std::filesystem::absolute(launch.folder).string();
  const auto job = submitted(launch, folder);
  if (!job) return job.error();
  answered({"scontrol", "release", job->id});
  return followed(launch, folder, *job);
}

}  // namespace trainwright::detail
