#include "trainwright/cli/setting.h"

#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {

Surroundings read_surroundings(const Invocation& invocation, Diagnostics& faults) {
  Surroundings read;
  read.model = value_or_faults(find_model(*invocation.text("model"), invocation.data), faults);
  const auto hardware = value_or_faults(load_hardware(invocation.data), faults);
  const std::string trainer = invocation.text("trainer").value_or("megatron-core");
  read.trainer = value_or_faults(find_trainer(trainer, invocation.data), faults);
  read.job = value_or_faults(parse_job(invocation.text("job").value_or("")), faults);
  if (hardware) {
    read.cluster = value_or_faults(parse_cluster(*invocation.text("on"), *hardware), faults);
  }
  return read;
}

Result<Setting> read_setting(const Invocation& invocation) {
  Diagnostics faults;
  Surroundings around = read_surroundings(invocation, faults);
  LayoutContext context;
  if (around.trainer) context.usual = usual_layout(*around.trainer);
  if (around.cluster) context.world = accelerator_count(*around.cluster);
  auto read = value_or_faults(parse_layout(*invocation.text("layout"), context), faults);
  if (!faults.empty()) return fail(std::move(faults));
  return Setting{*std::move(read), *std::move(around.job), *std::move(around.model),
                 *std::move(around.cluster), *std::move(around.trainer)};
}

std::string setting_text(const Setting& setting) {
  const Layout& layout = setting.read.layout;
  std::string text = fmt::format("{}\n", to_text(layout));
  for (const std::string& note : setting.read.notes) text += fmt::format("  {}\n", note);
  text += fmt::format("{} on {} with {} {}\n", setting.model.name, setting.cluster.name,
                      setting.trainer.title, to_text(setting.trainer.version));
  text +=
      fmt::format("{} ranks; {} micro-batches of mbs {} a step; {} tokens a step; {} stages\n",
                  with_thousands(world_size(layout)), with_thousands(micro_batch_count(layout)),
                  layout.mbs, with_thousands(tokens_per_step(layout).value()), stage_count(layout));
  return text;
}

std::string violations_text(const std::vector<LayoutViolation>& found, int width) {
  if (found.empty()) return "legal: nothing speaks against it\n";
  std::string text = is_legal(found) ? "legal, with advice:\n" : "not legal:\n";
  for (const LayoutViolation& violation : found) {
    const char* weight = violation.severity == Severity::Forbidden ? "forbidden" : "advice";
    Table table{{{""}, {"", Align::Wrap}}, {{weight, violation.reason}}};
    if (!violation.hint.empty()) table.rows.push_back({"hint", violation.hint});
    table.rows.push_back({"rule", violation.source.empty()
                                      ? violation.id
                                      : fmt::format("{} ({})", violation.id, violation.source)});
    text += '\n' + to_text(table, width);
  }
  return text;
}

Json violations_json(const std::vector<LayoutViolation>& found) {
  Json list = Json::array();
  for (const LayoutViolation& violation : found) {
    Json entry = Json::object();
    entry.add("id", Json::of(violation.id))
        .add("forbidden", Json::of(violation.severity == Severity::Forbidden))
        .add("reason", Json::of(violation.reason))
        .add("hint", Json::of(violation.hint))
        .add("source", Json::of(violation.source));
    list.push(std::move(entry));
  }
  return list;
}

}  // namespace trainwright::cli
