#include "trainwright/search/manners.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "trainwright/search/late.h"
#include "trainwright/search/space.h"

namespace trainwright {
namespace detail {
namespace {

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

std::vector<DispatcherKind> other_dispatchers(const Trainer& trainer, DispatcherKind usual) {
  std::vector<DispatcherKind> found;
  const bool offered =
      std::any_of(trainer.settings.begin(), trainer.settings.end(),
                  [](const auto& setting) { return setting.first.starts_with("dispatcher"); });
  if (!offered) return found;
  std::vector<DispatcherKind> kinds = {DispatcherKind::AllGather, DispatcherKind::AllToAll};
  for (const auto& backend : trainer.flex_backends) kinds.push_back(backend.kind);
  if (trainer.flex_backends.empty()) kinds.push_back(DispatcherKind::Flex);
  for (const DispatcherKind kind : kinds) {
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

// Whether `a` computes, keeps and moves no more than `b`, and rules cannot tell one from the other.
bool is_no_dearer(const Loss& a, const Loss& b) {
  const bool alike = a.by_operators == b.by_operators && a.chunks == b.chunks &&
                     a.hidden_gradient == b.hidden_gradient && a.piece_tokens == b.piece_tokens &&
                     a.pieces == b.pieces && a.piece == b.piece;
  return alike && a.forward <= b.forward && a.kept <= b.kept && a.backward <= b.backward &&
         a.left_behind <= b.left_behind && a.moved_forward <= b.moved_forward &&
         a.moved_backward <= b.moved_backward && a.split_by_tp >= b.split_by_tp &&
         a.keeps_logits <= b.keeps_logits;
}

bool is_sayable(const Loss& loss, const Trainer& trainer) {
  const auto known =
      std::find_if(trainer.settings.begin(), trainer.settings.end(),
                   [&](const auto& setting) { return setting.first == "loss." + loss.name; });
  if (known != trainer.settings.end()) return known->second != "-";
  return !trainer.settings.empty() && !loss.setting.empty() && loss.setting != "-";
}

// The layout's own (first) and those that have to be asked for, where none of them is dearer than
// another in nothing.
std::vector<std::string> losses_of(const Trainer& trainer, const Layout& base) {
  std::vector<const Loss*> asked;
  for (const Loss& loss : trainer.losses) {
    if (loss.use == Use::OptIn && is_sayable(loss, trainer)) asked.push_back(&loss);
  }
  const auto beaten = [&](const Loss& of) {
    return std::any_of(asked.begin(), asked.end(), [&](const Loss* other) {
      const bool later = &of < other && is_no_dearer(of, *other);  // of equals the first stays
      return other != &of && is_no_dearer(*other, of) && !later;
    });
  };
  std::vector<std::string> names;
  for (const bool compiled : {false, true}) {
    Layout usual = base;
    usual.on.bits &= ~Flags<Switch>{Switch::Compile}.bits;
    if (compiled) usual.on.insert(Switch::Compile);
    const std::size_t running = running_loss(usual, trainer);
    if (names.empty() && (running >= trainer.losses.size() || !beaten(trainer.losses[running]))) {
      names.emplace_back();
    }
  }
  for (const Loss* loss : asked) {
    if (!beaten(*loss)) names.push_back(loss->name);
  }
  return names;
}

bool gives_bf16_gradients(const SearchQuestion& question, const Layout& base) {
  if (base.gradients == GradientDtype::Bf16) return false;
  const auto* facts = find_kind(question.trainer.precisions, question.precision);
  if (facts == nullptr || facts->gradients.front() == name_of(GradientDtype::Bf16)) return false;
  const auto& offered = facts->gradients;
  return std::find(offered.begin(), offered.end(), name_of(GradientDtype::Bf16)) != offered.end();
}

bool is_fixed(const Limits& limits, std::string_view key) {
  return std::any_of(limits.begin(), limits.end(),
                     [&](const Limit& limit) { return limit.key == key; });
}

// The first loss that lets backward passes be split where the layout's own does not.
std::vector<std::string> losses_for_split(const Layout& base, const Trainer& trainer) {
  Layout split = base;
  split.pp = 2;
  split.schedule = ScheduleKind::ZbH1;
  if (!base.loss.empty() || runs_with_loss(split, trainer)) return {};
  for (const Loss& loss : trainer.losses) {
    split.loss = loss.name;
    if (loss.use == Use::OptIn && runs_with_loss(split, trainer)) return {loss.name};
  }
  return {};
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
  std::vector<Manner> manners;
  const bool asks_for_loss =
      question.also.has(Also::Loss) && !is_fixed(question.limits, "loss") && base.loss.empty();
  for (const std::string& loss :
       asks_for_loss ? losses_of(trainer, base) : std::vector{base.loss}) {
    manners.push_back({.loss = loss});
  }
  if (question.also.has(Also::Dispatcher) && has_experts(question.model) &&
      !is_fixed(question.limits, "dispatcher")) {
    times(manners, other_dispatchers(trainer, base.dispatcher),
          [](Manner& manner, DispatcherKind kind) { manner.dispatcher = kind; });
  }
  if (question.also.has(Also::Compile) && compiles_if_asked(trainer, base)) {
    times(manners, std::array{Switch::Compile},
          [](Manner& manner, Switch compile) { manner.on.insert(compile); });
  }
  if (question.also.has(Also::Bf16Gradients) && !is_fixed(question.limits, "gradients") &&
      gives_bf16_gradients(question, base)) {
    times(manners, std::array{GradientDtype::Bf16},
          [](Manner& manner, GradientDtype kind) { manner.gradients = kind; });
  }
  if (question.from) return manners;
  std::vector<std::string> for_split = losses_for_split(base, trainer);
  std::erase_if(for_split, [&](const std::string& loss) {
    return std::any_of(manners.begin(), manners.end(),
                       [&](const Manner& manner) { return manner.loss == loss; });
  });
  times(manners, for_split, [](Manner& manner, const std::string& loss) {
    manner.loss = loss;
    manner.only_split = true;
  });
  return manners;
}

bool is_felt(const Manner& manner, const Layout& layout) {
  if (manner.only_split && layout.pp == 1) return false;
  return !manner.dispatcher || layout.ep > 1;
}

Layout in_manner(Layout layout, const Manner& manner) {
  layout.dispatcher = manner.dispatcher.value_or(layout.dispatcher);
  layout.gradients = manner.gradients.value_or(layout.gradients);
  layout.loss = manner.loss;
  layout.on.bits |= manner.on.bits;
  return layout;
}

}  // namespace detail

namespace {

SearchQuestion without_axes(SearchQuestion question) {
  question.also = {};
  return question;
}

}  // namespace

std::vector<std::string> not_looked_at(const SearchQuestion& question) {
  std::vector<std::string> found;
  if (question.from) return found;
  const Layout base = usual_layout(question.trainer);
  for (std::size_t i = 0; i < all_names(Also{}).size(); ++i) {
    const Also axis = static_cast<Also>(i);
    if (question.also.has(axis)) continue;
    SearchQuestion one = question;
    one.also = {axis};
    const detail::Late late(one, base);
    const bool choice = late.sets() * late.orders() > 1 || detail::gathers_in_8_bits(one) ||
                        detail::manners_of(one, base).size() >
                            detail::manners_of(without_axes(question), base).size();
    if (choice) found.emplace_back(all_names(Also{})[i]);
  }
  return found;
}

}  // namespace trainwright
