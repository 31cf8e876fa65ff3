#pragma once
// Trials, one after the other, until none is worth it. Part of tune.h: include that one.
//
// Whatever moment it dies at, running it again on the same history goes on from there: a planned
// trial is started, a started one is waited for or, if its watcher is gone without a word, counted
// as lost and tried again, and what has ended is learned from. What a killed watcher left running
// is ended before anything else is started; a trial of another host, where its watcher may be
// alive, is not touched.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/export/export.h"
#include "trainwright/tune/ending.h"
#include "trainwright/tune/history.h"
#include "trainwright/tune/tune.h"

namespace trainwright {

// What a trial is started with beside the command.
struct TrialFiles {
  std::vector<Artefact> files;
  std::vector<std::string> settings;  // as words
  std::vector<std::pair<std::string, std::string>> environment;
};
struct TuneJob {
  std::vector<Trial> trials;
  // For layouts that the history has and the list has not: planned earlier, with other constants.
  std::function<Result<Trial>(const std::string& layout)> trial_of;
  std::function<Result<TrialFiles>(const std::string& layout)> files;
  // The word {settings} stands for the trainer's settings; {folder}, {layout} and {steps} are
  // filled in within words.
  std::vector<std::string> command;
  std::optional<std::vector<std::string>> sbatch = {};  // as in Launch
  TuneTerms terms;
  Doubt doubt = {};
  Reading reading;
  Seconds time_limit{3600}, silence{600};
  std::string program = {};   // as in Launch
  bool host_is_gone = false;  // where a trial was started on another host: that one is down
};
std::vector<std::string> filled_in(const std::vector<std::string>& command,
                                   const std::vector<std::string>& settings,
                                   const std::string& folder, const std::string& layout,
                                   std::int64_t steps);

// About once a second.
struct TrialUnderWay {
  const TrialRecord& trial;
  Seconds elapsed;   // since it is waited for
  std::string said;  // the last line of its log
};
struct TuneHooks {
  std::function<void(const std::string& line)> tell = [](const std::string&) {};
  std::function<void(const TrialUnderWay&)> watching = nullptr;
  std::function<bool()> interrupted = [] { return false; };
  std::function<void()> between = [] {};  // any two writes: for tests that die there
};
struct Tuned {
  std::vector<Trial> trials;  // with those of the history
  std::vector<TrialOutcome> outcomes;
  std::vector<Belief> beliefs;
  Proposal last;
  bool interrupted = false;
};
Result<Tuned> run_trials(History& history, const TuneJob& job, const TuneHooks& hooks = {});
// The same without running any: what is known by now.
Result<Tuned> known_by_now(const History& history, const TuneJob& job);

}  // namespace trainwright
