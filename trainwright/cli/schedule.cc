// trainwright schedule: make, check, compare, draw and time pipeline schedules.
#include "trainwright/cli/schedule.h"

#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/glance.h"
#include "trainwright/cli/setting.h"
#include "trainwright/report/report.h"
#include "trainwright/schedule/memory_drawing.h"

namespace trainwright::cli {
namespace {

std::string_view words_of(const Placement& placement) {
  const auto style = style_of(placement);
  return style ? name_of(*style) : "custom";
}

Result<Output> run_make(const Invocation& invocation) {
  if (heeds_cap(invocation)) return run_found(invocation);
  const Named named = TW_TRY(named_schedule(invocation));
  Files files = TW_TRY(files_of(invocation, named.schedule, named.priced, named.cap));
  if (files.printed && !invocation.json) {
    return Output{files.text, Exit::Ok, std::move(files.files)};
  }
  const Timeline timeline = simulate(named.schedule, named.priced.costs, named.priced.clock);
  if (invocation.json) {
    Json json = Json::object();
    json.add("kind", Json::of(named.name));
    const Json figures = to_json(named.schedule, timeline);
    for (const auto& [key, value] : figures.members) json.add(key, value);
    if (files.printed) json.add("printed", std::move(files.shown));
    return Output{document_text(invocation.data, json), Exit::Ok, std::move(files.files)};
  }
  return Output{files.text + to_summary(invocation, named.schedule, timeline, named.priced),
                Exit::Ok, std::move(files.files)};
}

Result<Output> run_simulate(const Invocation& invocation) { return run_make(invocation); }

// What a drawing shows: every action of every rank with its seconds.
Json spans_json(const Named& named, const Timeline& timeline) {
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < named.schedule.ranks.size(); ++rank) {
    Json actions = Json::array();
    for (std::size_t i = 0; i < named.schedule.ranks[rank].size(); ++i) {
      Json entry = Json::object();
      entry.add("action", Json::of(to_text(named.schedule.ranks[rank][i])))
          .add("start", Json::of(timeline.spans[rank][i].start.value()))
          .add("end", Json::of(timeline.spans[rank][i].end.value()));
      actions.push(std::move(entry));
    }
    ranks.push(std::move(actions));
  }
  Json json = Json::object();
  json.add("kind", Json::of(named.name));
  const Json figures = cli::to_json(named.schedule, timeline);
  for (const auto& [key, value] : figures.members) json.add(key, value);
  return json.add("actions", std::move(ranks));
}

Result<Output> run_draw(const Invocation& invocation) {
  const Named named = TW_TRY(named_schedule(invocation));
  ClockOptions clock = named.priced.clock;
  clock.detail = Detail::Full;
  const Timeline timeline = simulate(named.schedule, named.priced.costs, clock);
  if (invocation.json) return Output{document_text(invocation.data, spans_json(named, timeline))};
  const Colours colours = invocation.flag("colour") ? Colours::Ansi : Colours::None;
  std::string text = to_drawing(named.schedule, timeline, invocation.width, colours);
  if (invocation.flag("memory") || named.priced.layout) {
    text += to_memory_drawing(timeline, named.priced.costs, invocation.width, named.cap);
  }
  return Output{.text = std::move(text), .coloured = colours == Colours::Ansi};
}

Json to_json(const std::vector<Violation>& violations) {
  Json list = Json::array();
  for (const Violation& violation : violations) {
    Json entry = Json::object();
    entry.add("fault", Json::of(name_of(violation.fault)))
        .add("rank", Json::of(violation.rank.index()))
        .add("index", Json::of(violation.index))
        .add("action", Json::of(to_text(violation.action)))
        .add("why", Json::of(violation.why));
    list.push(std::move(entry));
  }
  return list;
}

Result<Output> run_check(const Invocation& invocation) {
  const std::string path = invocation.text("schedule").value_or("");
  const std::string csv = TW_TRY(read_file(path));
  const Schedule schedule = TW_TRY(read_schedule_csv(csv, path));
  bool lowered = false;
  for (const auto& list : schedule.ranks) {
    for (const Action& action : list) lowered = lowered || !computes(action.kind);
  }
  const auto violations = lowered ? check_lowered(schedule) : check(schedule);
  const Exit exit = violations.empty() ? Exit::Ok : Exit::DoesNotFit;
  if (invocation.json) {
    Json json = Json::object();
    json.add("sound", Json::of(violations.empty()))
        .add("format", Json::of(lowered ? "compute_comms" : "compute_only"))
        .add("violations", to_json(violations));
    return Output{document_text(invocation.data, json), exit};
  }
  if (violations.empty()) {
    return Output{
        fmt::format("{}: sound, {} ranks, {} stages, {} micro-batches\n{}\n", path,
                    schedule.placement.ranks, schedule.placement.stages(), schedule.microbatches,
                    lowered ? "no deadlock even if every send and receive blocks"
                            : "every dependency can be met; sends and receives are the engine's")};
  }
  std::string text = fmt::format("{}: not sound\n", path);
  for (const Violation& violation : violations) {
    text += fmt::format(
        "rank {}, {} ({}): {}\n", violation.rank.index(),
        violation.index < 0 ? "not in its list" : fmt::format("action {}", violation.index),
        name_of(violation.fault),
        violation.index < 0 ? violation.why
                            : fmt::format("{}: {}", to_text(violation.action), violation.why));
  }
  return Output{text, exit};
}

// The costs of a whole rank (of the first two stages) cut into equal chunks. What is kept is not
// divided, because bytes may not divide; the peak is.
Costs cut(const Costs& whole, Shape shape) {
  const auto parts = static_cast<double>(shape.chunks);
  const auto stages =
      static_cast<std::size_t>(shape.ranks) * static_cast<std::size_t>(shape.chunks);
  StageCosts stage = whole.stages.front();
  stage.forward = stage.forward / parts;
  stage.backward_input = stage.backward_input / parts;
  stage.backward_weight = stage.backward_weight / parts;
  stage.backward = stage.backward / parts;
  Costs costs = whole;
  costs.stages.assign(stages, stage);
  costs.boundaries.assign(stages - 1, whole.boundaries.front());
  return costs;
}

// Of a whole rank: of two such, so that there is a boundary. A file has one for each rank, and
// kinds can only be compared if these are equal.
Result<Costs> costs_of_rank(const Invocation& invocation, Shape shape) {
  const int ranks = std::clamp(shape.ranks, 2, kMaxRanks);
  Costs costs = TW_TRY(costs_of(invocation, ranks));
  const StageCosts& first = costs.stages.front();
  const auto differs = [&first](const StageCosts& stage) {
    return stage.forward != first.forward || stage.backward_input != first.backward_input ||
           stage.backward_weight != first.backward_weight || stage.backward != first.backward ||
           stage.kept != first.kept;
  };
  if (std::any_of(costs.stages.begin(), costs.stages.end(), differs)) {
    return fail("--costs", "compare needs ranks that cost the same",
                "`schedule simulate` takes ranks that differ");
  }
  return costs;
}

struct Compared {
  std::string name, runs_on;
  int chunks;
  Schedule schedule;
  Timeline timeline;
  double peak;  // of the rank with the highest peak, in what a whole rank keeps of one micro-batch
};

// The best order that keeps no more than 1F1B does, as many activations as there are ranks, or no
// more than a cap.
Result<AutoSchedule> auto_under(Shape shape, const Priced& priced, std::optional<Bytes> cap) {
  Diagnostics faults = check_costs(priced.costs, shape.ranks * shape.chunks, shape.microbatches);
  if (!faults.empty()) return fail(std::move(faults));
  AutoOptions options;
  options.chunks = shape.chunks;
  options.clock = priced.clock;
  options.placements = {StagePlacement::V, StagePlacement::Loop};
  if (priced.layout) options.placements.pop_back();  // whose bytes are those of another place
  if (priced.layout && shape.chunks == 1) options.placements = {StagePlacement::Loop};
  options.cap = {
      cap.value_or(priced.costs.stages.front().kept *
                   (std::int64_t{std::min(shape.ranks, shape.microbatches)} * shape.chunks))};
  return make_auto(shape.ranks, shape.microbatches, priced.costs, options);
}

// What is compared, beside the kinds: how a kind of so many chunks is priced, and what all share.
struct Comparison {
  Shape shape;
  int chunks = 2;
  std::optional<Costs> whole;  // costs of a rank to be cut, where they are not a layout's
  // --memory-cap in what a whole rank keeps of a micro-batch; with a layout in bytes, and unless it
  // is given what 1F1B allocates there.
  std::optional<Bytes> cap;

