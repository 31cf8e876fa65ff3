#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/schedule.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

int integer_or(const Invocation& invocation, const std::string& name, int otherwise) {
  const auto value = invocation.integer(name);
  if (!value) return otherwise;
  return static_cast<int>(std::clamp<std::int64_t>(*value, -1, INT32_MAX));
}

// One of several words, with help for a misspelt one.
template <class Value>
Result<Value> choice(const Invocation& invocation, const std::string& option,
                     const std::vector<std::pair<std::string, Value>>& choices) {
  const auto given = invocation.text(option);
  if (!given) return choices.front().second;
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (name == *given) return value;
    names.push_back(name);
  }
  return fail("--" + option, fmt::format("'{}' is not one of {}", *given, enumerate(names, "or")),
              did_you_mean(*given, names));
}

Result<Schedule> sound(Schedule schedule, const std::string& name) {
  const auto violations = check(schedule);
  if (violations.empty()) return schedule;
  Diagnostics diagnostics;
  for (const Violation& violation : violations) {
    diagnostics.push_back({fmt::format("{} rank {}", name, violation.rank.index()),
                           fmt::format("{}: {}", to_text(violation.action), violation.why),
                           {}});
  }
  return fail(std::move(diagnostics));
}

}  // namespace

std::vector<Argument> shape_arguments() {
  return {
      {"--ranks", Argument::Kind::Integer, "pipeline ranks", false, "P"},
      {"--microbatches", Argument::Kind::Integer, "micro-batches per step", false, "M"},
      {"--chunks", Argument::Kind::Integer, "stages per rank (default: the fewest)", false, "V"},
      {"--group", Argument::Kind::Integer, "interleaved kinds: micro-batches per turn of a chunk",
       false, "G"},
      {"--limit", Argument::Kind::Integer, "zb-vpp: most activations kept per rank", false, "N"}};
}

std::vector<Argument> cost_arguments(std::string_view of) {
  return {
      {"--costs", Argument::Kind::Text,
       fmt::format("seconds of {}, F=1,I=1,W=1,comm=0; without it times are in units of F = I = W",
                   of) +
           " (also B, loss, action, overlap; bytes: kept, "
           "input, size, resident, gradients, peak_F, peak_I, ...), or a JSON file with lists by "
           "stage, as record-stage of the engine writes it",
       false, "COSTS"},
      {"--transfers", Argument::Kind::Text, "overlapped with work, or blocking the sender", false,
       "overlapped|blocking"},
      {"--links", Argument::Kind::Text, "any number of transfers at once, or one by one", false,
       "unlimited|serialised"},
      {"--engine", Argument::Kind::Text, "rules of the engine that runs it", false,
       "none|pytorch"}};
}

std::vector<Argument> file_arguments() {
  return {{"--csv", Argument::Kind::Text, "write PyTorch's CSV ('-' prints it)", false, "FILE"},
          {"--comms", Argument::Kind::Flag, "the CSV with sends and receives (compute_comms)"},
          {"--trace", Argument::Kind::Text, "write a trace for ui.perfetto.dev", false, "FILE"},
          {"--svg", Argument::Kind::Text, "write a drawing", false, "FILE"}};
}

Result<Shape> shape_of(const Invocation& invocation) {
  Diagnostics faults;
  for (const std::string name : {"ranks", "microbatches"}) {
    if (!invocation.flag(name)) faults.push_back({"--" + name, "it is needed here", {}});
  }
  if (!faults.empty()) return fail(std::move(faults));
  return Shape{integer_or(invocation, "ranks", 0), integer_or(invocation, "microbatches", 0),
               integer_or(invocation, "chunks", 0)};
}

MakeOptions make_options_of(const Invocation& invocation) {
  return {integer_or(invocation, "group", 0), integer_or(invocation, "limit", 0), {}};
}

Result<Costs> costs_of(const Invocation& invocation, int stages) {
  if (!invocation.text("costs")) {
    Costs units = even_costs(stages, Seconds(1), Seconds(1), Seconds(1));
    units.in_forwards = true;
    return units;
  }
  const std::string text = *invocation.text("costs");
  if (text.find('=') != std::string::npos && !is_file(text)) {
    return parse_costs(text, stages);
  }
  const std::string json = TW_TRY(read_file(text));
  return read_costs_json(json, text, stages);
}

Result<ClockOptions> clock_of(const Invocation& invocation) {
  ClockOptions clock;
  clock.transfers = TW_TRY(choice<Transfers>(
      invocation, "transfers",
      {{"overlapped", Transfers::Overlapped}, {"blocking", Transfers::Blocking}}));
  clock.links = TW_TRY(choice<Links>(
      invocation, "links", {{"unlimited", Links::Unlimited}, {"serialised", Links::Serialised}}));
  clock.engine = TW_TRY(choice<EngineRules>(
      invocation, "engine", {{"none", EngineRules::None}, {"pytorch", EngineRules::PyTorch}}));
  return clock;
}

