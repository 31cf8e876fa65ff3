// trainwright validate: how wrong the predictions are on published runs, by source.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/calibrate/calibrate.h"
#include "trainwright/cli/command.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::vector<std::string> cells(const MemoryScore& score) {
  const std::string none = "-";
  return {with_thousands(score.rows),
          score.errors ? percent(score.errors->mape) : none,
          score.errors ? percent(score.errors->median) : none,
          score.errors ? percent(score.errors->worst) : none,
          score.verdicts ? percent(static_cast<double>(score.verdicts->right) /
                                   static_cast<double>(score.verdicts->rows))
                         : none,
          score.verdicts
              ? fmt::format("{} / {}", score.verdicts->false_fits, score.verdicts->false_ooms)
              : none,
          score.coverage ? percent(score.coverage->share) : none};
}

std::string score_table(const std::vector<SourceScore>& scores, int width,
                        MemoryScore SourceScore::* which) {
  Table table{{{"source"},
               {"rows", Align::Right},
               {"MAPE", Align::Right},
               {"median", Align::Right},
               {"worst", Align::Right},
               {"fit right", Align::Right},
               {"false fit / OOM", Align::Right},
               {"in 90 %", Align::Right}},
              {}};
  for (const SourceScore& score : scores) {
    std::vector<std::string> row = cells(score.*which);
    row.insert(row.begin(), score.source);
    table.rows.push_back(std::move(row));
    for (const auto& [kind, errors] : (score.*which).by_kind) {
      table.rows.push_back({"  " + kind, with_thousands(errors.rows), percent(errors.mape),
                            percent(errors.median), percent(errors.worst), "", "", ""});
    }
  }
  return to_text(table, width);
}

// "0.47 %" of errors, "98.1 % right" of verdicts, whichever a source has.
std::string short_score(const MemoryScore& score) {
  if (score.errors) return percent(score.errors->mape);
  if (!score.verdicts) return "-";
  return percent(static_cast<double>(score.verdicts->right) /
                 static_cast<double>(score.verdicts->rows)) +
         " right";
}

std::string learned_table(const std::vector<SourceScore>& scores, int width) {
  Table table{{{"source"},
               {"folds that take it", Align::Right},
               {"held out without", Align::Right},
               {"as shipped without", Align::Right}},
              {}};
  for (const SourceScore& score : scores) {
    if (!score.held_out_without_learned) continue;
    table.rows.push_back({score.source,
                          fmt::format("{} of {}", score.folds_with_learned, score.folds),
                          short_score(*score.held_out_without_learned),
                          short_score(*score.as_shipped_without_learned)});
  }
  if (table.rows.empty()) return {};
  return "\nwhat only the rows could tell (facts whose source says \"learned\")\n\n" +
         to_text(table, width);
}

std::string skipped_text(const std::vector<SourceScore>& scores, int width) {
  std::string text;
  for (const SourceScore& score : scores) {
    for (const auto& [reason, count] : score.skipped) {
      const std::string line = fmt::format("{}: {} skipped: {}", score.source, count, reason);
      for (const std::string& part : wrapped(line, width)) text += part + '\n';
    }
  }
  return text;
}

Result<std::vector<MeasuredRun>> wanted_runs(const Invocation& invocation) {
  std::vector<MeasuredRun> runs = TW_TRY(read_measured_runs(*invocation.text("measurements")));
  const auto source = invocation.text("source");
  if (!source) return runs;
  const std::vector<std::string> known = known_sources();
  if (std::find(known.begin(), known.end(), *source) == known.end()) {
    return fail("--source", fmt::format("'{}' is not a source that memory is scored on", *source),
                did_you_mean(*source, known, "the sources are " + enumerate(known)));
  }
  return runs;
}

Result<Output> run_validate_memory(const Invocation& invocation) {
  const std::vector<MeasuredRun> runs = TW_TRY(wanted_runs(invocation));
  const Knowledge knowledge = TW_TRY(load_knowledge(invocation.data));
  const Knowledge left = TW_TRY(load_knowledge(invocation.data, Learned::Left));
  // As shipped is fitted on the other sources, so all of them are read whichever is shown.
  const ScoredRows rows = score_rows(cases_of(runs, knowledge), cases_of(runs, left));
  std::vector<SourceScore> scores = validate_memory(rows);
  if (const auto source = invocation.text("source")) {
    std::erase_if(scores, [&](const SourceScore& score) { return score.source != *source; });
  }
  if (invocation.flag("rows")) return Output{to_csv(scores), Exit::Ok};
  if (invocation.json) return Output{to_text(to_json(scores, fit_memory(rows))), Exit::Ok};
  const int width = invocation.width;
  return Output{"held out: fitted on the other folds of the source\n\n" +
                    score_table(scores, width, &SourceScore::held_out) +
                    "\nas shipped: fitted on the other sources only\n\n" +
                    score_table(scores, width, &SourceScore::as_shipped) +
                    learned_table(scores, width) + '\n' + skipped_text(scores, width),
                Exit::Ok};
}

Command validate_memory_command() {
  return {.name = "memory",
          .summary = "memory against published runs: errors, verdicts, intervals",
          .details =
              "Held out: a row is predicted by constants that never saw its fold (sweep, "
              "model size, test case). As shipped: by constants of all other sources.",
          .examples = {"trainwright validate memory --measurements ../shared/measurements",
                       "trainwright validate memory --measurements ../shared/measurements "
                       "--source simumax_b200 --json"},
          .arguments = {{"--measurements", Argument::Kind::Text, "directory of measured runs (CSV)",
                         true, "DIRECTORY"},
                        {"--source", Argument::Kind::Text, "only this one", false, "SOURCE"},
                        {"--rows", Argument::Kind::Flag,
                         "every row as CSV: measured, predicted, what it is made of"}},
          .run = run_validate_memory};
}

}  // namespace

Command validate_command() {
  return {.name = "validate",
          .summary = "how wrong the predictions are on published runs",
          .commands = {validate_memory_command()}};
}

}  // namespace trainwright::cli
