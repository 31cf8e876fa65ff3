#include "trainwright/tune/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "trainwright/base/text.h"
#include "trainwright/tune/slurm.h"

namespace trainwright::detail {

volatile std::sig_atomic_t asked_to_stop = 0;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void rest(double seconds) {
  const double whole = std::floor(seconds);
  const timespec pause{static_cast<time_t>(whole), static_cast<long>(1e9 * (seconds - whole))};
  nanosleep(&pause, nullptr);
}

bool written(const std::string& path, const std::string& text) {
  const std::string draft = path + ".draft";
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return false;
  const bool whole = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                     fsync(file) == 0;
  close(file);
  return whole && rename(draft.c_str(), path.c_str()) == 0;
}

int become(const std::vector<std::string>& words,
           const std::vector<std::pair<std::string, std::string>>& environment) {
  signal(SIGTERM, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, 0);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  execvp(pointers.front(), pointers.data());
  return errno;
}

namespace {

constexpr double kLook = 0.02;  // seconds between two looks at the command
constexpr double kGrace = 5;    // from SIGTERM to SIGKILL

// All below a process: what it forked and what was left to it, parents first.
std::vector<pid_t> all_below(pid_t top) {
  std::vector<std::pair<pid_t, pid_t>> parents;  // of whom, who
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = parse_integer(entry.path().filename().string());
    if (!pid) continue;
    if (const auto stat = stat_of(*pid)) {
      parents.emplace_back(static_cast<pid_t>(stat->parent), static_cast<pid_t>(*pid));
    }
  }
  std::vector<pid_t> below = {top};
  for (std::size_t i = 0; i < below.size(); ++i) {
    for (const auto& [parent, pid] : parents) {
      if (parent == below[i]) below.push_back(pid);
    }
  }
  below.erase(below.begin());
  return below;
}
void signal_below(pid_t top, int signal) {
  for (const pid_t pid : all_below(top)) kill(pid, signal);
}
bool reap_all() {  // whether none is left
  for (;;) {
    const pid_t reaped = waitpid(-1, nullptr, WNOHANG);
    if (reaped == 0) return false;
    if (reaped < 0 && errno == ECHILD) return true;
  }
}
// Again and again: a process may fork while it is looked for.
void end_all_below() {
  signal_below(getpid(), SIGTERM);
  for (const auto start = Clock::now(); !reap_all(); rest(kLook)) {
    if (since(start) > kGrace) signal_below(getpid(), SIGKILL);
  }
}

// Everything that the program had open, the lock of its history among it, but the gate.
void close_others(int gate) {
  const auto kept = static_cast<unsigned>(gate);
  if (kept > 3) close_range(3, kept - 1, 0);
  close_range(kept + 1, ~0U, 0);
}

pid_t start(const Launch& launch, int log) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  // If the watcher is killed: what the command itself started is found by its mark.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv(kTrialMark, mark_of(launch.folder).c_str(), 1);
  setpgid(0, 0);
  dup2(log, 1);
  dup2(log, 2);
  const int fault = become(launch.words, launch.environment);
  // 126 and 127 as shells have it; the log says why.
  dprintf(2, "%s: cannot be started: errno %d\n", launch.words.front().c_str(), fault);
  _exit(fault == ENOENT ? 127 : 126);
}

CommandEnd watched(const Launch& launch, pid_t pid, int log) {
  const auto start = Clock::now();
  auto heard = start;
  off_t size = 0;
  for (;; rest(kLook)) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) {
      const bool killed = WIFSIGNALED(status);
      return {killed ? CommandEnd::Kind::Killed : CommandEnd::Kind::Exited,
              killed ? WTERMSIG(status) : WEXITSTATUS(status), Seconds(since(start))};
    }
    struct stat now = {};
    if (fstat(log, &now) == 0 && now.st_size != size) {
      size = now.st_size;
      heard = Clock::now();
    }
    const Seconds took(since(start));
    if (asked_to_stop != 0) return {CommandEnd::Kind::Stopped, 0, took};
    if (took > launch.time_limit) return {CommandEnd::Kind::TimeLimit, 0, took};
    if (since(heard) > launch.silence.value()) return {CommandEnd::Kind::Hang, 0, took};
  }
}

CommandEnd run_command(const Launch& launch, int log) {
  const pid_t pid = start(launch, log);
  if (pid < 0) {
    return {CommandEnd::Kind::NotStarted, errno, Seconds(0), "no process can be made"};
  }
  const CommandEnd end = watched(launch, pid, log);
  end_all_below();
  return end;
}

}  // namespace

void watch(const Launch& launch, int gate) {
  close_others(gate);
  struct sigaction listen = {};
  listen.sa_handler = [](int) { asked_to_stop = 1; };
  sigaction(SIGTERM, &listen, nullptr);
  signal(SIGINT, SIG_IGN);  // Ctrl-C is for the program, which asks this one to stop.
  signal(SIGHUP, SIG_IGN);
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  char go = 0;
  ssize_t got = 0;
  while ((got = read(gate, &go, 1)) < 0 && errno == EINTR && asked_to_stop == 0) {
  }
  if (got != 1) _exit(0);
  close(gate);
  const std::string path = launch.folder + "/log";
  const int log = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {0, 1, 2}) dup2(nothing, standard);
  const CommandEnd end =
      launch.sbatch ? run_job(launch) : run_command(launch, log >= 0 ? log : nothing);
  // A full disk may have room again.
  for (int tries = 0; tries < 600 && !written(launch.folder + "/end", end_text(end)); ++tries) {
    rest(0.1);
  }
  _exit(0);
}

}  // namespace trainwright::detail
