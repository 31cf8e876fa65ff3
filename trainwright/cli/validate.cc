// trainwright validate: how wrong the predictions are on published runs, by source.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/calibrate/calibrate.h"
#include "trainwright/cli/setting.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

double right_share(const VerdictScore& verdicts) {
  return static_cast<double>(verdicts.right) / static_cast<double>(verdicts.rows);
}

std::vector<std::string> cells(const std::string& name, const ErrorScore& errors) {
  return {name,
          with_thousands(errors.rows),
          percent(errors.mape),
          percent(errors.median),
          percent(errors.worst),
          ""};
}

std::string error_table(const std::vector<SourceScore>& scores, int width,
                        MemoryScore SourceScore::* which) {
  Table table{{{"readings"},
               {"rows", Align::Right},
               {"MAPE", Align::Right},
               {"median", Align::Right},
               {"worst", Align::Right},
               {"in 90 %", Align::Right}},
              {}};
  for (const SourceScore& source : scores) {
    const MemoryScore& score = source.*which;
    if (!score.errors) continue;
    table.rows.push_back(cells(source.source, *score.errors));
    if (score.coverage) table.rows.back().back() = percent(score.coverage->share);
    for (const auto& [kind, errors] : score.by_kind) {
      table.rows.push_back(cells("  " + kind, errors));
    }
    if (score.without_broken) {
      table.rows.push_back(cells("  without broken", *score.without_broken));
    }
    if (score.undetermined) table.rows.push_back(cells("  undetermined", *score.undetermined));
  }
  return table.rows.empty() ? std::string() : to_text(table, width) + '\n';
}

std::string verdict_table(const std::vector<SourceScore>& scores, int width,
                          MemoryScore SourceScore::* which) {
  Table table{{{"verdicts"},
               {"rows", Align::Right},
               {"right", Align::Right},
               {"false fits", Align::Right},
               {"false OOMs", Align::Right}},
              {}};
  const auto add = [&](const std::string& name, const VerdictScore& verdicts) {
    table.rows.push_back({name, with_thousands(verdicts.rows), percent(right_share(verdicts)),
                          with_thousands(verdicts.false_fits),
                          with_thousands(verdicts.false_ooms)});
  };
  for (const SourceScore& source : scores) {
    const MemoryScore& score = source.*which;
    if (score.verdicts) add(source.source, *score.verdicts);
    if (score.with_crashes) add("  with likely crashes", *score.with_crashes);
  }
  return table.rows.empty() ? std::string() : to_text(table, width) + '\n';
}

// "0.47 %" of errors, "98.1 % right" of verdicts, whichever a source has.
std::string short_score(const MemoryScore& score) {
  if (score.errors) return percent(score.errors->mape);
  if (!score.verdicts) return "-";
  return percent(right_share(*score.verdicts)) + " right";
}

std::string learned_table(const std::vector<SourceScore>& scores, int width) {
  Table table{{{"source"},
               {"folds with it", Align::Right},
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
  return "what only the rows could tell (facts whose source says \"learned\")\n\n" +
         to_text(table, width) + '\n';
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
  Diagnostics faults;
  const auto source = invocation.text("source");
  const std::vector<std::string> known = known_sources();
  if (source && std::find(known.begin(), known.end(), *source) == known.end()) {
    faults.push_back({"--source",
                      fmt::format("'{}' is not a source that memory is scored on", *source),
                      did_you_mean(*source, known, "the sources are " + enumerate(known))});
  }
  auto runs = value_or_faults(read_measured_runs(*invocation.text("measurements")), faults);
  if (!faults.empty()) return fail(std::move(faults));
  return *std::move(runs);
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
  std::string text = "held out: fitted on the other folds of the source\n\n";
  text += error_table(scores, width, &SourceScore::held_out);
  text += verdict_table(scores, width, &SourceScore::held_out);
  text += "as shipped: medians of what the other sources say\n\n";
  text += error_table(scores, width, &SourceScore::as_shipped);
  text += verdict_table(scores, width, &SourceScore::as_shipped);
  text += learned_table(scores, width) + skipped_text(scores, width);
  return Output{std::move(text), Exit::Ok};
}

Command validate_memory_command() {
  return {
      .name = "memory",
      .summary = "memory against published runs: errors, verdicts, intervals",
      .details =
          "Held out: a row is predicted by constants that never saw its fold (sweep, "
          "model size, test case). As shipped: by the medians of what the other sources say. "
          "Broken: rows that contradict themselves or that their source calls so; undetermined: "
          "rows that leave out something memory hangs on, not in the source's own line.",
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
