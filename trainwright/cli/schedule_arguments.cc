#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/schedule.h"
#include "trainwright/report/report.h"
#include "trainwright/schedule/memory_drawing.h"

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
  if (of_layout(invocation)) {
    const Question question = TW_TRY(layout_question(invocation));
    const Layout& layout = question.read.layout;
    return Shape{static_cast<int>(layout.pp), static_cast<int>(micro_batch_count(layout)),
                 integer_or(invocation, "chunks", static_cast<int>(layout.vpp))};
  }
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

Result<Priced> priced(const Invocation& invocation, int ranks, int chunks,
                      std::optional<StagePlacement> placement) {
  if (!of_layout(invocation)) {
    return Priced{TW_TRY(costs_of(invocation, ranks * chunks)), TW_TRY(clock_of(invocation))};
  }
  if (!placement) {
    return fail("--layout", "stages of this file go round the ranks in no known way",
                "give --costs instead");
  }
  LayoutCosts of = TW_TRY(layout_costs(invocation, chunks, *placement));
  ClockOptions clock = TW_TRY(clock_of(invocation));
  clock.engine = of.bytes.engine;
  Costs costs = of.bytes.costs;
  return Priced{std::move(costs), clock, std::move(of)};
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

namespace {

// Read from a file.
Result<Named> read_named(const Invocation& invocation, Named named, Diagnostics unused) {
  const std::string csv = TW_TRY(read_file(named.name));
  named.schedule = TW_TRY(read_schedule_csv(csv, named.name));
  check_file_options(invocation, named.schedule, unused);
  if (!unused.empty()) return fail(std::move(unused));
  named.schedule = TW_TRY(sound(std::move(named.schedule), named.name));
  const Placement& placement = named.schedule.placement;
  const int chunks = placement.stages() / std::max(1, placement.ranks);
  if (of_layout(invocation)) {
    const Shape shape = TW_TRY(shape_of(invocation));
    if (shape.ranks != placement.ranks || shape.ranks * chunks != placement.stages() ||
        shape.microbatches != named.schedule.microbatches) {
      return fail(
          "--layout",
          fmt::format("it has {} ranks and {} micro-batches, the file {} and {}", shape.ranks,
                      shape.microbatches, placement.ranks, named.schedule.microbatches));
    }
  }
  if (of_layout(invocation)) {
    named.priced = TW_TRY(priced(invocation, placement.ranks, chunks, style_of(placement)));
  } else {
    named.priced = {TW_TRY(costs_of(invocation, placement.stages())), TW_TRY(clock_of(invocation))};
  }
  return named;
}

// Made as its kind is.
Result<Named> make_named(const Invocation& invocation, Named named, Diagnostics unused) {
  const ScheduleKind kind = TW_TRY(parse_kind(named.name));
  const KindFacts& facts = facts_of(kind);
  check_kind_options(invocation, kind, unused);
  if (!unused.empty()) return fail(std::move(unused));
  Shape shape = TW_TRY(shape_of(invocation));
  if (!invocation.flag("chunks")) {
    const int usual = shape.chunks > 0 ? shape.chunks : 2;
    shape.chunks = std::clamp(usual, facts.chunks_least, facts.chunks_most);
  }
  MakeOptions options = make_options_of(invocation);
  named.schedule = TW_TRY(make(kind, shape, options));
  named.priced = TW_TRY(priced(invocation, shape.ranks, shape.chunks,
                               facts.placement.value_or(StagePlacement::Loop)));
  if (kind == ScheduleKind::ZbVpp) {  // places W by time
    options.costs = named.priced.costs;
    named.schedule = TW_TRY(make(kind, shape, options));
  }
  return named;
}

}  // namespace

Result<Named> named_schedule(const Invocation& invocation) {
  Named named{.name = invocation.text("schedule").value_or(""), .schedule = {}, .priced = {}};
  if (heeds_cap(invocation)) {
    Found found = TW_TRY(find_schedule(invocation));
    if (!found.result.schedule) {
      return fail("--memory-cap",
                  fmt::format("nothing fits it; the smallest that does is {}",
                              memory_text(found.result.smallest_cap, found.priced.costs)));
    }
    named.schedule = *std::move(found.result.schedule);
    named.priced = std::move(found.priced);
    named.cap = found.cap;
    return named;
  }
  Diagnostics unused;
  refuse(invocation, {"memory-cap"}, "only auto and zb-vpp heed it",
         "write auto in place of " + named.name, unused);
  refuse(invocation, {"placement", "budget"}, "only auto looks at it",
         "write auto in place of " + named.name, unused);
  const bool from_file = named.name.ends_with(".csv") || is_file(named.name);
  named = TW_TRY(from_file ? read_named(invocation, std::move(named), std::move(unused))
                           : make_named(invocation, std::move(named), std::move(unused)));
  Diagnostics faults = check_costs(named.priced.costs, named.schedule.placement.stages(),
                                   named.schedule.microbatches);
  if (!faults.empty()) return fail(std::move(faults));
  return named;
}

Result<Files> files_of(const Invocation& invocation, const Schedule& schedule, const Priced& priced,
                       std::optional<Bytes> cap) {
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
    if (invocation.flag("comms")) written = TW_TRY(lower(schedule, priced.costs));
    put("csv", to_csv(written));
  }
  if (!invocation.flag("trace") && !invocation.flag("svg")) return files;
  ClockOptions full = priced.clock;
  full.detail = Detail::Full;
  const Timeline timeline = simulate(schedule, priced.costs, full);
  if (invocation.flag("trace")) put("trace", to_trace(schedule, timeline));
  if (invocation.flag("svg")) {
    put("svg", cap ? to_svg(schedule, timeline, priced.costs, *cap)
                   : to_svg(schedule, timeline, priced.costs));
  }
  return files;
}

}  // namespace trainwright::cli
