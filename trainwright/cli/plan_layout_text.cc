// Layouts as `plan` shows them: short in a row, and in words for `estimate`.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan.h"

namespace trainwright::cli {

// "7-8-7": layers of the first stage, those between and the last, where ends take part in the
// split.
std::string split_text(const Layout& layout, const Model& model) {
  if (layout.count_embedding + layout.count_loss + layout.first_layers + layout.last_layers == 0) {
    return {};
  }
  const auto stages = stage_layers(layout, model);
  if (!stages || stages->size() < 2) return {};
  std::string text = fmt::format(" {}-", stages->front().count);
  if (stages->size() > 2) text += fmt::format("{}-", (*stages)[1].count);
  return text + std::to_string(stages->back().count);
}

std::string settings_text(const Wanted& wanted, const Layout& layout) {
  const std::string text = to_text(layout);
  return amended(text, change_to(text, layout, layout_context(wanted.cluster, wanted.trainer)));
}

namespace {

// Switches, and what is not as most trainers have it.
std::string manner_text(const Layout& layout) {
  std::string text;
  const auto add = [&](const Flags<Switch>& switches, const char* sign) {
    for (std::size_t i = 0; i < all_names(Switch{}).size(); ++i) {
      if (switches.has(static_cast<Switch>(i)))
        text += fmt::format(" {}{}", sign, all_names(Switch{})[i]);
    }
  };
  add(layout.on, "");
  add(layout.off, "no ");
  if (layout.ep > 1 && layout.dispatcher != DispatcherKind::AllToAll) {
    text += fmt::format(" {}", name_of(layout.dispatcher));
  }
  if (layout.order != Layout{}.order) text += ' ' + to_text(layout.order);
  if (!layout.loss.empty()) text += fmt::format(" {}", layout.loss);
  if (layout.gradients != GradientDtype::AsTrainer) {
    text += fmt::format(" {} gradients", name_of(layout.gradients));
  }
  return text;
}

}  // namespace

std::string short_text(const Layout& layout, const Model& model) {
  std::string text = fmt::format("tp{} pp{}", layout.tp, layout.pp);
  const auto add = [&](const char* name, std::int64_t value) {
    if (value > 1) text += fmt::format(" {}{}", name, value);
  };
  add("vpp", layout.vpp);
  add("cp", layout.cp);
  add("ep", layout.ep);
  if (layout.ep > 1) add("etp", layout.etp);
  if (layout.schedule != usual_schedule(layout.pp, layout.vpp)) {
    text += fmt::format(" {}", name_of(layout.schedule));
  }
  text += fmt::format(" dp{} mbs{}", layout.dp, layout.mbs);
  if (layout.zero > 0) {
    text += layout.sharding == ShardingKind::Zero ? fmt::format(" zero{}", layout.zero)
                                                  : fmt::format(" {}", name_of(layout.sharding));
    if (layout.dp_replicate > 1) text += fmt::format(" x{}", layout.dp_replicate);
  }
  if (!layout.offload.empty()) text += " offload:" + value_of(Knob::Offload, layout);
  if (layout.recompute.kind != RecomputeKind::None) text += ' ' + to_text(layout.recompute);
  return text + split_text(layout, model) + manner_text(layout);
}

Shared shared_by(const std::vector<PlannedLayout>& best) {
  if (best.empty()) return {};
  const Layout& first = best.front().layout;
  Shared shared{first.on, std::nullopt, first.loss, first.gradients};
  if (first.ep > 1) shared.dispatcher = first.dispatcher;
  for (const PlannedLayout& plan : best) {
    const Layout& layout = plan.layout;
    shared.on.bits &= layout.on.bits;
    if (layout.loss != shared.loss) shared.loss.clear();
    if (layout.gradients != shared.gradients) shared.gradients = GradientDtype::AsTrainer;
    if (layout.ep > 1 && layout.dispatcher != shared.dispatcher) shared.dispatcher.reset();
  }
  return shared;
}

std::string short_text(Layout layout, const Wanted& wanted) {
  const Shared& shared = wanted.shared;
  const bool all = (shared.on.bits & ~layout.on.bits) == 0;
  if (all) layout.on.bits &= ~shared.on.bits;
  if (layout.loss == shared.loss) layout.loss.clear();
  if (layout.gradients == shared.gradients) layout.gradients = GradientDtype::AsTrainer;
  if (layout.dispatcher == shared.dispatcher) layout.dispatcher = Layout{}.dispatcher;
  return short_text(layout, wanted.model);
}

// What is taken from published recipes, and how to leave it out.
std::string recipes_text(const Wanted& wanted) {
  std::vector<std::string> all;
  if (wanted.fp8_of_recipes) {
    all.push_back(
        fmt::format("precision {} for fp8 (--precision names another)", name_of(wanted.precision)));
  }
  if (wanted.flash_of_recipes) all.emplace_back("flash attention (--attention names another)");
  if (!taken_from_recipes(question_of(wanted)).empty()) {
    all.emplace_back("gradients=bf16 (--no recipes leaves it out)");
  }
  return join(all, "; ");
}

std::string shared_text(const Wanted& wanted) {
  const Shared& shared = wanted.shared;
  std::vector<std::string> words;
  for (const Switch what : all_of<Switch>()) {
    if (shared.on.has(what)) words.emplace_back(name_of(what));
  }
  if (shared.dispatcher && shared.dispatcher != Layout{}.dispatcher) {
    words.push_back(fmt::format("dispatcher={}", name_of(*shared.dispatcher)));
  }
  if (!shared.loss.empty()) words.push_back("loss=" + shared.loss);
  return join(words, ", ");
}

std::string without_effect_text(const Wanted& wanted) {
  if (wanted.without_effect.empty()) return {};
  return fmt::format("--also {} has no effect: {} searched anyway.",
                     join(wanted.without_effect, ", --also "),
                     wanted.without_effect.size() == 1 ? "it is" : "they are");
}

}  // namespace trainwright::cli
