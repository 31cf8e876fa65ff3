// trainwright validate time and choice: step times against measured runs.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/validate.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

std::string share(double of) { return fmt::format("{:.1f} %", 100 * of); }
std::string mape(const std::optional<ErrorScore>& errors) {
  return errors ? share(errors->mape) : std::string();
}

std::string scores_text(const std::vector<TimeSourceScore>& scores, int width) {
  Table table{{{"step time"},
               {"rows", Align::Right},
               {"shipped", Align::Right},
               {"median", Align::Right},
               {"inside", Align::Right},
               {"one row", Align::Right},
               {"held out", Align::Right},
               {"median", Align::Right},
               {"inside", Align::Right}},
              {}};
  for (const TimeSourceScore& score : scores) {
    const auto& shipped = score.as_shipped;
    const auto& held = score.held_out;
    if (!shipped.errors || !held.errors) continue;
    const auto inside = [](const TimeScore& of) {
      return of.coverage ? share(of.coverage->share) : std::string();
    };
    table.rows.push_back({score.source, with_thousands(shipped.errors->rows), mape(shipped.errors),
                          share(shipped.errors->median), inside(shipped),
                          score.one_row ? share(*score.one_row) : std::string(), mape(held.errors),
                          share(held.errors->median), inside(held)});
    if (!shipped.without_broken) continue;
    table.rows.push_back({"  without broken", with_thousands(shipped.without_broken->rows),
                          mape(shipped.without_broken), share(shipped.without_broken->median), "",
                          "", mape(held.without_broken), share(held.without_broken->median), ""});
  }
  std::string text =
      "mean absolute errors; shipped: as `estimate` prints it, this source left out of\n"
      "its constants; one row: with one run of the source measured; held out: with its\n"
      "other folds measured; inside: rows inside the 90 % interval\n\n";
  text += to_text(table, width);
  for (const TimeSourceScore& score : scores) {
    for (const auto& [reason, count] : score.skipped) {
      text += fmt::format("{}: {} skipped: {}\n", score.source, count, reason);
    }
  }
  return text;
}

struct Loaded {
  Kernels kernels;
  Stacks stacks;
  Cases cases;
  TimedRuns runs;
  bool own = false;  // somebody's, not the published ones
};
Result<Loaded> load_runs(const Invocation& invocation) {
  const std::string data = invocation.data.path();
  const Knowledge knowledge = TW_TRY(load_knowledge(data));
  const std::vector<MeasuredRun> measured =
      TW_TRY(wanted_runs(invocation, known_sources(knowledge), "step times are", {"source"}));
  Loaded loaded{TW_TRY(load_kernels(data)), TW_TRY(load_stacks(data)), {}, {}, false};
  loaded.own = std::all_of(measured.begin(), measured.end(),
                           [](const MeasuredRun& run) { return run.asked.has_value(); });
  loaded.cases = cases_of(measured, knowledge);
  loaded.runs = time_runs(loaded.cases, loaded.kernels, loaded.stacks);
  return loaded;
}

Result<Output> run_validate_time(const Invocation& invocation) {
  const Loaded loaded = TW_TRY(load_runs(invocation));
  const LeftOut left = loaded.own ? shipped(loaded.runs, loaded.stacks)
                                  : leave_sources_out(loaded.runs, loaded.stacks);
  std::vector<TimeSourceScore> scores = validate_time(loaded.runs, left, invocation.text("source"));
  if (invocation.json) {
    std::vector<File> files;
    if (const auto directory = invocation.text("files")) {
      files = add_commands(scores, loaded.cases, left, loaded.stacks, *directory);
    }
    return Output{document_text(invocation.data, to_json(scores, invocation.flag("rows"))),
                  Exit::Ok, std::move(files)};
  }
  return Output{scores_text(scores, invocation.width), Exit::Ok};
}

}  // namespace

