// Rules that follow from the facts: a layout may only ask for what the trainer offers.
#include "trainwright/trainer/offered.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/base/text.h"

namespace trainwright {
namespace {

Expression parsed(const std::string& text) {
  auto expression = parse_expression(text, "offered");
  TW_CHECK(expression.has_value(), "a rule of our own does not parse: " + text);
  return *std::move(expression);
}

Rule make_rule(const Trainer& trainer, std::string id, const std::string& when,
               const std::string& require, std::string reason, std::string hint) {
  Rule rule;
  rule.id = std::move(id);
  rule.when = when.empty() ? Expression{} : parsed(when);
  rule.require = parsed(require);
  rule.reason = std::move(reason);
  rule.hint = std::move(hint);
  rule.source = fmt::format("the facts of {} {} to {}", trainer.name, to_text(trainer.from),
                            to_text(trainer.to));
  return rule;
}

// "the kind must be one of those the trainer lists".
template <class T>
Rule one_of(const Trainer& trainer, Variable variable, std::string_view what,
            const std::string& when, const std::vector<T>& offered) {
  std::vector<std::string> kinds;
  for (const T& entry : offered) kinds.push_back(entry.kind);
  const std::string name(name_of(variable));
  const std::string require =
      kinds.empty() ? "0" : fmt::format("{} in ('{}')", name, join(kinds, "', '"));
  std::string id = name;
  std::replace(id.begin(), id.end(), '_', '-');
  return make_rule(
      trainer, id + "-offered", when, require,
      fmt::format("{} has no {} {{{}}}", trainer.title, what, name),
      kinds.empty() ? fmt::format("it has no {} at all", what) : "it has " + enumerate(kinds));
}

Rule offload_rule(const Trainer& trainer, Variable flag, const std::string& kind) {
  const bool offered = std::any_of(trainer.offloads.begin(), trainer.offloads.end(),
                                   [&](const Choice& choice) { return choice.kind == kind; });
  return make_rule(trainer, fmt::format("offload-{}-offered", kind), std::string(name_of(flag)),
                   offered ? "1" : "0",
                   fmt::format("{} cannot keep {} in host memory", trainer.title, kind),
                   "leave this offload out");
}

}  // namespace

std::vector<Rule> offered_rules(const Trainer& trainer) {
  std::vector<Rule> rules = {
      one_of(trainer, Variable::Schedule, "pipeline schedule", "pp > 1", trainer.schedules),
      one_of(trainer, Variable::Recompute, "recompute", "", trainer.recomputes),
      one_of(trainer, Variable::Precision, "precision", "", trainer.precisions),
      one_of(trainer, Variable::Optimizer, "optimizer", "", trainer.optimizers),
      one_of(trainer, Variable::CpKind, "context parallelism", "cp > 1", trainer.cp_kinds),
      one_of(trainer, Variable::Sharding, "sharding", "", trainer.shardings),
      offload_rule(trainer, Variable::OffloadOptimizer, "optimizer"),
      offload_rule(trainer, Variable::OffloadActivations, "activations"),
      offload_rule(trainer, Variable::OffloadParameters, "parameters"),
  };
  // Custom schedules choose their own placement; the rules of the file restrict those.
  std::vector<std::string> fits;
  for (const auto& schedule : trainer.schedules) {
    if (schedule.kind == "csv" || schedule.kind == "none") continue;
    fits.push_back(
        fmt::format("schedule != '{}' or placement == '{}'", schedule.kind, schedule.placement));
  }
  if (!fits.empty()) {
    rules.push_back(make_rule(trainer, "placement-offered", "pp > 1",
                              fmt::format("({})", join(fits, ") and (")),
                              fmt::format("{} does not run {{schedule}} with its stages placed "
                                          "'{{placement}}'",
                                          trainer.title),
                              "use the placement that goes with the schedule"));
  }
  return rules;
}

}  // namespace trainwright
