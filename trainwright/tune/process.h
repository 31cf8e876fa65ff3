#pragma once
// A trial as processes: started so that none is ever lost, and ended without touching others. Part
// of tune.h: include that one.
//
// The program starts a watcher, which waits. Only after the watcher stands in the history is it let
// go; if the program dies before, the watcher ends with it. The watcher runs the command (a list of
// words, never a shell) with its output in `log`, adopts all its descendants, wherever they put
// themselves, and ends them when the command ends, the time is up, the log falls silent or it gets
// SIGTERM; the command itself dies with its watcher, and what a killed watcher leaves carries a
// mark by which the next program finds and ends it. Then the watcher writes how it ended to `end`.
// It outlives the program: who resumes finds it at work, or its `end`.
//
// Under Slurm the watcher submits the command as a held job whose name no other job has, writes
// name and id to `job`, and only then releases it. It cancels the job where it would end processes,
// by id and name: an id alone may be another's after Slurm has lost its records. A watcher that is
// gone can be started again, and goes on with the job of its folder, found by that name if need be.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/base/units.h"

namespace trainwright {

// A process that cannot be taken for another one.
struct Watcher {
  std::int64_t pid = 0;
  std::int64_t born = 0;  // ticks after boot
  std::string boot;       // which boot
  std::string host = {};  // where; empty: not written down
};
bool is_alive(const Watcher& watcher);  // of this host's
// It was started on another host, where it may be alive.
bool is_elsewhere(const Watcher& watcher);

// In the environment of all that a trial runs: its folder, by which what a killed watcher left
// behind is found.
inline constexpr const char* kTrialMark = "TRAINWRIGHT_TRIAL";
// Ends every process of this host that carries the folder's mark; how many there were. Returns when
// none is left, or after 30 s with what a SIGKILL does not end.
std::int64_t sweep(const std::string& folder);
std::string mark_of(const std::string& folder);  // its whole path

struct Launch {
  std::vector<std::string> words;  // of the command; at least one
  std::vector<std::pair<std::string, std::string>> environment = {};  // beside that of the program
  std::string folder;                                                 // exists
  Seconds time_limit{3600};
  Seconds silence{600};  // of the log, after which it hangs
  // Options of sbatch; absent: it runs here.
  std::optional<std::vector<std::string>> sbatch = {};
  // The trainwright program, which is executed as the watcher: `watch_trial` below. Empty: the
  // watcher is a fork, for programs of one thread that use this library.
  std::string program = {};
};
// Forked, and waiting to be let go.
class Held {
 public:
  explicit Held(Watcher watcher, int gate) : watcher_(std::move(watcher)), gate_(gate) {}
  ~Held();  // ends the watcher unless it was let go
  Held(Held&& other) noexcept;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  Held& operator=(Held&&) = delete;
  const Watcher& watcher() const { return watcher_; }
  void let_go();

 private:
  Watcher watcher_;
  int gate_ = -1;
};
Result<Held> hold(const Launch& launch);
// The words that make the program a watcher, and what it then does: reads the launch from the
// folder, waits at the gate, which is file 3, watches. Returns an exit code only if it cannot
// begin.
inline constexpr std::string_view kWatchWord = "watch-trial";
int watch_trial(const std::string& folder);

// How the command ended.
struct CommandEnd {
  enum class Kind : std::uint8_t {
    Exited,     // with `code`
    Killed,     // by the signal `code`
    TimeLimit,  // these three by the watcher
    Hang,
    Stopped,
    NotStarted,
    OutOfMemory,  // these three by Slurm
    Cancelled,
    NodeFailure,
  };
  Kind kind = Kind::Exited;
  int code = 0;
  Seconds took;
  std::string said = {};  // by Slurm or the system: a sentence, or nothing
};
// The options of sbatch that a text holds, cut at blanks as a shell does, quotes heeded. Refused is
// what would make more or other than one job of the trial's command: arrays, --wrap, parts of a
// heterogeneous job, an environment that is not passed on.
Result<std::vector<std::string>> sbatch_options(std::string_view text);

// What is run in a Slurm job: the words after the folder, whose `exit` says how they ended, and
// whose `stop` ends them where Slurm no longer knows the job.
std::string_view job_script();

// Once it has ended; reaps the watcher if it is a child.
std::optional<CommandEnd> end_of(const std::string& folder, const Watcher& watcher);
// Asks the watcher to end the command; nothing if it is gone.
void stop(const Watcher& watcher);

}  // namespace trainwright
