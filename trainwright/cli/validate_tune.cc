// trainwright validate tune: orders of trials, replayed on published sweeps.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/validate.h"
#include "trainwright/report/report.h"
#include "trainwright/tune/tune.h"

namespace trainwright::cli {
namespace {

constexpr const char* kSource = "aleph-alpha-2023";

// Kernels that a row had switched on or off have places of their own, two apart from each other.
void add_kernels(OutcomeTable& table) {
  std::vector<std::string> kinds;
  for (const TableRow& row : table.rows) {
    if (std::find(kinds.begin(), kinds.end(), row.kernels) == kinds.end()) {
      kinds.push_back(row.kernels);
    }
  }
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    for (const std::string& kind : kinds) {
      table.trials[i].place.push_back(kind == table.rows[i].kernels ? 1.4142135623730951 : 0.0);
    }
  }
}

OutcomeTable table_of(const TriedSweep& sweep, const Cases& cases, const WithoutSource& left,
                      bool held_out) {
  OutcomeTable table;
  table.name = sweep.name;
  table.nodes = node_count(cases.cluster_of(*sweep.tried.front().made).groups.front());
  for (const TriedRun& run : sweep.tried) {
    const StackConstants& constants = held_out ? left.without(run.made->time_fold) : left.constants;
    table.trials.push_back(trial_of(run.made->layout, run.pieces, constants, run.chance));
    table.rows.push_back({run.made->layout, run.made->words.trainer + run.made->words.attention,
                          run.ran(), run.ran() ? Seconds(run.measured()) : Seconds(),
                          run.pieces.bound});
  }
  add_kernels(table);
  return table;
}

std::string trials_text(const std::optional<double>& trials) {
  return trials ? significant(*trials, 3) : "never";
}

std::string table_text(const std::vector<TableScore>& scores, int width) {
  Table table{{{"sweep"},
               {"rows", Align::Right},
               {"ran", Align::Right},
               {"order"},
               {"2 %", Align::Right},
               {"1 %", Align::Right},
               {"OOM", Align::Right},
               {"node-min", Align::Right},
               {"ends", Align::Right},
               {"regret", Align::Right}},
              {}};
  for (const TableScore& score : scores) {
    const auto add = [&](bool first, const char* order, const OrderScore& of) {
      table.rows.push_back({first ? score.name : "", first ? with_thousands(score.rows) : "",
                            first ? with_thousands(score.ran) : "", order, trials_text(of.within_2),
                            trials_text(of.within_1), significant(of.ooms, 3),
                            fmt::format("{:.0f}", of.node_minutes), significant(of.trials, 3),
                            fmt::format("{:.1f} %", 100 * of.regret)});
    };
    add(true, "tune", score.tuned);
    add(false, "random", score.random);
    add(false, "grid", score.grid);
    add(false, "roofline", score.roofline);
  }
  return to_text(table, width);
}

std::string goal_text(const std::vector<TableScore>& scores) {
  const auto reached = [&](OrderScore TableScore::* which) {
    return std::count_if(scores.begin(), scores.end(),
                         [&](const TableScore& score) { return reaches_goal(score.*which); });
  };
  return fmt::format(
      "within 2 % after at most 3 trials and 1 % after at most 5, at most one OOM:\n"
      "tune {0}, random {1}, grid {2}, roofline {3} of {4} sweeps\n",
      reached(&TableScore::tuned), reached(&TableScore::random), reached(&TableScore::grid),
      reached(&TableScore::roofline), scores.size());
}

Result<Output> run_validate_tune(const Invocation& invocation) {
  const std::string data = invocation.data.path();
  const Knowledge knowledge = TW_TRY(load_knowledge(data));
  const auto measured = TW_TRY(read_measured_runs(*invocation.text("measurements")));
  const Cases cases = cases_of(measured, knowledge);
  const TimeConstants constants = TW_TRY(load_time_constants(data));
  const TimedRuns runs = time_runs(cases, constants.kernels, constants.stacks);
  const MemoryConstants memory = TW_TRY(load_memory_constants(data));
  const LeftOut left = leave_source_out(runs, kSource);
  const auto sweeps =
      tried_sweeps(cases, {constants.kernels, memory, left, constants.stacks}, {kSource});
  if (sweeps.empty()) {
    return fail("--measurements", fmt::format("it holds no sweep of {}", kSource),
                "for instance ../shared/measurements");
  }
  const TuneTerms terms;
  std::string text = fmt::format(
      "trials until within 2 % and 1 % of the sweep's best, and until then: OOMs met and\n"
      "node-minutes, at {0} of start-up and {1} steps a trial; ends, regret: where it stops\n",
      to_text(terms.start_up), terms.steps);
  Json document = Json::object();
  for (const bool held_out : {true, false}) {
    std::vector<TableScore> scores;
    for (const TriedSweep& sweep : sweeps) {
      scores.push_back(score_table(table_of(sweep, cases, left.begin()->second, held_out), terms));
    }
    text += fmt::format("\n{}\n\n{}\n{}",
                        held_out ? "constants fitted to the other sweeps of the source"
                                 : "constants as they ship without this source",
                        table_text(scores, invocation.width), goal_text(scores));
    document.add(held_out ? "held_out" : "as_shipped", to_json(scores));
  }
  return Output{invocation.json ? document_text(invocation.data, document) : text, Exit::Ok};
}

}  // namespace

Command validate_tune_command() {
  return {.name = "tune",
          .summary = "how many real trials `tune` needs on published sweeps, beside other orders",
          .details =
              "Sweeps of Aleph Alpha (2023) as tables of outcomes: what is tried next, what it "
              "teaches and when it is enough are those of `tune`, with constants that have not "
              "seen the sweep. Beside it: a random order (mean of 1,000), the grid with history "
              "pruning of PaddlePaddle's tuner, and the least FLOPs first.",
          .examples = {"trainwright validate tune --measurements ../shared/measurements"},
          .arguments = measurement_arguments(),
          .run = run_validate_tune};
}

}  // namespace trainwright::cli
