#pragma once
// What the subcommands of `trainwright schedule` share: the options that name a schedule and its
// costs, and how a timed schedule is shown.
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/cli/command.h"
#include "trainwright/memory/clocked_bytes.h"
#include "trainwright/question/question.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright::cli {

std::vector<Argument> shape_arguments();  // --ranks, --microbatches, --chunks, --group, --limit
// --costs, --transfers, --links, --engine; `of` says what one cost is of.
std::vector<Argument> cost_arguments(std::string_view of = "a stage");
std::vector<Argument> file_arguments();  // --csv, --comms, --trace, --svg

// --model, --on, --layout and how it is trained: in place of --ranks, --microbatches and --costs.
std::vector<Argument> layout_arguments();
bool of_layout(const Invocation& invocation);  // any of them is given
Result<Question> layout_question(const Invocation& invocation);
// What the layout's stages cost if each rank has so many, placed so.
struct LayoutCosts {
  Question question;
  StepPieces pieces;
  StackConstants stack;
  ClockedBytes bytes;
};
Result<LayoutCosts> layout_costs(const Invocation& invocation, int chunks,
                                 StagePlacement placement);
// What the figures of a schedule are of.
std::string layout_text(const LayoutCosts& of, const Timeline& timeline, int width);
// Whether the layout's trainer runs an order that was made for it: empty, or why not.
std::string order_note(const LayoutCosts& of, const Schedule& schedule, int width);

// --ranks and --microbatches, which must be given, and --chunks (0: not given), or the layout's;
// the rest is for `make` to judge.
Result<Shape> shape_of(const Invocation& invocation);
// What a schedule is timed with, and where from if it is a layout.
struct Priced {
  Costs costs;
  ClockOptions clock;
  std::optional<LayoutCosts> layout = {};
};
Result<Priced> priced(const Invocation& invocation, int ranks, int chunks,
                      std::optional<StagePlacement> placement);
Result<Costs> costs_of(const Invocation& invocation, int stages);
Result<ClockOptions> clock_of(const Invocation& invocation);
MakeOptions make_options_of(const Invocation& invocation);

// A kind's name or a CSV file, made or read, checked, and its costs.
struct Named {
  std::string name;
  Schedule schedule;
  Priced priced;
  std::optional<Bytes> cap = {};
};
Result<Named> named_schedule(const Invocation& invocation);

// Schedules that heed --memory-cap: `auto`, the best one found, and zb-vpp.
std::vector<Argument> auto_arguments();  // --memory-cap, --placement, --budget
Result<std::optional<Bytes>> memory_cap_of(const Invocation& invocation);
bool heeds_cap(const Invocation& invocation);
struct Found {
  std::string name;
  AutoSchedule result;
  Priced priced;
  std::optional<Bytes> cap = {};
};
Result<Found> find_schedule(const Invocation& invocation);
Result<Output> run_found(const Invocation& invocation);
// The same of costs that are known.
Result<AutoSchedule> zb_vpp_under(Shape shape, const Priced& priced, Bytes cap);

// The files that were asked for. One named "-" is printed, and then nothing else should be; --json
// has it beside the figures.
struct Files {
  bool printed = false;
  Json shown = Json::object();  // what is printed, by its option
  std::string text;
  std::vector<File> files;
};
Result<Files> files_of(const Invocation& invocation, const Schedule& schedule, const Priced& priced,
                       std::optional<Bytes> cap);

Json to_json(const Schedule& schedule, const Timeline& timeline);
// "8 ranks, 16 stages in a V, 32 micro-batches" and a table of the ranks' time and memory.
std::string to_summary(const Invocation& invocation, const Schedule& schedule,
                       const Timeline& timeline, const Priced& priced);

}  // namespace trainwright::cli
