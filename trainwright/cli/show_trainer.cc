// trainwright show trainer: what a trainer does and refuses, with the sources.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/glance.h"
#include "trainwright/cli/own_runs.h"
#include "trainwright/cli/setting.h"
#include "trainwright/cli/show.h"
#include "trainwright/report/report.h"
#include "trainwright/trainer/known.h"

namespace trainwright::cli {
namespace {

std::string states_table(const Trainer& trainer, int width) {
  Table table{{{"precision"}, {"weight"}, {"master"}, {"gradients"}, {"set by", Align::Wrap}}, {}};
  for (const PrecisionFacts& facts : trainer.precisions) {
    table.rows.push_back({std::string(name_of(facts.kind)), facts.weight, facts.master,
                          join(facts.gradients, ", "),
                          facts.setting.empty()  ? "default"
                          : facts.setting == "-" ? "no setting"
                                                 : facts.setting});
  }
  return to_text(table, width);
}

std::string schedules_table(const Trainer& trainer, int width) {
  Table table{{{"schedule"}, {"placement"}, {"called", Align::Wrap}}, {}};
  for (const TrainerSchedule& schedule : trainer.schedules) {
    table.rows.push_back({std::string(name_of(schedule.kind)),
                          std::string(name_of(schedule.placement)), schedule.name});
  }
  return to_text(table, width);
}

std::string kernels_table(const Trainer& trainer, int width) {
  Table table{{{"kernel or overlap"}, {"used"}, {"set by", Align::Wrap}}, {}};
  for (const Kernel& kernel : trainer.kernels) {
    table.rows.push_back(
        {std::string(name_of(kernel.kind)), std::string(name_of(kernel.use)), kernel.setting});
  }
  for (const Overlap& overlap : trainer.overlaps) {
    table.rows.push_back({fmt::format("{} overlap", name_of(overlap.kind)),
                          std::string(name_of(overlap.use)), overlap.setting});
  }
  return to_text(table, width);
}

std::string value_of(const CodeFacts& code, bool CodeFacts::* fact) {
  return code.*fact ? "yes" : "";
}
std::string value_of(const CodeFacts& code, const CodeNumber& fact) {
  return code.*fact.member == CodeFacts{}.*fact.member ? "" : std::to_string(code.*fact.member);
}
std::string value_of(const CodeFacts& code, ExpertScores CodeFacts::* fact) {
  return std::string(name_of(code.*fact));
}

// What holds of how its layers are written.
std::string code_table(const CodeFacts& code, int width) {
  Table table{{{"code"}, {"is"}, {"meaning", Align::Wrap}}, {}};
  for (const CodeFact& fact : kCodeFacts) {
    std::string value = std::visit([&](const auto& of) { return value_of(code, of); }, fact.fact);
    if (value.empty()) continue;
    table.rows.push_back({std::string(fact.name), std::move(value), std::string(fact.meaning)});
  }
  return to_text(table, width);
}

std::string rules_table(const Trainer& trainer, int width) {
  Table table{{{"rule"}, {"when", Align::Wrap}, {"requires", Align::Wrap}}, {}};
  for (const Rule& rule : trainer.rules) {
    table.rows.push_back(
        {rule.id, rule.when.text.empty() ? "always" : rule.when.text, rule.require.text});
  }
  return to_text(table, width);
}

std::string heading(const Trainer& trainer) {
  return fmt::format("{} {}", trainer.title, to_text(trainer.version));
}

// Facts by how they are known, one table for each way.
std::string sources_text(const Trainer& trainer, int width) {
  const std::vector<KnownFact> facts = known_facts(trainer);
  std::string text =
      fmt::format("{}: how its {} facts are known\n", heading(trainer), facts.size());
  for (const HowKnown known :
       {HowKnown::Read, HowKnown::Published, HowKnown::Learned, HowKnown::Assumed}) {
    Table table{{{""}, {"source", Align::Wrap}}, {}};
    for (const KnownFact& fact : facts) {
      if (fact.known == known) table.rows.push_back({fact.what, fact.source});
    }
    if (table.rows.empty()) continue;
    table.columns[0].heading = fmt::format("{} ({})", name_of(known), table.rows.size());
    text += '\n' + to_text(table, width);
  }
  return text;
}

Json sources_json(const Trainer& trainer) {
  Json facts = Json::array();
  for (const KnownFact& fact : known_facts(trainer)) {
    Json json = Json::object();
    json.add("fact", Json::of(fact.what))
        .add("known", Json::of(name_of(fact.known)))
        .add("source", Json::of(fact.source));
    facts.push(std::move(json));
  }
  Json document = Json::object();
  document.add("name", Json::of(trainer.name))
      .add("version", Json::of(to_text(trainer.version)))
      .add("facts", std::move(facts));
  return document;
}

// Kinds are keys here, and keys of all answers are written alike; kinds that are values keep their
// hyphens, as they are typed.
Json snake_case(Json json) {
  for (Json& item : json.items) item = snake_case(std::move(item));
  for (auto& [key, value] : json.members) {
    std::replace(key.begin(), key.end(), '-', '_');
    value = snake_case(std::move(value));
  }
  return json;
}

Result<Output> run_show_trainer(const Invocation& invocation) {
  const Trainer trainer = TW_TRY(invocation.data.trainer(*invocation.text("trainer")));
  if (invocation.flag("sources")) {
    return Output{invocation.json ? document_text(invocation.data, sources_json(trainer))
                                  : sources_text(trainer, invocation.width)};
  }
  if (invocation.json) return Output{document_text(invocation.data, snake_case(to_json(trainer)))};
  const std::string range =
      trainer.from == trainer.to
          ? to_text(trainer.from)
          : fmt::format("{} to {}", to_text(trainer.from), to_text(trainer.to));
  std::string text = fmt::format("{} (facts of {}), rank order {}\n\n", heading(trainer), range,
                                 trainer.rank_order);
  text += states_table(trainer, invocation.width) + '\n';
  text += schedules_table(trainer, invocation.width) + '\n';
  text += kernels_table(trainer, invocation.width) + '\n';
  if (invocation.flag("verbose")) {
    text += code_table(trainer.code, invocation.width) + '\n';
    text += rules_table(trainer, invocation.width) + '\n';
  }
  const TimeConstants times = TW_TRY(load_time_constants(invocation.data.path()));
  const StackConstants& stack = stack_of(times.stacks, trainer).constants;
  text += wrapped_lines(tuned_text(stack, false), invocation.width) + '\n';
  return Output{text + wrapped_lines("--verbose adds how layers are written and the rules by which "
                                     "layouts are rejected, --sources the source of every fact.",
                                     invocation.width)};
}

}  // namespace

Command show_trainer_command() {
  return {.name = "trainer",
          .summary = "what a trainer keeps, fuses, overlaps and refuses",
          .examples = {"trainwright show trainer megatron@0.12",
                       "trainwright show trainer torchtitan --sources"},
          .arguments = {{"trainer", Argument::Kind::Text, "NAME or NAME@VERSION", true, "TRAINER"},
                        {"--sources", Argument::Kind::Flag,
                         "the source of every fact: read, published, learned from runs, assumed"},
                        verbose_argument("also how layers are written, and the rules by which "
                                         "layouts are rejected")},
          .run = run_show_trainer};
}

}  // namespace trainwright::cli
