// How far predictions like these were off, where somebody measured.
#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan_details.h"

namespace trainwright::cli {
namespace {

// Rows of a table of data/calibrations/accuracy.json; all of them where `fitted_to` is empty, else
// those that it names as "source (runs)".
Json rows_of(const Json& file, std::string_view table, std::string_view fitted_to) {
  Json rows = Json::array();
  const Json* list = file.find(table);
  if (list == nullptr) return rows;
  for (const Json& row : list->items) {
    const Json* source = row.find("source");
    if (source == nullptr) continue;
    const bool named = fitted_to.find(source->string + " (") != std::string_view::npos;
    if (fitted_to.empty() || named) rows.push(row);
  }
  return rows;
}

// The rows with what is left of each of their runs, in per cent: `off` of the same source in
// data/calibrations/residuals.json. Rows of memory have names of their own there.
Json with_residuals(Json rows, const Json& file) {
  const Json* list = file.find("time");
  if (list == nullptr) return rows;
  for (Json& row : rows.items) {
    for (const Json& one : list->items) {
      const Json* source = one.find("source");
      const Json* off = one.find("off");
      if (source == nullptr || off == nullptr) continue;
      if (source->string == row.find("source")->string) row.add("off", *off);
    }
  }
  return rows;
}

}  // namespace

Result<Json> accuracy_json(const DataDirectory& data, const Wanted& wanted,
                           const MemoryEstimate& memory) {
  const Json file = TW_TRY(read_json_file(data.path() + "/calibrations/accuracy.json"));
  const Json residuals = TW_TRY(read_json_file(data.path() + "/calibrations/residuals.json"));
  const Stack& stack = stack_of(wanted.times.constants.stacks, wanted.trainer);
  Json json = Json::object();
  json.add("stack", Json::of(stack.name))
      .add("time", with_residuals(rows_of(file, "time", stack.source), residuals))
      .add("memory", rows_of(file, "memory", {}))
      .add("memory_runs", rows_of(residuals, "memory", {}))
      .add("assumed", Json::of(memory.ground.assumed))
      .add("late", Json::of(memory.ground.late))
      .add("doubt", Json::of(doubt_text(memory.ground, wanted.trainer)));
  return json;
}

}  // namespace trainwright::cli
