// trainwright schedule make auto and zb-vpp: schedules under a memory cap.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/schedule.h"
#include "trainwright/schedule/zb_vpp.h"

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

}  // namespace

Result<std::optional<Bytes>> memory_cap_of(const Invocation& invocation) {
  const auto text = invocation.text("memory-cap");
  if (!text) return std::nullopt;
  return std::optional<Bytes>(TW_TRY(parse_cap(*text)));
}

namespace {

Result<AutoOptions> auto_options_of(const Invocation& invocation, int chunks) {
  AutoOptions options;
  options.chunks = chunks;
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

// What of a schedule the clock does not see: the optimizer's step, which needs as much on some
// rank.
void heed_step(const Priced& priced, Bytes cap, AutoSchedule& found) {
  if (!priced.layout) return;
  for (const Bytes needed : priced.layout->bytes.at_step) {
    found.smallest_cap = std::max(found.smallest_cap, needed);
    if (needed > cap) found.schedule = std::nullopt;
  }
}

Result<AutoSchedule> find_auto(const Invocation& invocation, Shape shape, const Priced& priced,
                               std::optional<Bytes> cap) {
  AutoOptions options = TW_TRY(auto_options_of(invocation, shape.chunks));
  options.clock = priced.clock;
  // Bytes hang on where a stage is.
  if (priced.layout) options.placements = {priced.layout->question.read.layout.placement};
  if (priced.layout && shape.chunks == 1) options.placements = {StagePlacement::Loop};
  if (cap) options.cap = {*cap};
  return make_auto(shape.ranks, shape.microbatches, priced.costs, options);
}

}  // namespace

std::vector<Argument> auto_arguments() {
  return {
      {"--memory-cap", Argument::Kind::Text,
       "auto and zb-vpp: most that a rank may keep, in activations or bytes (60GiB); with --model "
       "all that is allocated",
       false, "N"},
      {"--placement", Argument::Kind::Text,
       "auto: how stages lie on ranks (with --model v, unless loop is given)", false, "v|loop|any"},
      {"--budget", Argument::Kind::Integer, "auto: actions to place while searching", false, "N"}};
}

bool heeds_cap(const Invocation& invocation) {
  const std::string name = invocation.text("schedule").value_or("");
  if (name == "auto") return true;
  const auto kind = parse_kind(name);
  return kind && *kind == ScheduleKind::ZbVpp && invocation.flag("memory-cap");
}

Result<AutoSchedule> zb_vpp_under(Shape shape, const Priced& priced, Bytes cap) {
  const Placement placement = placed(StagePlacement::V, shape.ranks, shape.chunks);
  AutoSchedule found;
  found.smallest_cap = smallest_cap(placement, shape.microbatches, priced.costs, priced.clock);
  found.lower_bound = lower_bound(placement, shape.microbatches, priced.costs, {cap}, priced.clock);
  if (cap >= found.smallest_cap) {
    found.schedule = TW_TRY(make_zb_vpp_under(shape, priced.costs, {cap}, priced.clock));
    found.timeline = simulate(*found.schedule, priced.costs, priced.clock);
  }
  heed_step(priced, cap, found);
  return found;
}

Result<Found> find_schedule(const Invocation& invocation) {
  Found found;
  found.name = invocation.text("schedule").value_or("");
  const bool automatic = found.name == "auto";
  if (!automatic) found.name = facts_of(ScheduleKind::ZbVpp).name;
  Shape shape = TW_TRY(shape_of(invocation));
  if (shape.chunks == 0) shape.chunks = 2;
  if (!automatic && !invocation.flag("chunks")) shape.chunks = std::max(shape.chunks, 2);
  if (shape.ranks < 1 || shape.chunks < 1 || shape.ranks > kMaxRanks ||
      shape.chunks > kMaxStages / shape.ranks) {
    return fail("--ranks, --chunks", fmt::format("there are 1 to {} stages", kMaxStages));
  }
  found.cap = TW_TRY(memory_cap_of(invocation));
  const bool loop = automatic && invocation.text("placement") == "loop";
  found.priced = TW_TRY(priced(invocation, shape.ranks, shape.chunks,
                               loop ? StagePlacement::Loop : StagePlacement::V));
  Diagnostics faults =
      check_costs(found.priced.costs, shape.ranks * shape.chunks, shape.microbatches);
  if (!automatic) {
    for (const char* option : {"limit", "group", "placement", "budget"}) {
      if (!invocation.flag(option)) continue;
      faults.push_back({fmt::format("--{}", option),
                        "zb-vpp under a memory cap does not look at it", "leave it out"});
    }
    for (Diagnostic& fault : faults_of(ScheduleKind::ZbVpp, shape))
      faults.push_back(std::move(fault));
  }
  if (!faults.empty()) return fail(std::move(faults));
  if (!automatic) {
    found.result = TW_TRY(zb_vpp_under(shape, found.priced, *found.cap));
    return found;
  }
  found.result = TW_TRY(find_auto(invocation, shape, found.priced, found.cap));
  if (found.cap) heed_step(found.priced, *found.cap, found.result);
  return found;
}

Result<Output> run_found(const Invocation& invocation) {
  const Found found = TW_TRY(find_schedule(invocation));
  const AutoSchedule& result = found.result;
  const Costs& costs = found.priced.costs;
  Json json = Json::object();
  json.add("kind", Json::of(found.name));
  if (!result.schedule) {
    json.add("fits", Json::of(false)).add("smallest_cap", Json::of(result.smallest_cap.value()));
    const std::string text = fmt::format("nothing fits the cap; the smallest that does is {}\n",
                                         memory_text(result.smallest_cap, costs));
    return Output{invocation.json ? document_text(invocation.data, json) : text, Exit::DoesNotFit};
  }
  Files files = TW_TRY(files_of(invocation, *result.schedule, found.priced, found.cap));
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
  std::string text =
      files.text + to_summary(invocation, *result.schedule, result.timeline, found.priced) +
      fmt::format("no schedule under this cap is shorter than {}: at most {} above the best\n",
                  time_text(result.lower_bound, costs.in_forwards), percent(gap(result)));
  if (found.priced.layout) {
    text += order_note(*found.priced.layout, *result.schedule, invocation.width);
  }
  return Output{std::move(text), Exit::Ok, std::move(files.files)};
}

}  // namespace trainwright::cli
