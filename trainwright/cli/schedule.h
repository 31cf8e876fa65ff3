#pragma once
// What the subcommands of `trainwright schedule` share: the options that name a schedule and its
// costs, and how a timed schedule is shown.
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/cli/command.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright::cli {

std::vector<Argument> shape_arguments();  // --ranks, --microbatches, --chunks, --group, --limit
// --costs, --transfers, --links, --engine; `of` says what one cost is of.
std::vector<Argument> cost_arguments(std::string_view of = "a stage");
std::vector<Argument> file_arguments();  // --csv, --comms, --trace, --svg

// --ranks and --microbatches, which must be given, and --chunks; the rest is for `make` to judge.
Result<Shape> shape_of(const Invocation& invocation);
Result<Costs> costs_of(const Invocation& invocation, int stages);
Result<ClockOptions> clock_of(const Invocation& invocation);
MakeOptions make_options_of(const Invocation& invocation);

// A kind's name or a CSV file, made or read, checked, and its costs.
struct Named {
  std::string name;
  Schedule schedule;
  Costs costs;
};
Result<Named> named_schedule(const Invocation& invocation);

// `auto` in place of a kind: the best schedule found under --memory-cap.
std::vector<Argument> auto_arguments();  // --memory-cap, --placement, --budget
struct Found {
  AutoSchedule result;
  Costs costs;
};
Result<Found> find_schedule(const Invocation& invocation);
Result<Output> run_auto(const Invocation& invocation);

// The files that were asked for. One named "-" is printed, and then nothing else should be; --json
// has it beside the figures.
struct Files {
  bool printed = false;
  Json shown = Json::object();  // what is printed, by its option
  std::string text;
  std::vector<File> files;
};
Result<Files> files_of(const Invocation& invocation, const Schedule& schedule, const Costs& costs,
                       const ClockOptions& clock);

Json to_json(const Schedule& schedule, const Timeline& timeline);
// "8 ranks, 16 stages in a V, 32 micro-batches" and a table of the ranks' time and memory.
std::string to_summary(const Invocation& invocation, const Schedule& schedule,
                       const Timeline& timeline, const Costs& costs);

}  // namespace trainwright::cli