namespace {

// An option that was given and would change nothing.
void refuse(const Invocation& invocation, std::initializer_list<const char*> options,
            const std::string& what, const std::string& hint, Diagnostics& faults) {
  for (const char* option : options) {
    if (invocation.flag(option)) faults.push_back({fmt::format("--{}", option), what, hint});
  }
}

void check_file_options(const Invocation& invocation, const Schedule& schedule,
                        Diagnostics& faults) {
  const auto same = [&](const char* option, std::int64_t has) {
    const auto given = invocation.integer(option);
    if (!given || *given == has) return;
    faults.push_back({fmt::format("--{}", option),
                      fmt::format("the file has {}, not {}", has, *given), "leave it out"});
  };
  same("ranks", schedule.placement.ranks);
  same("microbatches", schedule.microbatches);
  same("chunks", schedule.placement.stages() / std::max(1, schedule.placement.ranks));
  refuse(invocation, {"group", "limit"}, "the order of a file is fixed", "leave it out", faults);
}

void check_kind_options(const Invocation& invocation, ScheduleKind kind, Diagnostics& faults) {
  const std::string name(facts_of(kind).name);
  if (kind != ScheduleKind::ZbVpp) {
    refuse(invocation, {"limit"}, name + " has no limit", "only zb-vpp has one", faults);
  } else if (invocation.integer("limit").value_or(1) < 1) {
    faults.push_back({"--limit", "it must be at least 1", ""});
  }
  if (!facts_of(kind).grouped) {
    refuse(invocation, {"group"}, name + " passes micro-batches one by one",
           "only interleaved-1f1b and interleaved-zb have groups", faults);
  }
}

}  // namespace

Result<Named> named_schedule(const Invocation& invocation) {
  Named named{.name = invocation.text("schedule").value_or(""), .schedule = {}, .costs = {}};
  const bool from_file = named.name.ends_with(".csv") || is_file(named.name);
  if (named.name == "auto") {
    Found found = TW_TRY(find_schedule(invocation));
    if (!found.result.schedule) {
      return fail("--memory-cap", fmt::format("nothing fits it; the smallest that does is {}",
                                              found.result.smallest_cap.value()));
    }
    named.schedule = *std::move(found.result.schedule);
    named.costs = std::move(found.costs);
    return named;
  }
  Diagnostics unused;
  refuse(invocation, {"memory-cap", "placement", "budget"}, "only auto looks at it",
         "write auto in place of " + named.name, unused);
  if (from_file) {
    const std::string csv = TW_TRY(read_file(named.name));
    named.schedule = TW_TRY(read_schedule_csv(csv, named.name));
    check_file_options(invocation, named.schedule, unused);
    if (!unused.empty()) return fail(std::move(unused));
    named.schedule = TW_TRY(sound(std::move(named.schedule), named.name));
    named.costs = TW_TRY(costs_of(invocation, named.schedule.placement.stages()));
  } else {
    const ScheduleKind kind = TW_TRY(parse_kind(named.name));
    check_kind_options(invocation, kind, unused);
    if (!unused.empty()) return fail(std::move(unused));
    Shape shape = TW_TRY(shape_of(invocation));
    if (!invocation.flag("chunks")) {
      shape.chunks = std::clamp(2, facts_of(kind).chunks_least, facts_of(kind).chunks_most);
    }
    named.schedule = TW_TRY(make(kind, shape, make_options_of(invocation)));
    named.costs = TW_TRY(costs_of(invocation, shape.ranks * shape.chunks));
    if (kind == ScheduleKind::ZbVpp) {  // places W by time
      MakeOptions options = make_options_of(invocation);
      options.costs = named.costs;
      named.schedule = TW_TRY(make(kind, shape, options));
    }
  }
  Diagnostics faults =
      check_costs(named.costs, named.schedule.placement.stages(), named.schedule.microbatches);
  if (!faults.empty()) return fail(std::move(faults));
  return named;
}

Result<Files> files_of(const Invocation& invocation, const Schedule& schedule, const Costs& costs,
                       const ClockOptions& clock) {
  Files files;
  const auto put = [&](const std::string& option, std::string content) {
    const std::string path = *invocation.text(option);
    if (path == "-") {
      files.printed = true;
      files.text += content;
      files.shown.add(option, Json::of(content));
    } else {
      files.text += fmt::format("wrote {}\n", path);
      files.files.push_back({path, std::move(content)});
    }
  };
  if (invocation.flag("csv")) {
    Schedule written = schedule;
    if (invocation.flag("comms")) written = TW_TRY(lower(schedule, costs));
    put("csv", to_csv(written));
  }
  if (!invocation.flag("trace") && !invocation.flag("svg")) return files;
  ClockOptions full = clock;
  full.detail = Detail::Full;
  const Timeline timeline = simulate(schedule, costs, full);
  if (invocation.flag("trace")) put("trace", to_trace(schedule, timeline));
  if (invocation.flag("svg")) put("svg", to_svg(schedule, timeline, costs));
  return files;
}

}  // namespace trainwright::cli
