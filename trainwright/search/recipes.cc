#include "trainwright/search/recipes.h"

#include <algorithm>
#include <array>

#include "trainwright/base/check.h"
#include "trainwright/search/manners.h"

namespace trainwright {
namespace detail {
namespace {

// What a recipe switches, the rules' word for it, and the axis on which it lies.
struct Known {
  std::string_view name;
  std::optional<Also> axis;    // none: no search looks at it
  std::optional<Switch> what;  // none: the dispatcher, or a loss
  Variable variable;
};
// Weights are gathered behind the forward pass only where gradients are reduced behind the backward
// pass, so that comes first.
constexpr std::array kKnown = {
    Known{"overlap-tp", Also::Overlaps, Switch::OverlapTp, Variable::OverlapTp},
    Known{"overlap-gradient-reduce", Also::Overlaps, Switch::OverlapGradientReduce,
          Variable::OverlapGradientReduce},
    Known{"overlap-parameter-gather", Also::Overlaps, Switch::OverlapParameterGather,
          Variable::OverlapParameterGather},
    Known{"compile", Also::Compile, Switch::Compile, Variable::Compile},
    Known{"fp8-parameter-gather", std::nullopt, Switch::Fp8ParameterGather,
          Variable::Fp8ParameterGather},
    Known{"flex", Also::Dispatcher, std::nullopt, Variable::Dispatcher},
    Known{"te-fused", std::nullopt, std::nullopt, Variable::LossChunks},
};
constexpr std::string_view kFlex = "flex";

bool takes(const SearchQuestion& question, const Known& known) {
  if (!known.axis) return !question.recipes.empty();
  return question.recipes.has(*known.axis) && !question.also.has(*known.axis);
}

// The layouts for which recipes share it; nullopt where they do not. Checked when it was read.
std::optional<Expression> shared_when(const Trainer& trainer, std::string_view name) {
  const std::string key = "recipes." + std::string(name);
  for (const auto& [ours, text] : trainer.settings) {
    if (ours != key) continue;
    auto when = parse_expression(text.substr(0, text.find(';')), key);
    TW_CHECK(when.has_value(), "what recipes share is checked when it is read");
    return *std::move(when);
  }
  return std::nullopt;
}

bool asks_about(const Rule& rule, Variable variable) {
  const auto loads = [&](const Expression& of) {
    return std::any_of(of.program.begin(), of.program.end(), [&](const Instruction& step) {
      return step.op == Instruction::Op::Load &&
             step.operand == static_cast<std::int64_t>(variable);
    });
  };
  return rule.severity == Severity::Forbidden && (loads(rule.when) || loads(rule.require));
}

Facts known_facts(const SearchQuestion& question) {
  Facts known;
  known.set(Variable::Experts, has_experts(question.model) ? 1 : 0);
  known.set(Variable::Precision, name_of(question.precision));
  known.set(Variable::Optimizer, name_of(question.job.optimizer));
  return known;
}
// And of a layout's degrees.
Facts known_facts(const SearchQuestion& question, const Layout& layout) {
  Facts known = known_facts(question);
  known.set(Variable::Tp, layout.tp);
  known.set(Variable::Sp, layout.sp ? 1 : 0);
  known.set(Variable::Pp, layout.pp);
  known.set(Variable::Cp, layout.cp);
  known.set(Variable::Ep, layout.ep);
  known.set(Variable::Dp, layout.dp);
  return known;
}

bool is_limited(const Limits& limits, std::string_view key) {
  return std::any_of(limits.begin(), limits.end(),
                     [&](const Limit& limit) { return limit.key == key; });
}

}  // namespace

Recipes::Recipes(const SearchQuestion& question) : question_(question) {
  if (question.from) return;
  const Layout usual = usual_layout(question.trainer);
  for (std::size_t i = 0; i < kKnown.size(); ++i) {
    const Known& known = kKnown[i];
    if (!takes(question, known)) continue;
    auto when = shared_when(question.trainer, known.name);
    if (!when || evaluate(*when, known_facts(question)) == 0) continue;
    if (known.what && asks(usual, *known.what, question.trainer)) continue;  // it is so unasked
    const bool dispatcher = known.name == kFlex;
    if (!known.what && is_limited(question.limits, dispatcher ? "dispatcher" : "loss")) continue;
    if (dispatcher && !has_experts(question.model)) continue;
    all_.push_back({i, *std::move(when)});
    for (const Rule& rule : question.trainer.rules) {
      if (asks_about(rule, known.variable)) rules_.push_back(&rule);
    }
  }
}

Flags<Switch> Recipes::allowed(const Flags<Switch>& wanted, Facts known) const {
  const auto forbidden = [&] {
    return std::any_of(rules_.begin(), rules_.end(), [&](const Rule* rule) {
      return evaluate(*rule, known) == Verdict::Violated;
    });
  };
  Flags<Switch> kept;
  for (const Known& of : kKnown) {
    if (!of.what || !wanted.has(*of.what)) continue;
    known.set(of.variable, 0);
    const bool without = forbidden();
    known.set(of.variable, 1);
    if (without || !forbidden()) {
      kept.insert(*of.what);
    } else {
      known.set(of.variable, 0);
    }
  }
  return kept;
}

Layout Recipes::taken(Layout layout) const {
  if (all_.empty()) return layout;
  const Facts known = known_facts(question_, layout);
  Flags<Switch> wanted;
  for (const Shared& of : all_) {
    if (evaluate(of.when, known).value_or(0) == 0) continue;
    const Known& what = kKnown[of.known];
    if (what.what) {
      wanted.insert(*what.what);
    } else if (what.name != kFlex) {
      if (layout.loss.empty()) layout.loss = what.name;
    } else if (layout.ep > 1) {
      layout.dispatcher = DispatcherKind::Flex;
    }
  }
  for (const Known& of : kKnown) {
    if (of.what && !feels(layout, {*of.what})) wanted.bits &= ~Flags<Switch>{*of.what}.bits;
  }
  layout.on.bits |= allowed(wanted, known).bits;
  return layout;
}

Flags<Switch> Recipes::refused(ShardingKind kind, std::int64_t zero,
                               const Flags<Offload>& offload) const {
  Flags<Switch> all;
  for (const Shared& of : all_) {
    if (const auto what = kKnown[of.known].what) all.insert(*what);
  }
  all.bits &= ~fixed_switches(question_.limits).bits;
  if (all.empty()) return {};
  Facts known;
  known.set(Variable::Sharding, name_of(kind));
  known.set(Variable::Zero, zero);
  known.set(Variable::OffloadOptimizer, offload.has(Offload::Optimizer) ? 1 : 0);
  known.set(Variable::Precision, name_of(question_.precision));
  known.set(Variable::Optimizer, name_of(question_.job.optimizer));
  Flags<Switch> refused;
  refused.bits = all.bits & ~allowed(all, known).bits;
  return refused;
}

std::vector<std::string> Recipes::names() const {
  std::vector<std::string> names;
  for (const Shared& of : all_) names.emplace_back(kKnown[of.known].name);
  return names;
}

}  // namespace detail

std::vector<std::string> taken_from_recipes(const SearchQuestion& question) {
  return detail::Recipes(question).names();
}

}  // namespace trainwright
