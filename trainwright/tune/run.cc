#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "trainwright/base/text.h"
#include "trainwright/tune/tune.h"

namespace trainwright {
namespace {

constexpr std::uintmax_t kLongestLog = 256'000'000;  // characters, from the end
constexpr std::uintmax_t kLongestLine = 4096;
constexpr auto kLook = std::chrono::milliseconds(20);

// The log from its end.
std::string log_of(const std::string& folder, std::uintmax_t most = kLongestLog) {
  const std::string path = folder + "/log";
  std::error_code fault;
  const std::uintmax_t size = std::filesystem::file_size(path, fault);
  if (fault) return {};
  std::ifstream file(path, std::ios::binary);
  if (size > most) file.seekg(static_cast<std::streamoff>(size - most));
  return {std::istreambuf_iterator<char>(file), {}};
}

// Says how it goes, about once a second.
class Telling {
 public:
  Telling(const TuneHooks& hooks, const TrialRecord& trial, std::string folder)
      : hooks_(hooks), trial_(trial), folder_(std::move(folder)) {}
  void operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (!hooks_.watching || now < next_) return;
    next_ = now + std::chrono::seconds(1);
    hooks_.watching({trial_, Seconds(std::chrono::duration<double>(now - start_).count()),
                     last_line(log_of(folder_, kLongestLine))});
  }

 private:
  const TuneHooks& hooks_;
  const TrialRecord& trial_;
  std::string folder_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), next_ = start_;
};

Result<void> write_file(const std::string& path, const std::string& text) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.flush();
  if (file) return {};
  return fail(path, "it cannot be written",
              "make room on the disk, then `trainwright tune resume`; nothing is lost");
}

std::string replaced(std::string word, std::string_view what, const std::string& by) {
  for (std::size_t at = 0; (at = word.find(what, at)) != std::string::npos; at += by.size()) {
    word.replace(at, what.size(), by);
  }
  return word;
}

// Files first, then the watcher, then the history, and only then it runs.
Result<Watcher> start_trial(History& history, const TuneJob& job, const TrialRecord& trial,
                            const TuneHooks& hooks) {
  const std::string folder = history.folder_of(trial.id);
  TrialFiles files = TW_TRY(job.files(trial.layout));
  if (job.sbatch) files.files.push_back({"job.sh", std::string(job_script())});
  Launch launch{
      .words = filled_in(job.command, files.settings, folder, trial.layout, job.terms.steps),
      .environment = files.environment,
      .folder = folder,
      .time_limit = job.time_limit,
      .silence = job.silence,
      .sbatch = job.sbatch,
      .program = job.program};
  std::string command;
  for (const std::string& word : launch.words) command += word + '\n';
  if (auto done = write_file(folder + "/command", command); !done)
    return tl::unexpected(done.error());
  for (const Artefact& file : files.files) {
    if (auto done = write_file(folder + '/' + file.path, file.text); !done) {
      return tl::unexpected(done.error());
    }
  }
  hooks.between();
  Held held = TW_TRY(hold(launch));
  hooks.between();
  if (auto done = history.start(trial.id, held.watcher()); !done)
    return tl::unexpected(done.error());
  hooks.between();
  held.let_go();
  hooks.between();
  return held.watcher();
}

// Waits for a trial's end and writes it down. `false`: it was interrupted.
Result<bool> finish_trial(History& history, const TuneJob& job, const TrialRecord& trial,
                          Watcher watcher, const TuneHooks& hooks) {
  const std::string folder = history.folder_of(trial.id);
  Telling telling(hooks, trial, folder);
  bool interrupted = false;
  std::optional<CommandEnd> end;
  while (!(end = end_of(folder, watcher))) {
    if (!is_alive(watcher)) {
      end = end_of(folder, watcher);  // It may have ended in between.
      if (!end && !job.sbatch) {
        if (const std::int64_t left = sweep(folder); left > 0) {
          hooks.tell(
              fmt::format("trial {}: its watcher was killed; {} processes that it left are ended",
                          trial.id, left));
        }
      }
      if (end || !job.sbatch) break;
      // A job outlives its watcher: another one goes on with it.
      if (auto done = history.put_back(trial.id); !done) return tl::unexpected(done.error());
      watcher = TW_TRY(start_trial(history, job, trial, hooks));
    }
    if (!interrupted && hooks.interrupted()) {
      interrupted = true;
      stop(watcher);
    }
    telling();
    std::this_thread::sleep_for(kLook);
  }
  const TrialResult result = ending_of(log_of(folder), end, job.reading);
  hooks.between();
  if (auto done = history.end(trial.id, result, end ? end->took : Seconds(0)); !done) {
    return tl::unexpected(done.error());
  }
  hooks.between();
  // 126 and 127: no other layout's command can be started either.
  const bool cannot_run = end && end->kind == CommandEnd::Kind::Exited &&
                          result.end == TrialEnd::NodeFailure &&
                          (end->code == 126 || end->code == 127);
  if (cannot_run || (end && end->kind == CommandEnd::Kind::NotStarted)) {
    return fail(fmt::format("trial {}", trial.id), result.cause,
                "no other could be started either; once it is mended, `trainwright tune resume`, "
                "with the command anew "
                "after -- if that is what was wrong");
  }
  const bool ok = result.end == TrialEnd::Ok;
  hooks.tell(fmt::format(
      "trial {}: {}{}; {}", trial.id, name_of(result.end),
      ok ? fmt::format(", {} a step, predicted {}", to_text(result.step), to_text(trial.predicted))
         : std::string(),
      result.cause));
  return !interrupted;
}

