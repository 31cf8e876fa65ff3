#pragma once
// Private to `trainwright tune`: the question as a job, and answers for people and programs.
#include <memory>
#include <string>
#include <vector>

#include "trainwright/cli/command.h"
#include "trainwright/cli/plan.h"
#include "trainwright/tune/tune.h"

namespace trainwright::cli {

// A layout that could be tried. `order`, where the trainer runs its pipeline from a file: the CSV
// that is named (the layout's schedule is csv), or the kind that one is made of.
struct TuneLayout {
  Layout layout = {};
  std::string order = {};
};
// As --among reads it: the layout's text, but schedule=FILE.csv for one from a file.
std::string to_text(const TuneLayout& one);
Result<TuneLayout> tune_layout(const std::string& text, const Wanted& wanted,
                               std::string_view option);

// A job with what its functions refer to.
struct TuneQuestion {
  Invocation invocation;
  Wanted wanted = {};
  std::vector<TuneLayout> among = {};  // only these, where any are named
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
// What `export` and `estimate` are asked of a trial's layout.
Result<Words> words_for(const TuneQuestion& of, const std::string& layout);
Result<Trial> trial_for(TuneQuestion& of, const std::string& layout);
// The files that --among names and what they hold: a history is of these.
Result<std::string> orders_in(const TuneQuestion& of);
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