  // In what the costs of so many chunks count.
  std::optional<Bytes> cap_of(int chunks_of) const {
    return cap && whole ? std::optional<Bytes>(*cap * chunks_of) : cap;
  }
};

Result<Priced> priced_for(const Invocation& invocation, const Comparison& of, Shape shape,
                          StagePlacement placement) {
  if (!of.whole) return priced(invocation, shape.ranks, shape.chunks, placement);
  return Priced{cut(*of.whole, shape), TW_TRY(clock_of(invocation))};
}

Result<Comparison> comparison_of(const Invocation& invocation) {
  Comparison of{.shape = TW_TRY(shape_of(invocation)), .chunks = 2, .whole = {}, .cap = {}};
  of.chunks = invocation.flag("chunks") ? of.shape.chunks : std::max(2, of.shape.chunks);
  of.cap = TW_TRY(memory_cap_of(invocation));
  if (!of_layout(invocation)) {
    of.whole = TW_TRY(costs_of_rank(invocation, of.shape));
  } else if (!of.cap) {
    const Shape shape{of.shape.ranks, of.shape.microbatches, 1};
    const Priced each = TW_TRY(priced_for(invocation, of, shape, StagePlacement::Single));
    of.cap = peak(simulate(TW_TRY(make(ScheduleKind::OneFOneB, shape)), each.costs, each.clock));
  }
  return of;
}

// In what a whole rank keeps of one micro-batch.
double in_whole_ranks(const Comparison& of, const Timeline& timeline, int chunks) {
  if (!of.whole) return 0;
  const auto kept =
      static_cast<double>(std::max<std::int64_t>(1, of.whole->stages.front().kept.value()));
  return static_cast<double>(peak(timeline).value()) / (kept * chunks);
}

Result<Compared> compared_kind(const Invocation& invocation, const Comparison& of,
                               ScheduleKind kind) {
  const KindFacts& facts = facts_of(kind);
  Shape shape = of.shape;
  shape.chunks = std::clamp(of.chunks, facts.chunks_least, facts.chunks_most);
  MakeOptions options = make_options_of(invocation);
  Schedule schedule = TW_TRY(make(kind, shape, options));
  const Priced each =
      TW_TRY(priced_for(invocation, of, shape, facts.placement.value_or(StagePlacement::Loop)));
  options.costs = each.costs;
  Diagnostics faults = check_costs(each.costs, schedule.placement.stages(), shape.microbatches);
  if (!faults.empty()) return fail(std::move(faults));
  if (kind == ScheduleKind::ZbVpp && of.cap) {
    AutoSchedule found = TW_TRY(zb_vpp_under(shape, each, *of.cap_of(shape.chunks)));
    if (found.schedule) schedule = *std::move(found.schedule);
  } else if (kind == ScheduleKind::ZbVpp) {
    schedule = TW_TRY(make(kind, shape, options));
  }
  Timeline timeline = simulate(schedule, each.costs, each.clock);
  const double share = in_whole_ranks(of, timeline, shape.chunks);
  return Compared{std::string(facts.name), std::string(facts.runs_on), shape.chunks,
                  std::move(schedule),     std::move(timeline),        share};
}

Result<std::vector<Compared>> compare_kinds(const Invocation& invocation, const Comparison& of) {
  std::vector<ScheduleKind> wanted;
  bool automatic = false;
  for (const std::string& name : invocation.texts("kinds")) {
    if (name == "auto") {
      automatic = true;
    } else {
      wanted.push_back(TW_TRY(parse_kind(name)));
    }
  }
  if (wanted.empty() && !automatic) {
    for (const KindFacts& facts : kinds()) wanted.push_back(facts.kind);
  }
  std::vector<Compared> compared;
  for (const ScheduleKind kind : wanted) {
    compared.push_back(TW_TRY(compared_kind(invocation, of, kind)));
  }
  if (automatic) {
    Shape shape = of.shape;
    shape.chunks = of.chunks;
    const Priced each = TW_TRY(priced_for(invocation, of, shape, StagePlacement::V));
    AutoSchedule found = TW_TRY(auto_under(shape, each, of.cap_of(shape.chunks)));
    if (!found.schedule) {
      return fail("auto", of.cap ? "no order of these stages fits the cap"
                                 : "no order of these costs keeps as little as 1F1B");
    }
    const double share = in_whole_ranks(of, found.timeline, shape.chunks);
    compared.push_back({"auto", "PyTorch by CSV, torchtitan by CSV", shape.chunks,
                        *std::move(found.schedule), std::move(found.timeline), share});
  }
  return compared;
}

// What stands below the table.
std::string compared_text(const Invocation& invocation, const Comparison& of) {
  if (of.whole) {
    return "Costs are of a whole rank and micro-batch, cut evenly into chunks (`schedule make` "
           "takes those of a stage); without --costs F is one forward of it. The bubble includes "
           "warm-up and cool-down. The peak is the highest of all ranks, in what a whole rank "
           "keeps "
           "of one micro-batch.";
  }
  return fmt::format(
      "Seconds and bytes of each kind's stages are those of the layout. The bubble includes "
      "warm-up "
      "and cool-down. The peak is the highest of all ranks, all that is allocated. zb-vpp and auto "
      "are made under {}{}.",
      to_text(*of.cap), invocation.flag("memory-cap") ? "" : ", the peak of 1f1b");
}

// Frameworks that have the kind itself; those that run it from a CSV file only where none has.
std::string mainly_on(std::string_view runs_on) {
  std::vector<std::string> native;
  for (const std::string_view one : split(runs_on, ',')) {
    if (trim(one).find(" by CSV") == std::string_view::npos) native.emplace_back(trim(one));
  }
  return native.empty() ? "from a CSV file" : join(native, ", ");
}

Result<Output> run_compare(const Invocation& invocation) {
  const Comparison of = TW_TRY(comparison_of(invocation));
  const std::vector<Compared> compared = TW_TRY(compare_kinds(invocation, of));
  Table table{{{"kind"},
               {"chunks", Align::Right},
               {"step", Align::Right},
               {"bubble", Align::Right},
               {"peak", Align::Right},
               {"runs on", Align::Wrap}},
              {}};
  const bool verbose = invocation.flag("verbose");
  Json list = Json::array();
  for (const Compared& one : compared) {
    table.rows.push_back({one.name, std::to_string(one.chunks),
                          time_text(one.timeline.makespan, one.timeline.in_forwards),
                          percent(bubble(one.timeline)),
                          of.whole ? significant(one.peak) : to_text(peak(one.timeline)),
                          verbose ? one.runs_on : mainly_on(one.runs_on)});
    Json entry = Json::object();
    entry.add("kind", Json::of(one.name)).add("chunks", Json::of(one.chunks));
    const Json figures = cli::to_json(one.schedule, one.timeline);
    for (const auto& [key, value] : figures.members) entry.add(key, value);
    if (of.whole) entry.add("peak_in_whole_ranks", Json::of(one.peak));
    entry.add("runs_on", Json::of(one.runs_on));
    list.push(std::move(entry));
  }
  if (invocation.json) {
    return Output{document_text(invocation.data, Json::object().add("kinds", std::move(list)))};
  }
  return Output{to_text(table, invocation.width) +
                join(wrapped(compared_text(invocation, of), invocation.width), "\n") + '\n'};
}

}  // namespace