// The first thing that a watcher does once it is let go is to open the log; it may take a moment
// until one that is not has ended.
bool was_let_go(const std::string& folder, const Watcher& watcher) {
  std::error_code ignored;
  const auto opened = [&] { return std::filesystem::exists(folder + "/log", ignored); };
  while (!opened() && is_alive(watcher)) std::this_thread::sleep_for(kLook);
  return opened();
}

// What a kill has left half done. `false`: it was interrupted.
Result<bool> recover(History& history, const TuneJob& job, const TuneHooks& hooks) {
  for (const TrialRecord& trial : TW_TRY(history.records())) {
    if (trial.state == TrialState::Ended) continue;
    Watcher watcher = trial.watcher;
    if (trial.state == TrialState::Started && is_elsewhere(watcher) && !job.host_is_gone) {
      return fail(fmt::format("trial {}", trial.id),
                  fmt::format("it was started on host {}, where it may still run", watcher.host),
                  fmt::format("resume there; if {} is down or was started anew: --host-is-gone",
                              watcher.host));
    }
    bool waits = trial.state == TrialState::Planned;
    if (!waits && !was_let_go(history.folder_of(trial.id), watcher)) {
      if (auto done = history.put_back(trial.id); !done) return tl::unexpected(done.error());
      waits = true;
    }
    if (waits) {
      hooks.tell(fmt::format("trial {}: {}, planned before", trial.id, trial.layout));
      watcher = TW_TRY(start_trial(history, job, trial, hooks));
    } else {
      hooks.tell(fmt::format("trial {}: {}, started before", trial.id, trial.layout));
    }
    if (!TW_TRY(finish_trial(history, job, trial, watcher, hooks))) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> filled_in(const std::vector<std::string>& command,
                                   const std::vector<std::string>& settings,
                                   const std::string& folder, const std::string& layout,
                                   std::int64_t steps) {
  std::vector<std::string> words;
  for (const std::string& word : command) {
    if (word == "{settings}") {
      words.insert(words.end(), settings.begin(), settings.end());
      continue;
    }
    words.push_back(replaced(replaced(replaced(word, "{folder}", folder), "{layout}", layout),
                             "{steps}", std::to_string(steps)));
  }
  return words;
}

Result<Tuned> known_by_now(const History& history, const TuneJob& job) {
  Tuned tuned;
  tuned.trials = job.trials;
  const std::vector<TrialRecord> records = TW_TRY(history.records());
  for (const TrialRecord& record : records) {
    if (record.state != TrialState::Ended) continue;
    auto at = std::find_if(tuned.trials.begin(), tuned.trials.end(),
                           [&](const Trial& trial) { return trial.layout == record.layout; });
    if (at == tuned.trials.end()) {
      tuned.trials.push_back(TW_TRY(job.trial_of(record.layout)));
      at = tuned.trials.end() - 1;
    }
    const auto memory = at->memory ? seen_memory(record.memory, *at->memory) : std::nullopt;
    tuned.outcomes.push_back({static_cast<std::size_t>(at - tuned.trials.begin()), record.end,
                              record.step, memory, record.host, record.cause, record.stepped});
  }
  tuned.beliefs = learn(tuned.trials, tuned.outcomes, job.doubt);
  tuned.last = propose(tuned.trials, tuned.outcomes, tuned.beliefs, job.terms, spent_on(records));
  return tuned;
}

Result<Tuned> run_trials(History& history, const TuneJob& job, const TuneHooks& hooks) {
  bool goes_on = TW_TRY(recover(history, job, hooks));
  for (;;) {
    Tuned tuned = TW_TRY(known_by_now(history, job));
    tuned.interrupted = !goes_on || hooks.interrupted();
    const Proposal& next = tuned.last;
    if (tuned.interrupted || next.stop != TuneStop::Not) return tuned;
    TrialRecord trial;
    trial.layout = tuned.trials[next.trial].layout;
    const Belief& belief = tuned.beliefs[next.trial];
    trial.predicted = belief.expected;
    hooks.between();
    trial.id = TW_TRY(history.plan(trial.layout, next.why, belief));
    hooks.between();
    hooks.tell(fmt::format("trial {}: {}\n  {}", trial.id, trial.layout, next.why));
    const Watcher watcher = TW_TRY(start_trial(history, job, trial, hooks));
    goes_on = TW_TRY(finish_trial(history, job, trial, watcher, hooks));
  }
}

}  // namespace trainwright
