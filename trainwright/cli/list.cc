// trainwright list: what is known, by kind.
#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/command.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/model/model.h"
#include "trainwright/report/report.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright::cli {
namespace {

// One line per thing: its name and facts, as a table for people and as objects for programs.
struct Listing {
  Table table;
  Json json = Json::array();
};

Result<Listing> list_models(const Invocation& invocation) {
  Listing listing{{{{"model"},
                    {"family"},
                    {"layers", Align::Right},
                    {"parameters", Align::Right},
                    {"active", Align::Right}},
                   {}}};
  for (const ZooEntry& entry : TW_TRY(load_zoo(invocation.data.path()))) {
    const Params total = parameters(entry.model).total();
    const Params active = active_parameters(entry.model).total();
    listing.table.rows.push_back({entry.model.name, entry.model.family,
                                  std::to_string(entry.model.layers.size()), to_text(total),
                                  active == total ? "" : to_text(active)});
    Json object = Json::object();
    object.add("name", Json::of(entry.model.name))
        .add("family", Json::of(entry.model.family))
        .add("layers", Json::of(static_cast<std::int64_t>(entry.model.layers.size())))
        .add("parameters", Json::of(total.value()))
        .add("active_parameters", Json::of(active.value()))
        .add("source", Json::of(entry.source));
    listing.json.push(std::move(object));
  }
  return listing;
}

Result<Listing> list_families(const Invocation& invocation) {
  Listing listing{{{{"family (model_type of a config.json)"}}, {}}};
  for (const std::string& family : known_families(invocation.data.path())) {
    listing.table.rows.push_back({family});
    listing.json.push(Json::of(family));
  }
  return listing;
}

Result<Listing> list_accelerators(const Invocation& invocation) {
  Listing listing{{{{"accelerator"},
                    {"memory", Align::Right},
                    {"bandwidth", Align::Right},
                    {"dense bf16", Align::Right},
                    {"scale-up each way", Align::Right}},
                   {}}};
  const Hardware& hardware = *TW_TRY(invocation.data.hardware());
  for (const Accelerator& accelerator : hardware.accelerators) {
    const auto bf16 = peak(accelerator, ComputeType::Bf16);
    const Tier& scale_up = accelerator.scale_up.back();
    listing.table.rows.push_back(
        {accelerator.name, to_text(accelerator.memory), to_text(accelerator.memory_bandwidth),
         bf16 ? to_text(*bf16) : "none",
         fmt::format("{} x {}", scale_up.domain, to_text(scale_up.bandwidth))});
    listing.json.push(to_json(accelerator));
  }
  return listing;
}

Result<Listing> list_clusters(const Invocation& invocation) {
  Listing listing{{{{"cluster"}, {"accelerators", Align::Right}, {"kind"}}, {}}};
  const Hardware& hardware = *TW_TRY(invocation.data.hardware());
  for (const Cluster& cluster : hardware.clusters) {
    listing.table.rows.push_back({cluster.name, with_thousands(accelerator_count(cluster)),
                                  cluster.groups.front().accelerator.name});
    listing.json.push(to_json(cluster));
  }
  return listing;
}

Result<Listing> list_trainers(const Invocation& invocation) {
  Listing listing{
      {{{"trainer"}, {"versions"}, {"also called", Align::Wrap}, {"schedules", Align::Wrap}}, {}}};
  for (const Trainer& trainer : *TW_TRY(invocation.data.trainers())) {
    if (trainer.unlisted) continue;
    std::vector<std::string> schedules;
    Json names = Json::array();
    for (const TrainerSchedule& schedule : trainer.schedules) {
      schedules.emplace_back(name_of(schedule.kind));
      names.push(Json::of(name_of(schedule.kind)));
    }
    listing.table.rows.push_back(
        {trainer.name,
         trainer.from == trainer.to
             ? to_text(trainer.from)
             : fmt::format("{} to {}", to_text(trainer.from), to_text(trainer.to)),
         join(trainer.aliases, ", "), join(schedules, ", ")});
    Json object = Json::object();
    object.add("name", Json::of(trainer.name))
        .add("from", Json::of(to_text(trainer.from)))
        .add("to", Json::of(to_text(trainer.to)))
        .add("schedules", std::move(names));
    listing.json.push(std::move(object));
  }
  return listing;
}

Result<Listing> list_schedules(const Invocation&) {
  Listing listing{
      {{{"kind"}, {"chunks"}, {"placement"}, {"what", Align::Wrap}, {"runs on", Align::Wrap}}, {}}};
  for (const KindFacts& facts : kinds()) {
    const std::string least = std::to_string(facts.chunks_least);
    const std::string chunks = facts.chunks_least == facts.chunks_most
                                   ? least
                                   : fmt::format("{} to {}", least, facts.chunks_most);
    const std::string_view placement = facts.placement ? name_of(*facts.placement) : "any";
    listing.table.rows.push_back({std::string(facts.name), chunks, std::string(placement),
                                  std::string(facts.what), std::string(facts.runs_on)});
    Json object = Json::object();
    object.add("name", Json::of(facts.name))
        .add("what", Json::of(facts.what))
        .add("runs_on", Json::of(facts.runs_on))
        .add("chunks_least", Json::of(facts.chunks_least))
        .add("chunks_most", Json::of(facts.chunks_most))
        .add("placement", Json::of(placement))
        .add("splits_backward", Json::of(facts.splits_backward));
    listing.json.push(std::move(object));
  }
  return listing;
}

struct Listed {
  std::string_view name;
  std::string_view summary;
  Result<Listing> (*make)(const Invocation&);
};
constexpr Listed kModels{"models", "the model zoo", list_models};
constexpr Listed kFamilies{"families", "kinds of config.json that are understood", list_families};
constexpr Listed kAccelerators{"accelerators", "accelerators with their peaks", list_accelerators};
constexpr Listed kClusters{"clusters", "named clusters", list_clusters};
constexpr Listed kTrainers{"trainers", "trainers and version ranges", list_trainers};
constexpr Listed kSchedules{"schedules", "kinds of pipeline schedules", list_schedules};

template <const Listed& what>
Result<Output> run_list(const Invocation& invocation) {
  Listing listing = TW_TRY(what.make(invocation));
  if (!invocation.json) return Output{to_text(listing.table, invocation.width)};
  return Output{document_text(invocation.data,
                              Json::object().add(std::string(what.name), std::move(listing.json)))};
}

template <const Listed& what>
Command command_of() {
  const std::string name(what.name), example = "trainwright list " + name;
  return {.name = name,
          .summary = std::string(what.summary),
          .examples = {example, example + " --json"},
          .run = run_list<what>};
}

}  // namespace

Command list_command() {
  return {.name = "list",
          .summary = "models, accelerators, clusters, trainers, schedules",
          .examples = {"trainwright list models"},
          .commands = {command_of<kModels>(), command_of<kFamilies>(), command_of<kAccelerators>(),
                       command_of<kClusters>(), command_of<kTrainers>(), command_of<kSchedules>()}};
}

}  // namespace trainwright::cli
