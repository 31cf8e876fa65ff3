#pragma once
// Private to `trainwright tune`: the question as a job, and answers for people and programs.
#include <memory>
#include <string>
#include <vector>

#include "trainwright/cli/command.h"
#include "trainwright/cli/plan.h"
#include "trainwright/tune/tune.h"

namespace trainwright::cli {

// A job with what its functions refer to.
struct TuneQuestion {
  Invocation invocation;
  Wanted wanted = {};
  std::vector<Layout> among = {};  // only these, where any are named
  std::optional<StepModel> steps = {};
  TuneJob job = {};  // without trials
  HistoryKey key = {};
};
// What was asked, all faults of its words at once.
Result<std::unique_ptr<TuneQuestion>> tune_question(const Invocation& invocation);
// The same from a history, where it was written down.
std::string asked_text(const Invocation& invocation);
Result<std::unique_ptr<TuneQuestion>> tune_question(const Invocation& invocation,
                                                    const History& history);
// The layouts that are named, or those that `plan` finds, as trials: as long as a plan takes.
Result<std::vector<Trial>> candidates(TuneQuestion& of);

Json tuned_json(const History& history, const std::vector<TrialRecord>& records,
                const Tuned& tuned);
std::string tuned_text(const std::vector<TrialRecord>& records, const Tuned& tuned, int width);
const TrialRecord* best_of(const std::vector<TrialRecord>& records);  // none: nullptr
// For a terminal, while it runs: three lines within the width.
std::string under_way_text(const TrialUnderWay& now, const std::vector<TrialRecord>& records,
                           const TuneTerms& terms, int width);
// A page that needs nothing else, as of `plan --report`.
Result<std::string> tuned_page(const TuneQuestion& of, const History& history,
                               const std::vector<TrialRecord>& records, const Tuned& tuned);
Result<Output> tuned_output(const Invocation& invocation, const History& history,
                            const Tuned& tuned);

Argument history_argument();
Command tune_status_command();
Command tune_show_command();
Command tune_export_command();

}  // namespace trainwright::cli
