#include "trainwright/search/late.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

namespace trainwright::detail {
namespace {

// Switches that go together, what they are told by, and the axis on which they lie.
struct Overlapping {
  Flags<Switch> switches;
  std::array<OverlapKind, 2> kinds;
};
struct Choice {
  Also axis;
  std::vector<Overlapping> list;  // one or none of them
};
// Weights are gathered behind the forward pass only where gradients are reduced behind the backward
// pass (Megatron-LM arguments.py: --overlap-param-gather).
const std::vector<Choice>& choices() {
  using Kind = OverlapKind;
  static const std::vector<Choice> all = {
      {Also::Overlaps, {{{Switch::OverlapTp}, {Kind::TensorParallel, Kind::TensorParallel}}}},
      {Also::Overlaps,
       {{{Switch::OverlapGradientReduce}, {Kind::GradientReduce, Kind::GradientReduce}},
        {{Switch::OverlapGradientReduce, Switch::OverlapParameterGather},
         {Kind::GradientReduce, Kind::ParameterGather}}}},
      {Also::Overlaps,
       {{{Switch::OverlapEp}, {Kind::ExpertAllToAll, Kind::ExpertAllToAll}},
        {{Switch::OverlapSharedExperts}, {Kind::SharedExpert, Kind::SharedExpert}}}},
      {Also::Overlaps, {{{Switch::OverlapP2p}, {Kind::PointToPoint, Kind::PointToPoint}}}},
      {Also::Graphs,
       {{{Switch::Graphs}, {Kind::Graphs, Kind::Graphs}},
        {{Switch::PartGraphs}, {Kind::PartGraphs, Kind::PartGraphs}}}},
  };
  return all;
}

bool takes_memory(const Flags<Switch>& switches) { return !Late::memory_of(switches).empty(); }

Use use_of(const Trainer& trainer, OverlapKind kind) {
  const Overlap* offered = find_kind(trainer.overlaps, kind);
  return offered == nullptr ? Use::Never : offered->use;
}

const std::string* setting_of(const Trainer& trainer, const std::string& key) {
  const auto known = std::find_if(trainer.settings.begin(), trainer.settings.end(),
                                  [&](const auto& setting) { return setting.first == key; });
  return known == trainer.settings.end() ? nullptr : &known->second;
}

// Whether the trainer has words for it: those for models with experts go before its own, and these
// before the offer's (export/switches.cc). A script of one's own needs none.
bool is_sayable(const Trainer& trainer, const Model& model, const Overlapping& one) {
  const auto unsaid = [&](OverlapKind kind) {
    const Overlap* offered = find_kind(trainer.overlaps, kind);
    return offered != nullptr && offered->setting == "-";
  };
  for (const Switch what : all_of<Switch>()) {
    if (!one.switches.has(what)) continue;
    std::string key(name_of(what));
    std::replace(key.begin(), key.end(), '-', '_');
    const std::string* said = has_experts(model) ? setting_of(trainer, key + ".experts") : nullptr;
    if (said == nullptr) said = setting_of(trainer, key);
    const bool none =
        said != nullptr ? *said == "-" : std::any_of(one.kinds.begin(), one.kinds.end(), unsaid);
    if (none) return false;
  }
  return true;
}

// Ways of one choice beside that which the trainer takes unasked.
std::vector<Switches> ways_of(const Choice& choice, const Trainer& trainer, const Model& model,
                              const Flags<Switch>& fixed) {
  std::vector<Switches> ways;
  for (const Overlapping& one : choice.list) {
    const Use first = use_of(trainer, one.kinds[0]), second = use_of(trainer, one.kinds[1]);
    if (first == Use::Never || second == Use::Never) continue;
    const bool asked = first == Use::OptIn || second == Use::OptIn;
    const bool more = (one.switches.bits & ~fixed.bits) != 0;
    if (asked && more && is_sayable(trainer, model, one)) ways.push_back({one.switches, {}});
    const bool kept = (one.switches.bits & fixed.bits) != 0;
    if (first == Use::ByDefault && !kept && takes_memory(one.switches)) {
      ways.push_back({{}, one.switches});
    }
  }
  return ways;
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

}  // namespace

bool feels(const Layout& layout, const Flags<Switch>& switches) {
  const auto needs = [&](Switch what, bool there) { return !switches.has(what) || there; };
  return needs(Switch::OverlapTp, layout.tp > 1 && layout.sp) &&
         needs(Switch::OverlapGradientReduce, layout.dp * layout.cp > 1) &&
         needs(Switch::OverlapParameterGather, layout.dp * layout.cp > 1) &&
         needs(Switch::OverlapEp, layout.ep > 1) &&
         needs(Switch::OverlapSharedExperts, layout.ep > 1) &&
         needs(Switch::OverlapP2p, layout.pp > 1);
}

Late::Late(const SearchQuestion& question, const Layout& base)
    : question_(question), rules_(question), orders_({base.order}) {
  const Trainer& trainer = question.trainer;
  for (const Choice& choice : choices()) {
    if (!question.also.has(choice.axis)) continue;
    const std::vector<Switches> before = sets_;
    for (const Switches& way : ways_of(choice, trainer, question.model, base.on)) {
      for (Switches set : before) {
        set.on.bits |= way.on.bits;
        set.off.bits |= way.off.bits;
        sets_.push_back(set);
      }
    }
  }
  if (question.also.has(Also::Order)) {
    for (const RankOrder& order : other_orders(trainer, base.order)) orders_.push_back(order);
  }
}

Flags<Switch> Late::asked(std::int32_t way) const {
  const Switches& set = sets_[static_cast<std::size_t>(way % sets())];
  Flags<Switch> asked;
  asked.bits = set.on.bits | set.off.bits;
  return asked;
}

bool Late::is_felt(const Layout& layout, std::int32_t way) const {
  return (way < sets() || layout.pp > 1) && feels(layout, asked(way));
}

std::int64_t Late::felt_by(const Layout& layout) const {
  std::int64_t felt = 0;
  for (std::int32_t set = 0; set < sets(); ++set) felt += is_felt(layout, set) ? 1 : 0;
  return felt * orders_of(layout);
}

Layout Late::in_way(Layout layout, std::int32_t way) const {
  const Switches& set = sets_[static_cast<std::size_t>(way % sets())];
  layout.on.bits |= set.on.bits;
  layout.off.bits |= set.off.bits;
  return in_order(std::move(layout), way / sets());
}

Layout Late::in_order(Layout layout, std::int32_t order) const {
  layout.order = orders_[static_cast<std::size_t>(order)];
  return layout;
}

std::int32_t Late::leanest(const Layout& layout) const {
  std::int32_t leanest = 0;
  for (std::int32_t set = 1; set < sets(); ++set) {
    const Switches& of = sets_[static_cast<std::size_t>(set)];
    // What is off is all that takes less than what the trainer does unasked.
    const bool leaner =
        of.on.empty() && of.off.count() > sets_[static_cast<std::size_t>(leanest)].off.count();
    if (leaner && is_felt(layout, set)) leanest = set;
  }
  return leanest;
}

const Late::Legal& Late::legal(const Layout& layout, std::size_t degrees,
                               const Flags<Decided>& decided) {
  static const Legal only{.sets = {{.most = true, .most_closed = true}}};
  if (sets() == 1) return only;
  const Rules::Open& open = rules_.open(layout, degrees);
  const Facts known = rules_.known(layout, decided);
  std::vector<std::int64_t> key = {open.late_number};
  key.reserve(open.late_mentioned.size() + 2);
  for (const Variable of : open.late_mentioned) {
    key.push_back(known.value(of).value_or(std::numeric_limits<std::int64_t>::min()));
  }
  key.push_back((layout.tp > 1 && layout.sp ? 1 : 0) | (layout.dp * layout.cp > 1 ? 2 : 0) |
                (layout.ep > 1 ? 4 : 0) | (layout.pp > 1 ? 8 : 0));
  const auto [found, fresh] = legal_.try_emplace(key, nullptr);
  if (!fresh) return *found->second;
  // Few answers differ.
  std::vector<Refused> refused;
  std::vector<std::int64_t> answer = {key.back(), running_bits(layout)};
  for (const Rule* rule : open.late) {
    refused.push_back(refused_by(*rule, known));
    const Refused& one = refused.back();
    if (std::none_of(one.by_setting.begin(), one.by_setting.end(), std::identity())) {
      refused.pop_back();
      continue;
    }
    answer.push_back(-1);
    answer.insert(answer.end(), one.switches.begin(), one.switches.end());
    answer.insert(answer.end(), one.by_setting.begin(), one.by_setting.end());
  }
  const auto [same, unknown] = distinct_.try_emplace(std::move(answer));
  if (unknown) same->second = legal_of(layout, refused);
  found->second = &same->second;
  return same->second;
}

// Late switches that run, unless a way says otherwise.
std::int64_t Late::running_bits(const Layout& layout) const {
  std::int64_t bits = 0;
  for (std::size_t i = 0; i < late_switches().size(); ++i) {
    if (asks(layout, late_switches()[i].what, question_.trainer)) bits |= std::int64_t{1} << i;
  }
  return bits;
}

Late::Refused Late::refused_by(const Rule& rule, Facts known) {
  Refused refused;
  const std::vector<Variable> variables = variables_in(rule);
  for (std::size_t i = 0; i < late_switches().size(); ++i) {
    const Variable of = late_switches()[i].variable;
    if (std::binary_search(variables.begin(), variables.end(), of)) refused.switches.push_back(i);
  }
  for (std::size_t setting = 0; setting < std::size_t{1} << refused.switches.size(); ++setting) {
    for (std::size_t i = 0; i < refused.switches.size(); ++i) {
      known.set(late_switches()[refused.switches[i]].variable, (setting >> i & 1U) != 0 ? 1 : 0);
    }
    refused.by_setting.push_back(evaluate(rule, known) == Verdict::Violated);
  }
  return refused;
}

Late::Legal Late::legal_of(const Layout& layout, const std::vector<Refused>& refused) const {
  Legal legal;
  for (std::int32_t number = 0; number < sets(); ++number) {
    if (!is_felt(layout, number)) continue;
    Set set{.number = number};
    const std::int64_t running = running_bits(in_way(layout, number));
    for (std::size_t i = 0; i < late_switches().size(); ++i) {
      if ((running >> i & 1) != 0) set.running.insert(late_switches()[i].what);
    }
    const bool is_refused = std::any_of(refused.begin(), refused.end(), [&](const Refused& by) {
      std::size_t setting = 0;
      for (std::size_t i = 0; i < by.switches.size(); ++i) {
        if ((running >> by.switches[i] & 1) != 0) setting |= std::size_t{1} << i;
      }
      return by.by_setting[setting];
    });
    if (is_refused) continue;
    legal.sets.push_back(set);
    legal.together.bits |= sets_[static_cast<std::size_t>(number)].on.bits;
  }
  if (legal.sets.empty()) legal.sets.push_back({.number = leanest(layout)});
  for (Set& set : legal.sets) {
    const auto covered = [&](bool closed) {
      return std::any_of(legal.sets.begin(), legal.sets.end(), [&](const Set& other) {
        return &other != &set && no_slower(other.running, set.running, closed) &&
               (!no_slower(set.running, other.running, closed) || &other < &set);
      });
    };
    set.most = !covered(false);
    set.most_closed = !covered(true);
    const std::uint32_t taken = memory_of(set.running).bits;
    set.leanest = std::none_of(legal.sets.begin(), legal.sets.end(), [&](const Set& other) {
      const std::uint32_t there = memory_of(other.running).bits;
      return (there & ~taken) == 0 && (there != taken || &other < &set);
    });
  }
  return legal;
}

bool Late::no_slower(Flags<Switch> a, const Flags<Switch>& b, bool closed) {
  // Graphs of whole layers leave no more to the host than those of parts.
  if (a.has(Switch::Graphs)) a.insert(Switch::PartGraphs);
  const bool same = a.has(Switch::OverlapP2p) == b.has(Switch::OverlapP2p);
  return (b.bits & ~a.bits) == 0 && (closed || same);
}

Flags<Switch> Late::memory_of(const Flags<Switch>& running) {
  Flags<Switch> taking;
  for (const LateSwitch& named : late_switches()) {
    if (named.takes_memory && running.has(named.what)) taking.insert(named.what);
  }
  return taking;
}

}  // namespace trainwright::detail
