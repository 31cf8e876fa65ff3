#include "trainwright/search/manners.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "trainwright/search/recipes.h"

namespace trainwright {
namespace detail {
namespace {

// Switches that go together, and what they are told by.
struct Overlapping {
  Flags<Switch> switches;
  std::array<OverlapKind, 2> kinds;
};
// Of each group one or none. Weights are gathered behind the forward pass only where gradients are
// reduced behind the backward pass (Megatron-LM arguments.py: --overlap-param-gather).
const std::vector<std::vector<Overlapping>>& overlap_groups() {
  using Kind = OverlapKind;
  static const std::vector<std::vector<Overlapping>> groups = {
      {{{Switch::OverlapTp}, {Kind::TensorParallel, Kind::TensorParallel}}},
      {{{Switch::OverlapGradientReduce}, {Kind::GradientReduce, Kind::GradientReduce}},
       {{Switch::OverlapGradientReduce, Switch::OverlapParameterGather},
        {Kind::GradientReduce, Kind::ParameterGather}}},
      {{{Switch::OverlapEp}, {Kind::ExpertAllToAll, Kind::ExpertAllToAll}},
       {{Switch::OverlapSharedExperts}, {Kind::SharedExpert, Kind::SharedExpert}}},
      {{{Switch::OverlapP2p}, {Kind::PointToPoint, Kind::PointToPoint}}},
      {{{Switch::Graphs}, {Kind::Graphs, Kind::Graphs}},
       {{Switch::PartGraphs}, {Kind::PartGraphs, Kind::PartGraphs}}},
  };
  return groups;
}

Use use_of(const Trainer& trainer, OverlapKind kind) {
  const Overlap* offered = find_kind(trainer.overlaps, kind);
  return offered == nullptr ? Use::Never : offered->use;
}

// All of `manners`, and each with one more way.
template <class Ways, class Set>
void times(std::vector<Manner>& manners, const Ways& ways, const Set& set) {
  const std::vector<Manner> before = manners;
  for (const auto& way : ways) {
    for (Manner manner : before) {
      set(manner, way);
      manners.push_back(manner);
    }
  }
}

void add_overlaps(std::vector<Manner>& manners, const Trainer& trainer) {
  for (const std::vector<Overlapping>& group : overlap_groups()) {
    std::vector<Flags<Switch>> on, off;
    for (const Overlapping& one : group) {
      const Use first = use_of(trainer, one.kinds[0]), second = use_of(trainer, one.kinds[1]);
      const bool offered = first != Use::Never && second != Use::Never;
      if (offered && (first == Use::OptIn || second == Use::OptIn)) on.push_back(one.switches);
      const bool transfers = one.kinds[0] == OverlapKind::PointToPoint;
      if (transfers && first == Use::ByDefault) off.push_back(one.switches);
    }
    times(manners, on, [](Manner& manner, const Flags<Switch>& of) { manner.on.bits |= of.bits; });
    times(manners, off,
          [](Manner& manner, const Flags<Switch>& of) { manner.off.bits |= of.bits; });
  }
}

// Those that a setting of the trainer is about.
std::vector<RankOrder> other_orders(const Trainer& trainer, const RankOrder& usual) {
  std::vector<RankOrder> orders;
  constexpr std::string_view kKey = "order.";
  for (const auto& [key, setting] : trainer.settings) {
    if (!key.starts_with(kKey)) continue;
    const auto read = parse_layout("order=" + key.substr(kKey.size()));
    if (read && read->layout.order != usual) orders.push_back(read->layout.order);
  }
  return orders;
}

std::vector<DispatcherKind> other_dispatchers(const Trainer& trainer, DispatcherKind usual) {
  std::vector<DispatcherKind> found;
  const bool offered =
      std::any_of(trainer.settings.begin(), trainer.settings.end(),
                  [](const auto& setting) { return setting.first.starts_with("dispatcher"); });
  if (!offered) return found;
  for (const DispatcherKind kind :
       {DispatcherKind::AllGather, DispatcherKind::AllToAll, DispatcherKind::Flex}) {
    if (kind != usual) found.push_back(kind);
  }
  return found;
}

// A script of one's own has no settings, and may compile.
bool compiles_if_asked(const Trainer& trainer, const Layout& base) {
  const auto& settings = trainer.settings;
  const bool offered = settings.empty() ||
                       std::any_of(settings.begin(), settings.end(),
                                   [](const auto& setting) { return setting.first == "compile"; });
  return offered && !asks(base, Switch::Compile, trainer);
}

// What lets backward passes be split where the layout's own loss, compiled or not, does not: the
// first loss that has to be asked for, no compiling, or both.
std::vector<Manner> for_split(const Layout& base, const Trainer& trainer) {
  Layout split = base;
  split.pp = 2;
  split.schedule = ScheduleKind::ZbH1;
  if (runs_with_loss(split, trainer)) return {};
  std::vector<std::string> losses = {base.loss};
  for (const Loss& loss : trainer.losses) {
    if (base.loss.empty() && loss.use == Use::OptIn) losses.push_back(loss.name);
  }
  for (const bool compiled : {true, false}) {
    if (!compiled && !base.on.has(Switch::Compile)) break;
    const Flags<Switch> drop = compiled ? Flags<Switch>{} : Flags<Switch>{Switch::Compile};
    split.on.bits = base.on.bits & ~drop.bits;
    for (const std::string& loss : losses) {
      split.loss = loss;
      if (!runs_with_loss(split, trainer)) continue;
      return {{.order = base.order,
               .on = {},
               .off = {},
               .drop = drop,
               .loss = loss,
               .only_split = true}};
    }
  }
  return {};
}

// Without those that are another one with what is fixed.
std::vector<Manner> once_each(std::vector<Manner> manners, const Flags<Switch>& fixed) {
  const auto same = [&](const Manner& a, const Manner& b) {
    const auto rest = [&](const Manner& of) {
      return std::tuple(of.order, of.dispatcher, of.on.bits | fixed.bits, of.off.bits, of.drop.bits,
                        of.loss, of.only_split);
    };
    return rest(a) == rest(b);
  };
  std::vector<Manner> found;
  for (Manner& manner : manners) {
    const bool known = std::any_of(found.begin(), found.end(),
                                   [&](const Manner& other) { return same(other, manner); });
    if (!known) found.push_back(std::move(manner));
  }
  return found;
}

}  // namespace

bool forbids(const Trainer& trainer, const Facts& known) {
  return std::any_of(trainer.rules.begin(), trainer.rules.end(), [&](const Rule& rule) {
    return rule.severity == Severity::Forbidden && evaluate(rule, known) == Verdict::Violated;
  });
}

bool splits_tokens(const SearchQuestion& question, std::int64_t tp) {
  Facts known;
  known.set(Variable::Tp, tp);
  known.set(Variable::Sp, 1);
  return tp > 1 && question.seq % tp == 0 && !forbids(question.trainer, known);
}

bool runs_with_loss(const Layout& layout, const Trainer& trainer) {
  const std::size_t loss = running_loss(layout, trainer);
  if (loss >= trainer.losses.size()) return true;
  Facts known;
  known.set(Variable::Pp, layout.pp);
  known.set(Variable::SplitBackward, facts_of(layout.schedule).splits_backward ? 1 : 0);
  known.set(Variable::LossChunks, trainer.losses[loss].chunks);
  known.set(Variable::Compile, asks(layout, Switch::Compile, trainer) ? 1 : 0);
  return !forbids(trainer, known);
}

std::vector<Manner> manners_of(const SearchQuestion& question, const Layout& base) {
  const Trainer& trainer = question.trainer;
  std::vector<Manner> manners = {{.order = base.order, .on = {}, .off = {}, .loss = base.loss}};
  if (question.also.has(Also::Overlaps)) add_overlaps(manners, trainer);
  const bool fixed = !allows(question.limits, "dispatcher", std::string_view());
  if (question.also.has(Also::Dispatcher) && has_experts(question.model) && !fixed) {
    times(manners, other_dispatchers(trainer, base.dispatcher),
          [](Manner& manner, DispatcherKind kind) { manner.dispatcher = kind; });
  }
  if (question.also.has(Also::Order)) {
    times(manners, other_orders(trainer, base.order),
          [](Manner& manner, const RankOrder& order) { manner.order = order; });
  }
  if (question.also.has(Also::Compile) && compiles_if_asked(trainer, base)) {
    times(manners, std::array{Switch::Compile},
          [](Manner& manner, Switch compile) { manner.on.insert(compile); });
  }
  if (!question.from) {
    times(manners, for_split(base, trainer), [](Manner& manner, const Manner& split) {
      manner.loss = split.loss;
      manner.drop = split.drop;
      manner.only_split = true;
    });
  }
  return once_each(std::move(manners), fixed_switches(question.limits));
}

bool feels(const Layout& layout, const Flags<Switch>& switches) {
  const auto needs = [&](Switch what, bool there) { return !switches.has(what) || there; };
  return needs(Switch::OverlapTp, layout.tp > 1 && layout.sp) &&
         needs(Switch::OverlapGradientReduce, layout.dp * layout.cp > 1) &&
         needs(Switch::OverlapParameterGather, layout.dp * layout.cp > 1) &&
         needs(Switch::OverlapEp, layout.ep > 1) &&
         needs(Switch::OverlapSharedExperts, layout.ep > 1) &&
         needs(Switch::OverlapP2p, layout.pp > 1);
}

bool is_felt(const Manner& manner, const Layout& layout) {
  const bool several = layout.pp > 1;
  if ((manner.order != layout.order || manner.only_split) && !several) return false;
  if (manner.dispatcher && layout.ep == 1) return false;
  if ((manner.drop.bits & ~layout.on.bits) != 0) return false;  // nothing is left out
  Flags<Switch> asked = manner.on;
  asked.bits |= manner.off.bits;
  return feels(layout, asked);
}

std::vector<std::vector<std::size_t>> alike_in_memory(const std::vector<Manner>& manners) {
  const Flags<Switch> late{
      Switch::OverlapTp, Switch::OverlapGradientReduce, Switch::OverlapParameterGather,
      Switch::OverlapEp, Switch::OverlapSharedExperts,  Switch::Graphs,
      Switch::PartGraphs};
  const auto apart = [&](const Manner& of) {
    return std::tuple(of.order, of.dispatcher, of.on.bits & ~late.bits, of.off.bits, of.drop.bits,
                      of.loss, of.only_split);
  };
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < manners.size(); ++i) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& of) {
      return apart(manners[of.front()]) == apart(manners[i]);
    });
    if (group == groups.end()) {
      groups.push_back({i});
    } else {
      group->push_back(i);
    }
  }
  return groups;
}

