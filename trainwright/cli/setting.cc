#include "trainwright/cli/setting.h"

#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {

Words words_of(const Invocation& invocation) {
  const auto word = [&](const char* name) { return invocation.text(name).value_or(""); };
  return {.model = word("model"),
          .on = word("on"),
          .trainer = word("trainer"),
          .layout = word("layout"),
          .job = word("job"),
          .attention = word("attention"),
          .schedule = word("schedule")};
}

namespace {

// "1 stage", "2 stages".
std::string counted(std::int64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", with_thousands(count), count == 1 ? one : many);
}

}  // namespace

std::vector<Argument> setting_arguments() {
  const auto text = Argument::Kind::Text;
  return {{"model", text, "zoo name or path of a config.json", true, "MODEL"},
          {"--on", text, "the cluster, for instance 64xH100", true, "CLUSTER"},
          {"--layout", text, "the layout, key=value,...", true, "LAYOUT"},
          {"--trainer", text, kTrainerHelp, false, "TRAINER"},
          {"--job", text, kJobHelp, false, "JOB"},
          {"--attention", text, "flash, fused-softmax, eager or sdpa (default: the trainer's)",
           false, "KERNEL"},
          {"--schedule", text, "an order of actions as PyTorch writes them (default: the layout's)",
           false, "FILE.csv"}};
}

Result<Question> read_setting(const Invocation& invocation, Diagnostics faults) {
  return read_question(words_of(invocation), invocation.data.path(), std::move(faults));
}

std::string setting_text(const Question& setting) {
  const Layout& layout = setting.read.layout;
  std::string text = fmt::format("{}\n", to_text(layout));
  for (const std::string& note : setting.read.notes) text += fmt::format("  {}\n", note);
  text += fmt::format("{} on {} with {} {}\n", setting.model.name, setting.cluster.name,
                      setting.trainer.title, to_text(setting.trainer.version));
  text += fmt::format("{}; {} of mbs {} a step; {} a step; {}\n",
                      counted(world_size(layout), "rank", "ranks"),
                      counted(micro_batch_count(layout), "micro-batch", "micro-batches"),
                      layout.mbs, counted(tokens_per_step(layout).value(), "token", "tokens"),
                      counted(stage_count(layout), "stage", "stages"));
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
