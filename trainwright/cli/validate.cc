// trainwright validate: how wrong the predictions are on published runs, by source.
#include "trainwright/cli/validate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/setting.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

// Too few rows tell no interval.
std::string percent_of(double share) {
  return std::isfinite(share) ? fmt::format("{:.2f} %", 100 * share) : "any";
}

double right_share(const VerdictScore& verdicts) {
  return static_cast<double>(verdicts.right) / static_cast<double>(verdicts.rows);
}

// One line of the table of readings: the same part of the three columns.
struct Columns {
  std::optional<ErrorScore> shipped, held_out, without;
};

std::string mape_of(const std::optional<ErrorScore>& errors) {
  return errors ? percent_of(errors->mape) : "";
}

std::vector<std::string> cells(const std::string& name, const Columns& of) {
  return {name,
          with_thousands(of.shipped->rows),
          mape_of(of.shipped),
          mape_of(of.held_out),
          mape_of(of.without),
          percent_of(of.shipped->median),
          percent_of(of.shipped->worst)};
}

template <class Part>
Columns columns_of(const SourceScore& source, Part part) {
  Columns columns{part(source.as_shipped), part(source.held_out), std::nullopt};
  if (source.without_learned) columns.without = part(*source.without_learned);
  return columns;
}

void add_readings(Table& table, const SourceScore& source) {
  const auto add = [&](const std::string& name, auto part) {
    const Columns columns = columns_of(source, part);
    if (columns.shipped) table.rows.push_back(cells(name, columns));
  };
  add(source.source, [](const MemoryScore& score) { return score.errors; });
  for (const auto& entry : source.as_shipped.by_kind) {
    add("  " + entry.first, [&](const MemoryScore& score) {
      const auto found = score.by_kind.find(entry.first);
      return found == score.by_kind.end() ? std::nullopt : std::optional(found->second);
    });
  }
  add("  without broken", [](const MemoryScore& score) { return score.without_broken; });
  add("  undetermined", [](const MemoryScore& score) { return score.undetermined; });
}

std::string reading_table(const std::vector<SourceScore>& scores, int width) {
  Table table{{{"readings"},
               {"rows", Align::Right},
               {"shipped", Align::Right},
               {"held out", Align::Right},
               {"unlearned", Align::Right},
               {"median", Align::Right},
               {"worst", Align::Right}},
              {}};
  for (const SourceScore& source : scores) add_readings(table, source);
  if (table.rows.empty()) return {};
  return to_text(table, width) + '\n';
}

std::string interval_table(const std::vector<SourceScore>& scores, int width) {
  Table table{{{"90 % intervals"},
               {"rows", Align::Right},
               {"shipped", Align::Right},
               {"half width", Align::Right},
               {"held out", Align::Right},
               {"half width", Align::Right}},
              {}};
  for (const SourceScore& source : scores) {
    const auto& shipped = source.as_shipped.coverage;
    const auto& held = source.held_out.coverage;
    if (!shipped || !held) continue;
    table.rows.push_back({source.source, with_thousands(shipped->rows), percent_of(shipped->share),
                          percent_of(source.as_shipped.width), percent_of(held->share),
                          percent_of(source.held_out.width)});
  }
  if (table.rows.empty()) return {};
  return to_text(table, width) + '\n';
}

std::string verdict_table(const std::vector<SourceScore>& scores, int width) {
  Table table{{{"verdicts"},
               {"", Align::Left},
               {"rows", Align::Right},
               {"right", Align::Right},
               {"false fits", Align::Right},
               {"false OOMs", Align::Right},
               {"tight", Align::Right}},
              {}};
  const auto add = [&](std::string name, const char* column, const VerdictScore& verdicts) {
    table.rows.push_back({std::move(name), column, with_thousands(verdicts.rows),
                          percent_of(right_share(verdicts)), with_thousands(verdicts.false_fits),
                          with_thousands(verdicts.false_ooms), with_thousands(verdicts.tight)});
  };
  for (const SourceScore& source : scores) {
    if (!source.as_shipped.verdicts) continue;
    add(source.source, "shipped", *source.as_shipped.verdicts);
    add("", "held out", *source.held_out.verdicts);
    if (source.without_learned) add("", "unlearned", *source.without_learned->verdicts);
    if (source.as_shipped.with_crashes) {
      add("  with likely crashes", "shipped", *source.as_shipped.with_crashes);
    }
  }
  return table.rows.empty() ? std::string() : to_text(table, width) + '\n';
}

std::string apart_text(const std::vector<SourceScore>& scores, int width) {
  std::string text;
  const auto say = [&](const SourceScore& score, const char* what, const auto& counts) {
    for (const auto& [reason, count] : counts) {
      const std::string line = fmt::format("{}: {} {}: {}", score.source, count, what, reason);
      for (const std::string& part : wrapped(line, width)) text += part + '\n';
    }
  };
  for (const SourceScore& score : scores) {
    say(score, "skipped", score.skipped);
    say(score, "refused by our own rule", score.refused);
  }
  return text;
}