std::vector<Argument> measurement_arguments() {
  return {{"--measurements", Argument::Kind::Text,
           "a table of measured runs (CSV), published or your own, or a directory of them", true,
           "PATH"}};
}

Command validate_time_command() {
  std::vector<Argument> arguments = measurement_arguments();
  arguments.push_back(
      {"--source", Argument::Kind::Text, "score this source only", false, "SOURCE"});
  arguments.push_back({"--rows", Argument::Kind::Flag, "every row, with --json"});
  arguments.push_back({"--files", Argument::Kind::Text,
                       "with --rows also the command that predicts a row; the constants that it "
                       "reads go into this directory",
                       false, "DIRECTORY"});
  return {
      .name = "time",
      .summary = "step times against published runs: errors and intervals",
      .details =
          "As shipped: what `estimate` answers with constants fitted without the row's source. "
          "One row: the same after one run of the source was measured, as a mean over its runs. "
          "Held out: after the other folds of the source were measured (sweep, model size, "
          "release).",
      .examples = {"trainwright validate time --measurements ../shared/measurements"},
      .arguments = std::move(arguments),
      .run = run_validate_time};
}

namespace {

std::string choice_text(const std::vector<Sweep>& sweeps, int width) {
  Table table{{{"pick among what was tried"},
               {"sweeps", Align::Right},
               {"mean", Align::Right},
               {"median", Align::Right},
               {"worst", Align::Right},
               {"OOM", Align::Right}},
              {}};
  std::map<std::string, std::vector<Sweep>> by_source;
  for (const Sweep& sweep : sweeps) by_source[sweep.source].push_back(sweep);
  for (const auto& [source, own] : by_source) {
    const auto add = [&](const std::string& name, Sweep::Pick Sweep::* which) {
      const ChoiceScore score = score_choice(own, which);
      table.rows.push_back({name, with_thousands(std::ssize(own)), share(score.mean),
                            share(score.median), share(score.most),
                            with_thousands(score.first_picks_oom)});
    };
    add(source + ", as shipped", &Sweep::as_shipped);
    add("  held out", &Sweep::held_out);
    add("  most dp, least tp", &Sweep::simple);
  }
  return "how much longer the step of our first pick takes than the best one measured;\n"
         "OOM: first picks that ran out of memory\n\n" +
         to_text(table, width);
}

Result<Output> run_validate_choice(const Invocation& invocation) {
  const std::string data = invocation.data.path();
  const Knowledge knowledge = TW_TRY(load_knowledge(data));
  const auto measured = TW_TRY(read_measured_runs(*invocation.text("measurements")));
  const Cases cases = cases_of(measured, knowledge);
  const TimeConstants constants = TW_TRY(load_time_constants(data));
  const TimedRuns runs = time_runs(cases, constants.kernels, constants.stacks);
  const MemoryConstants memory = TW_TRY(load_memory_constants(data));
  const LeftOut left = leave_sources_out(runs, constants.stacks);
  const std::vector<Sweep> sweeps =
      sweeps_of(cases, {constants.kernels, memory, left, constants.stacks},
                {"aleph-alpha-2023", "flagperf", "nanotron_playbook", "vtrain_multi"});
  if (invocation.json) return Output{document_text(invocation.data, choice_json(sweeps)), Exit::Ok};
  return Output{choice_text(sweeps, invocation.width), Exit::Ok};
}

}  // namespace

Command validate_choice_command() {
  return {.name = "choice",
          .summary = "whether the layout picked first is the fastest of those that were tried",
          .details =
              "Sweeps of published runs: one model, one number of accelerators, one batch. The "
              "pick has the least predicted step time among layouts with a chance of OOM of at "
              "most 5 %; its regret is how much longer its measured step takes than the best. "
              "For comparison, a simple rule: most data parallelism, then the least tp.",
          .examples = {"trainwright validate choice --measurements ../shared/measurements"},
          .arguments = measurement_arguments(),
          .run = run_validate_choice};
}

}  // namespace trainwright::cli
