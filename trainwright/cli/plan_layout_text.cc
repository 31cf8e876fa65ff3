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

// Switches that go without saying, the dispatcher and the loss.
std::string short_text(Layout layout, const Wanted& wanted) {
  for (const std::string& name : taken_from_recipes(question_of(wanted))) {
    if (const auto what = named<Switch>(name)) layout.on.bits &= ~Flags<Switch>{*what}.bits;
    if (name == layout.loss) layout.loss.clear();
    if (name == name_of(layout.dispatcher)) layout.dispatcher = Layout{}.dispatcher;
  }
  return short_text(layout, wanted.model);
}

std::string recipes_text(const Wanted& wanted) {
  const std::vector<std::string> names = taken_from_recipes(question_of(wanted));
  std::vector<std::string> words;
  for (const std::string& name : names) {
    const bool loss = !named<Switch>(name) && !named<DispatcherKind>(name);
    words.push_back(loss ? "loss=" + name : name == "flex" ? "dispatcher=flex" : name);
  }
  return words.empty() ? "" : fmt::format("{} (--no recipes leaves it out)", join(words, ", "));
}

}  // namespace trainwright::cli