std::string scores_text(const std::vector<SourceScore>& scores, int width) {
  std::string text =
      "mean absolute errors; shipped: as `estimate` prints it, this source left out of\n"
      "its constants; held out: constants of the other folds; unlearned: as shipped,\n"
      "without what only rows could tell\n\n";
  text += reading_table(scores, width);
  text += interval_table(scores, width);
  text += verdict_table(scores, width);
  return text + apart_text(scores, width);
}

Result<Output> run_validate_memory(const Invocation& invocation) {
  const Knowledge knowledge = TW_TRY(load_knowledge(invocation.data.path()));
  const std::vector<MeasuredRun> runs = TW_TRY(wanted_runs(
      invocation, memory_sources(knowledge), "memory is", {"source", "constants-without"}));
  const MemoryConstants constants = TW_TRY(load_memory_constants(invocation.data.path()));
  // As shipped is fitted on the other sources, so all of them are read whichever is shown.
  const Cases cases = cases_of(runs, knowledge);
  const ScoredRows rows = score_rows(cases, constants);
  if (const auto source = invocation.text("constants-without")) {
    const FittedConstants fitted = fit_memory(rows, constants, *source);
    return Output{to_text(to_json(with_fitted(constants, fitted))), Exit::Ok};
  }
  const Knowledge left = TW_TRY(load_knowledge(invocation.data.path(), Learned::Left));
  std::vector<SourceScore> scores = validate_memory(rows, cases_of(runs, left), constants);
  if (const auto source = invocation.text("source")) {
    std::erase_if(scores, [&](const SourceScore& score) { return score.source != *source; });
  }
  const bool with_rows = invocation.flag("rows");
  std::vector<File> files;
  if (with_rows) {
    files = add_commands(scores, cases, constants, invocation.text("files").value_or("rows"));
  }
  if (invocation.json) {
    return Output{document_text(invocation.data, to_json(scores, with_rows)), Exit::Ok,
                  std::move(files)};
  }
  if (with_rows) return Output{to_csv(scores), Exit::Ok, std::move(files)};
  return Output{scores_text(scores, invocation.width), Exit::Ok};
}

Command validate_memory_command() {
  return {
      .name = "memory",
      .summary = "memory against published runs: errors, verdicts, intervals",
      .details =
          "As shipped: what `estimate` answers with constants fitted without the row's source. "
          "Held out: constants fitted on the other folds of the source (sweep, model size, test "
          "case). Unlearned: as shipped, without facts that only measured rows could tell. Broken: "
          "rows that contradict themselves, or that their source calls broken. Undetermined: rows "
          "that leave out something memory depends on; they are not in the source's own line. "
          "Tight: verdicts with an OOM probability between 5 and 50 %.",
      .examples = {"trainwright validate memory --measurements ../shared/measurements",
                   "trainwright validate memory --measurements ../shared/measurements "
                   "--source simumax_b200 --json",
                   "trainwright validate memory --measurements my_runs.csv --rows"},
      .arguments =
          {{"--measurements", Argument::Kind::Text,
            "a table of measured runs (CSV), published or your own, or a directory of them", true,
            "PATH"},
           {"--source", Argument::Kind::Text, "score this source only", false, "SOURCE"},
           {"--rows", Argument::Kind::Flag,
            "every row: measured, predicted, and the command that predicts it, as CSV or "
            "with --json"},
           {"--files", Argument::Kind::Text,
            "where --rows puts the files that its commands read (default: rows)", false,
            "DIRECTORY"},
           {"--constants-without", Argument::Kind::Text,
            "write the constants of all sources but this one, as `estimate --constants` "
            "reads them",
            false, "SOURCE"}},
      .run = run_validate_memory};
}

}  // namespace

Result<std::vector<MeasuredRun>> wanted_runs(const Invocation& invocation,
                                             std::vector<std::string> known, const char* scored,
                                             std::initializer_list<const char*> options) {
  // Which sources are known depends on the table, so its own faults come first.
  std::vector<MeasuredRun> runs = TW_TRY(read_measured_runs(*invocation.text("measurements")));
  for (const MeasuredRun& run : runs) {
    if (run.asked && std::find(known.begin(), known.end(), run.source) == known.end()) {
      known.push_back(run.source);
    }
  }
  Diagnostics faults;
  for (const char* option : options) {
    const auto source = invocation.text(option);
    if (!source || std::find(known.begin(), known.end(), *source) != known.end()) continue;
    faults.push_back({fmt::format("--{}", option),
                      fmt::format("'{}' is not a source that {} scored on", *source, scored),
                      did_you_mean(*source, known, "the sources are " + enumerate(known))});
  }
  if (!faults.empty()) return fail(std::move(faults));
  return runs;
}

Command validate_command() {
  return {.name = "validate",
          .summary = "how wrong the predictions are on published runs",
          .examples = {"trainwright validate memory --measurements my_runs.csv",
                       "trainwright validate time --measurements ../shared/measurements"},
          .commands = {validate_memory_command(), validate_time_command(),
                       validate_choice_command(), validate_tune_command()}};
}

}  // namespace trainwright::cli
