#pragma once
// What was tried and how it ended, in an SQLite database that survives a kill at any moment. Part
// of tune.h: include that one.
//
// A history is a folder: `history.sqlite`, `lock`, and `trial-N` with the files, the log and the
// end of each trial. A trial is planned, started (with the process that watches it) and ended, and
// each of these is one transaction. One program at a time writes; others may read. A history is of
// one question: model, cluster, trainer, batch, command, software. Changed parts are named, never
// mixed.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/logs/logs.h"
#include "trainwright/tune/process.h"
#include "trainwright/tune/tune.h"

namespace trainwright {

enum class TrialState : std::uint8_t { Planned, Started, Ended };
std::string_view name_of(TrialState state);  // "planned"

struct TrialRecord {
  std::int64_t id = 0;  // from 1
  std::string layout;
  TrialState state = TrialState::Planned;
  std::string why;    // it was chosen
  Seconds predicted;  // as believed then
  double oom = 0;     // likewise
  Watcher watcher;    // of Started
  TrialEnd end = TrialEnd::Ok;
  Seconds step;                      // of Ok
  double spread = 0;                 // of its steps
  Seconds took;                      // from start to end
  std::string cause;                 // in a sentence
  std::vector<LoggedMemory> memory;  // peaks that its log prints, of Ok
  bool host = false;                 // of OutOfMemory: not the accelerator's
  bool stepped = false;              // it came to a step before it failed
};
// [{"rank": 0, "allocated_bytes": ..., "reserved_bytes": ...}], what is known of each.
Json to_json(const std::vector<LoggedMemory>& memory);
Seconds spent_on(const std::vector<TrialRecord>& records);  // all of them together
// What a trial ended with.
struct TrialResult {
  TrialEnd end = TrialEnd::Ok;
  Seconds step = {};
  double spread = 0;
  std::string cause;
  std::vector<LoggedMemory> memory = {};
  bool host = false;
  bool stepped = false;  // it came to a step before it failed
};

// Parts of the question by name: "model", "cluster", ...; any text.
using HistoryKey = std::map<std::string, std::string>;

class History {
 public:
  // Makes the folder where there is none. Diagnoses another program at work, a history of another
  // question, and what is no history. Parts that are `renewed` may differ, and are written down
  // anew with `asked`.
  static Result<History> begin(const std::string& folder, const HistoryKey& key,
                               const std::string& asked,
                               const std::vector<std::string>& renewed = {});
  static Result<History> look(const std::string& folder);  // to read, also while another writes
  ~History();
  History(History&&) noexcept;
  History& operator=(History&&) noexcept;

  const std::string& folder() const;
  std::string folder_of(std::int64_t trial) const;  // "tuning/trial-3"
  Result<std::string> asked() const;                // as `begin` got it
  Result<std::vector<TrialRecord>> records() const;
  Result<std::int64_t> plan(const std::string& layout, const std::string& why,
                            const Belief& belief);
  Result<void> start(std::int64_t trial, const Watcher& watcher);
  // A started trial whose watcher was never let go.
  Result<void> put_back(std::int64_t trial);
  Result<void> end(std::int64_t trial, const TrialResult& result, Seconds took);
  // "ok", or what SQLite's own check finds.
  Result<std::string> integrity() const;

 private:
  struct State;
  explicit History(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trainwright