// step.cc: what travels beside other work shows in part, at least what that work does not cover;
// with a factor below 1 it takes less alone.
bool overlaps_never_cost(const StackConstants& stack) {
  return stack.at(StackConstant::Exposed) <= 1 && stack.at(StackConstant::DataExposed) <= 1 &&
         stack.at(StackConstant::Collectives) >= 1;
}

Layout in_manner(Layout layout, const Manner& manner) {
  layout.order = manner.order;
  layout.dispatcher = manner.dispatcher.value_or(layout.dispatcher);
  layout.loss = manner.loss;
  layout.on.bits = (layout.on.bits & ~manner.drop.bits) | manner.on.bits;
  layout.off.bits |= manner.off.bits;
  return layout;
}

}  // namespace detail

std::vector<std::string> not_looked_at(const SearchQuestion& question) {
  std::vector<std::string> found;
  if (question.from) return found;
  const Layout base = usual_layout(question.trainer);
  SearchQuestion wider = question;
  wider.also = {};
  const Layout taken = detail::Recipes(question).taken(base);
  const std::size_t unasked = detail::manners_of(wider, taken).size();
  for (std::size_t i = 0; i < all_names(Also{}).size(); ++i) {
    const Also axis = static_cast<Also>(i);
    if (question.also.has(axis)) continue;
    wider.also = {axis};
    if (detail::manners_of(wider, taken).size() > unasked) found.emplace_back(all_names(Also{})[i]);
  }
  return found;
}

}  // namespace trainwright