Json to_json(const Schedule& schedule, const Timeline& timeline) {
  Json peaks = Json::array();
  for (const RankTotals& rank : timeline.ranks) peaks.push(Json::of(rank.peak.value()));
  Json causes = Json::object();
  RankTotals sum;
  for (const RankTotals& rank : timeline.ranks) {
    sum.warmup += rank.warmup;
    sum.steady += rank.steady;
    sum.drain += rank.drain;
    sum.transfer += rank.transfer;
  }
  causes.add("warmup", Json::of(sum.warmup.value()))
      .add("steady", Json::of(sum.steady.value()))
      .add("drain", Json::of(sum.drain.value()))
      .add("transfer", Json::of(sum.transfer.value()));
  Json json = Json::object();
  json.add("ranks", Json::of(schedule.placement.ranks))
      .add("stages", Json::of(schedule.placement.stages()))
      .add("microbatches", Json::of(schedule.microbatches))
      .add("placement", Json::of(words_of(schedule.placement)))
      .add("makespan", Json::of(timeline.makespan.value()))
      .add("bubble", Json::of(bubble(timeline)))
      .add("idle_seconds_of_all_ranks", std::move(causes))
      .add("peak_memory", std::move(peaks));
  return json;
}

std::string to_summary(const Invocation& invocation, const Schedule& schedule,
                       const Timeline& timeline, const Priced& priced) {
  const auto text_of = [&](Seconds time) { return time_text(time, timeline.in_forwards); };
  std::string text = fmt::format("{} ranks, {} stages ({}), {} micro-batches: step {}, {} bubble\n",
                                 schedule.placement.ranks, schedule.placement.stages(),
                                 words_of(schedule.placement), schedule.microbatches,
                                 text_of(timeline.makespan), percent(bubble(timeline)));
  Table table{{{"rank", Align::Right},
               {"busy", Align::Right},
               {"warm-up", Align::Right},
               {"steady", Align::Right},
               {"drain", Align::Right},
               {"transfer", Align::Right},
               {"peak", Align::Right}},
              {}};
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    const RankTotals& totals = timeline.ranks[rank];
    table.rows.push_back({std::to_string(rank), text_of(totals.busy), text_of(totals.warmup),
                          text_of(totals.steady), text_of(totals.drain), text_of(totals.transfer),
                          memory_text(totals.peak, priced.costs)});
  }
  text += to_text(table, invocation.width);
  return priced.layout ? text + layout_text(*priced.layout, timeline, invocation.width) : text;
}

