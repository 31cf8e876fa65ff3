// trainwright schedule make auto: the best schedule under a memory cap.
#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/schedule.h"

namespace trainwright::cli {
namespace {

// A plain number counts what `kept` counts (activations when no bytes were given), else "40GiB".
Result<Bytes> parse_cap(const std::string& text) {
  if (const auto plain = parse_integer(text)) {
    if (*plain >= 1) return Bytes(*plain);
    return fail("--memory-cap", "it must be at least 1");
  }
  return parse_bytes(text);
}

Result<AutoOptions> auto_options_of(const Invocation& invocation, int chunks) {
  AutoOptions options;
  options.chunks = chunks;
  options.clock = TW_TRY(clock_of(invocation));
  if (const auto cap = invocation.text("memory-cap")) {
    options.cap = {TW_TRY(parse_cap(*cap))};
  }
  const std::string placement = invocation.text("placement").value_or("any");
  if (placement == "any") {
    options.placements = {StagePlacement::V, StagePlacement::Loop};
  } else if (placement == "v" || placement == "loop") {
    options.placements = {placement == "v" ? StagePlacement::V : StagePlacement::Loop};
  } else {
    const std::vector<std::string> names = {"any", "loop", "v"};
    return fail("--placement",
                fmt::format("'{}' is not one of {}", placement, enumerate(names, "or")),
                did_you_mean(placement, names));
  }
  if (const auto budget = invocation.integer("budget")) {
    if (*budget < 1) return fail("--budget", "it must be at least 1");
    options.budget = *budget;
  }
  return options;
}

}  // namespace

std::vector<Argument> auto_arguments() {
  return {
      {"--memory-cap", Argument::Kind::Text,
       "auto: most that a rank may keep, in activations or bytes", false, "N"},
      {"--placement", Argument::Kind::Text, "auto: how stages lie on ranks", false, "v|loop|any"},
      {"--budget", Argument::Kind::Integer, "auto: actions to place while searching", false, "N"}};
}

Result<Found> find_schedule(const Invocation& invocation) {
  Shape shape = TW_TRY(shape_of(invocation));
  if (!invocation.flag("chunks")) shape.chunks = 2;
  if (shape.ranks < 1 || shape.chunks < 1 || shape.ranks > kMaxRanks ||
      shape.chunks > kMaxStages / shape.ranks) {
    return fail("--ranks, --chunks", fmt::format("there are 1 to {} stages", kMaxStages));
  }
  Found found;
  found.costs = TW_TRY(costs_of(invocation, shape.ranks * shape.chunks));
  Diagnostics faults = check_costs(found.costs, shape.ranks * shape.chunks, shape.microbatches);
  if (!faults.empty()) return fail(std::move(faults));
  const AutoOptions options = TW_TRY(auto_options_of(invocation, shape.chunks));
  found.result = TW_TRY(make_auto(shape.ranks, shape.microbatches, found.costs, options));
  return found;
}

Result<Output> run_auto(const Invocation& invocation) {
  const Found found = TW_TRY(find_schedule(invocation));
  const AutoSchedule& result = found.result;
  Json json = Json::object();
  json.add("kind", Json::of("auto"));
  if (!result.schedule) {
    json.add("fits", Json::of(false)).add("smallest_cap", Json::of(result.smallest_cap.value()));
    const std::string text = fmt::format("nothing fits the cap; the smallest that does is {}\n",
                                         memory_text(result.smallest_cap, found.costs));
    return Output{invocation.json ? document_text(invocation.data, json) : text, Exit::DoesNotFit};
  }
  const ClockOptions clock = TW_TRY(clock_of(invocation));
  Files files = TW_TRY(files_of(invocation, *result.schedule, found.costs, clock));
  if (files.printed && !invocation.json) {
    return Output{files.text, Exit::Ok, std::move(files.files)};
  }
  if (invocation.json) {
    const Json figures = to_json(*result.schedule, result.timeline);
    for (const auto& [key, value] : figures.members) json.add(key, value);
    json.add("lower_bound", Json::of(result.lower_bound.value()))
        .add("gap", Json::of(gap(result)))
        .add("smallest_cap", Json::of(result.smallest_cap.value()))
        .add("evaluations", Json::of(result.evaluations))
        .add("actions_placed", Json::of(result.actions));
    if (files.printed) json.add("printed", std::move(files.shown));
    return Output{document_text(invocation.data, json), Exit::Ok, std::move(files.files)};
  }
  return Output{
      files.text + to_summary(invocation, *result.schedule, result.timeline, found.costs) +
          fmt::format("no schedule under this cap is shorter than {}: at most {} above the "
                      "best\n",
                      time_text(result.lower_bound, found.costs.in_forwards), percent(gap(result))),
      Exit::Ok, std::move(files.files)};
}

}  // namespace trainwright::cli
