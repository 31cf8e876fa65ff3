// trainwright list: what is known, by kind.
#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/command.h"
#include "trainwright/model/model.h"
#include "trainwright/report/report.h"

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
  for (const ZooEntry& entry : TW_TRY(load_zoo(invocation.data))) {
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

Result<Listing> list_families(const Invocation&) {
  Listing listing{{{{"family (model_type of a config.json)"}}, {}}};
  for (const std::string& family : known_families()) {
    listing.table.rows.push_back({family});
    listing.json.push(Json::of(family));
  }
  return listing;
}

template <Result<Listing> (*make)(const Invocation&)>
Result<Output> run_list(const Invocation& invocation) {
  const Listing listing = TW_TRY(make(invocation));
  return Output{invocation.json ? to_text(listing.json) : to_text(listing.table, invocation.width)};
}

Command list_of(std::string name, std::string summary, Result<Output> (*run)(const Invocation&)) {
  std::string example = "trainwright list " + name;
  return {.name = std::move(name),
          .summary = std::move(summary),
          .examples = {example, example + " --json"},
          .run = run};
}

}  // namespace

Command list_command() {
  return {.name = "list",
          .summary = "what is known: models and families",
          .examples = {"trainwright list models"},
          .commands = {list_of("models", "the model zoo", run_list<list_models>),
                       list_of("families", "kinds of config.json that are understood",
                               run_list<list_families>)}};
}

}  // namespace trainwright::cli