namespace {

Command compare_command() {
  return {
      .name = "compare",
      .summary = "kinds side by side",
      .examples = {"trainwright schedule compare --ranks 8 --microbatches 32",
                   "trainwright schedule compare 1f1b zb-h1 zb-v auto --ranks 8 --microbatches 32"},
      .arguments = joined({{{"kinds", Argument::Kind::Texts,
                             "kinds, or auto (the best order with the memory of 1F1B, or "
                             "under --memory-cap); all kinds if none is named"}},
                           shape_arguments(),
                           cost_arguments("a whole rank"),
                           {auto_arguments().front()},
                           layout_arguments(),
                           {verbose_argument("also the frameworks that run a kind from a CSV "
                                             "file")}}),
      .run = run_compare};
}

}  // namespace

Command schedule_command() {
  const Argument schedule{"schedule", Argument::Kind::Text, "a kind, auto, or a CSV file", true};
  const Argument kind{"schedule", Argument::Kind::Text,
                      "a kind (see trainwright list schedules), or auto", true};
  const Argument file{"schedule", Argument::Kind::Text, "a CSV file of either format", true};
  return {
      .name = "schedule",
      .summary = "make, check, compare, draw and time pipeline schedules",
      .examples = {"trainwright schedule compare --ranks 8 --microbatches 32"},
      .commands = {
          {.name = "make",
           .summary = "a schedule of a known kind, or the best one under a memory cap",
           .examples = {"trainwright schedule make zb-v --ranks 8 --microbatches 32 --csv zbv.csv",
                        "trainwright schedule make auto --ranks 8 --chunks 2 --microbatches 32 "
                        "--memory-cap 16",
                        "trainwright schedule make 1f1b --ranks 4 --microbatches 8 --csv -",
                        "trainwright schedule make zb-vpp --memory-cap 60GiB --model llama-2-13b "
                        "--on 8xA100-80GB --layout pp=4,vpp=2,dp=2,zero=1,mbs=1,gbs=32,seq=4096"},
           .arguments = joined({{kind},
                                shape_arguments(),
                                cost_arguments(),
                                auto_arguments(),
                                layout_arguments(),
                                file_arguments()}),
           .run = run_make},
          {.name = "check",
           .summary = "prove that a schedule can run, or say what stops it",
           .examples = {"trainwright schedule check mine.csv"},
           .arguments = {file},
           .run = run_check},
          compare_command(),
          {.name = "draw",
           .summary = "a schedule in the terminal",
           .examples = {"trainwright schedule draw 1f1b --ranks 4 --microbatches 8"},
           .arguments = joined({{schedule,
                                 {"--colour,--color", Argument::Kind::Flag, "with colours"},
                                 {"--memory", Argument::Kind::Flag,
                                  "and what each rank holds over time (with --model always)"}},
                                shape_arguments(),
                                cost_arguments(),
                                auto_arguments(),
                                layout_arguments()}),
           .run = run_draw},
          {.name = "simulate",
           .summary = "time and memory of a schedule",
           .examples =
               {"trainwright schedule simulate mine.csv --costs costs.json --engine pytorch"},
           .arguments = joined({{schedule},
                                shape_arguments(),
                                cost_arguments(),
                                auto_arguments(),
                                layout_arguments(),
                                file_arguments()}),
           .run = run_simulate}}};
}

}  // namespace trainwright::cli
