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
  if (read.job && read.model && read.trainer) {
    for (Diagnostic& fault : job_faults(*read.job, *read.model, *read.trainer)) {
      faults.push_back(std::move(fault));
    }
  }
  return read;
}

namespace {

Result<std::optional<AttentionKernel>> attention_in(const Invocation& invocation) {
  const auto text = invocation.text("attention");
  if (!text) return std::nullopt;
  std::vector<std::string> names;
  for (const AttentionKernel kernel : {AttentionKernel::Flash, AttentionKernel::FusedSoftmax,
                                       AttentionKernel::Eager, AttentionKernel::Sdpa}) {
    if (name_of(kernel) == lower_case(*text)) return kernel;
    names.emplace_back(name_of(kernel));
  }
  return fail("--attention", fmt::format("'{}' is not a kind of attention", *text),
              did_you_mean(*text, names, "the kinds are " + enumerate(names)));
}

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
          {"--trainer", text, "NAME or NAME@VERSION (default: megatron-core)", false, "TRAINER"},
          {"--job", text, kJobHelp, false, "JOB"},
          {"--attention", text, "flash, fused-softmax, eager or sdpa (default: the trainer's)",
           false, "KERNEL"}};
}

Result<Setting> read_setting(const Invocation& invocation, Diagnostics faults) {
  Surroundings around = read_surroundings(invocation, faults);
  LayoutContext context;
  if (around.trainer) context.usual = usual_layout(*around.trainer);
  if (around.cluster) context.world = accelerator_count(*around.cluster);
  auto read = value_or_faults(parse_layout(*invocation.text("layout"), context), faults);
  const auto attention = value_or_faults(attention_in(invocation), faults);
  if (!faults.empty()) return fail(std::move(faults));
  return Setting{*std::move(read),           *std::move(around.job),     *std::move(around.model),
                 *std::move(around.cluster), *std::move(around.trainer), *attention};
}

std::string setting_text(const Setting& setting) {
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
