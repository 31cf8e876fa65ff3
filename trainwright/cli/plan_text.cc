// What `plan` found, in words.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/check.h"
#include "trainwright/base/text.h"
#include "trainwright/cli/plan.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/cli/unspecified_text.h"
#include "trainwright/export/export.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

// "; vpp1-16 +1.5 %": others of its family
std::string alike_text(const PlannedLayout& plan) {
  if (plan.alike.empty()) return {};
  std::int64_t least = plan.layout.vpp, most = plan.layout.vpp;
  Seconds slowest = plan.time.step;
  for (const PlannedLayout& one : plan.alike) {
    least = std::min(least, one.layout.vpp);
    most = std::max(most, one.layout.vpp);
    slowest = std::max(slowest, one.time.step);
  }
  const std::string chunks = least == most ? "others" : fmt::format("vpp{}-{}", least, most);
  return fmt::format("; {} +{}", chunks, percent(slowest / plan.time.step - 1));
}

// What these words stand for; without pipelines there are neither chunks nor schedules.
std::string alike_legend(const std::vector<PlannedLayout>& best) {
  const auto any = [&](const auto& holds) { return std::any_of(best.begin(), best.end(), holds); };
  if (!any([](const PlannedLayout& of) { return !of.alike.empty(); })) return "";
  if (any([](const PlannedLayout& of) { return of.layout.pp > 1 && !of.alike.empty(); })) {
    return "vpp1-4 +2 %, others +2 %: the same degrees with 1 to 4 virtual stages, or another "
           "schedule, "
           "split of layers, replication or recompute, are up to 2 % slower";
  }
  return "others +2 %: the same degrees with other replication or recompute are up to 2 % slower";
}

// The layout, or what of today's would change.
std::vector<std::string> row_of(const PlannedLayout& plan, const Wanted& wanted,
                                std::string place) {
  const RankClass& worst = plan.memory.classes[plan.memory.worst];
  return {std::move(place),
          wanted.from ? changes_text(*wanted.from, plan.layout)
                      : short_text(plan.layout, wanted) + alike_text(plan),
          fmt::format("{:.2f} s", plan.time.step.value()),
          percent(plan.time.mfu),
          to_text(worst.driver),
          chance_text(plan.memory.oom)};
}

// "2*" where `export` cannot write it but can write others.
std::string place_text(const Plan& plan, std::size_t row) {
  const auto& of = plan.unsayable;
  const bool all = std::none_of(of.begin(), of.end(), [](const auto& one) { return one.empty(); });
  const bool marked = !all && row < of.size() && !of[row].empty();
  return fmt::format("{}{}", row + 1, marked ? "*" : "");
}

std::string table_text(const Plan& plan, int width) {
  const SearchResult& result = plan.result;
  const Wanted& wanted = plan.wanted;
  Table table{{{"", Align::Right},
               {wanted.from ? "change" : "layout", Align::Wrap},
               {"step", Align::Right},
               {"MFU", Align::Right},
               {"peak memory", Align::Right},
               {"P(OOM)", Align::Right}},
              {}};
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    table.rows.push_back(row_of(result.best[i], wanted, place_text(plan, i)));
  }
  if (result.smallest) table.rows.push_back(row_of(*result.smallest, wanted, ""));
  return to_text(table, width);
}

std::string heading(const Wanted& wanted, int width) {
  const bool mixed = wanted.cluster.groups.size() > 1;
  std::string text = fmt::format("{} on {} with {} {}\n", wanted.model.name, wanted.cluster.name,
                                 wanted.trainer.title, to_text(wanted.trainer.version));
  text += model_notes(wanted.model, width);
  text += fmt::format("{} of {} tokens per step; {} usable {}\n",
                      counted(wanted.gbs, "sequence", "sequences"), with_thousands(wanted.seq),
                      to_text(capacity_of(wanted.cluster)),
                      mixed ? "on the smallest device" : "per device");
  text += wrapped_lines(assumed_text(wanted), width);
  const std::string recipes = recipes_text(wanted);
  if (!recipes.empty()) {
    text += wrapped_lines(fmt::format("Defaults from published recipes of {}, where valid: {}",
                                      wanted.trainer.title, recipes),
                          width);
  }
  const std::string shared = shared_text(wanted);
  if (!shared.empty()) text += wrapped_lines("All layouts with " + shared, width);
  return text;
}

// A hint in the words of a layout; the precision is an option here.
std::string as_option(const std::string& hint) {
  constexpr std::string_view kKey = "precision=";
  return hint.starts_with(kKey) ? "--precision " + hint.substr(kKey.size()) : hint;
}

// Why there is no layout to show.
std::string nothing_text(const Wanted& wanted, const SearchResult& result) {
  const std::string& trainer = wanted.trainer.title;
  if (!result.refusal && !wanted.limits.empty()) {
    SearchQuestion question = question_of(wanted);
    question.limits.clear();
    std::vector<std::string> limits;
    for (const Limit& limit : wanted.limits) limits.push_back(to_text(limit));
    const std::string offered = offered_text(wanted);
    return fmt::format("None of the {} layouts that divide has {}.{}\n",
                       with_thousands(count_layouts(question)), enumerate(limits),
                       offered.empty() ? "" : ' ' + offered);
  }
  if (!result.refusal) return "No layout divides this batch and model over the cluster.\n";
  const Refusal& refusal = *result.refusal;
  std::string text = fmt::format(
      "{} accepts no layout. {} of the {} that it was asked about fail for this reason:\n{}\n",
      trainer, with_thousands(refusal.layouts), with_thousands(refusal.refused),
      refusal.violation.reason);
  if (!refusal.violation.hint.empty()) text += "Hint: " + as_option(refusal.violation.hint) + "\n";
  return text;
}

std::string stopper(SearchStop stopped) {
  return stopped == SearchStop::Interrupt ? "Ctrl-C" : fmt::format("--{}", name_of(stopped));
}
std::string stopped_text(const SearchResult& result) {
  if (result.end == SearchEnd::NothingFits) {
    return fmt::format(
        "Nothing fits of {} layouts. Stopped by {} before the one that needs least was found.\n",
        with_thousands(result.space), stopper(result.stopped));
  }
  return fmt::format(
      "Stopped by {} before any layout that fits was found; {} of {} were evaluated.\n",
      stopper(result.stopped), with_thousands(result.evaluated), with_thousands(result.space));
}

// What was looked at, and what that proves.
std::string counts_text(const SearchResult& result, double risk) {
  if (result.cut == result.space) {
    return fmt::format(
        "Search space: {} layouts. Lower bounds of states and activations of each are too large.",
        with_thousands(result.space));
  }
  std::string text = fmt::format("Search space: {} layouts", with_thousands(result.space));
  if (result.cut > 0) {
    text +=
        fmt::format(", {} pruned (states and activations too large)", with_thousands(result.cut));
  }
  text += fmt::format(
      ", {} evaluated: {} too large, {} marginal (OOM probability above {}), {} rejected by the "
      "trainer.",
      with_thousands(result.evaluated), with_thousands(result.too_large),
      with_thousands(result.tight), risk_text(risk), with_thousands(result.refused));
  if (result.best.empty()) return text;
  if (result.proven) {
    text +=
        " #1 is optimal in this search space: lower bounds of all others are above its step time.";
    if (result.ranked < result.best.size()) {
      text += fmt::format(" Rows below #{} are the fastest of those that were evaluated.",
                          result.ranked);
    }
    return text;
  }
  return text +
         fmt::format(" Stopped by {}: a layout that was not evaluated may take {:.2f} s, {} less.",
                     stopper(result.stopped), result.bound.value(),
                     percent(1 - result.bound / result.best.front().time.step));
}

// 15e12 -> "15T"
std::string short_count(double count) {
  constexpr std::pair<double, std::string_view> kScales[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}};
  for (const auto& [scale, letter] : kScales) {
    if (count >= scale) return fmt::format("{:.4g}{}", count / scale, letter);
  }
  return fmt::format("{:.0f}", count);
}

std::string larger_text(const Plan& plan) {
  if (plan.larger) {
    return fmt::format("Fits on {}: {}", plan.larger->cluster.name,
                       short_text(plan.larger->plan.layout, plan.wanted));
  }
  if (plan.tried_times == 1) return "No larger cluster of these accelerators was found to fit.";
  return fmt::format(
      "No larger cluster of these accelerators was found to fit, of up to {} times as many.",
      plan.tried_times);
}

// "101.5 days (90.1 to 120.3)", as sure as the step's time.
std::string days_text(const Wanted& wanted, const StepTime& time) {
  const double days = cost_of(wanted, time).days;
  return fmt::format("{:.1f} days ({:.1f} to {:.1f})", days, days * (time.low / time.step),
                     days * (time.high / time.step));
}

std::string within_text(const Plan& plan) {
  const Wanted& wanted = plan.wanted;
  const std::string wish =
      fmt::format("{} tokens in {:g} days", short_count(*wanted.tokens), *wanted.within);
  std::string small = fmt::format("{} are too few for {}", wanted.cluster.name, wish);
  if (!plan.result.best.empty()) {
    small += ": they take " + days_text(wanted, plan.result.best.front().time);
  }
  if (!plan.fewest) {
    if (plan.result.best.empty()) return small + ".";
    small += ", and no larger cluster of them was found that ends in time";
    if (plan.tried_times == 1) return small + ".";
    return small + fmt::format(", of up to {} times as many. A larger batch splits over more.",
                               plan.tried_times);
  }
  const Sized& of = *plan.fewest;
  const bool more = accelerator_count(of.cluster) > accelerator_count(wanted.cluster);
  return fmt::format("{}: {}: {}, {}, {}.",
                     more ? small + ". Fewest that do it" : "Fewest accelerators for " + wish,
                     of.cluster.name, short_text(of.plan.layout, wanted),
                     seconds_text(of.plan.time.step), days_text(wanted, of.plan.time));
}

std::string front_text(const Plan& plan, int width) {
  Table table{{{"cluster", Align::Left},
               {"layout", Align::Wrap},
               {"step", Align::Right},
               {"tokens/s/device", Align::Right},
               {"free", Align::Right},
               {"OOM", Align::Right}},
              {}};
  for (const FrontPoint& point : plan.front) {
    const PlannedLayout& of = point.sized.plan;
    table.rows.push_back({point.sized.cluster.name, short_text(of.layout, plan.wanted),
                          fmt::format("{:.2f} s", of.time.step.value()),
                          fmt::format("{:.0f}", tokens_per_second_per_rank(of.time)),
                          to_text(point.free), chance_text(of.memory.oom)});
  }
  return "Pareto frontier (step time, free memory, accelerators):\n\n" + to_text(table, width);
}

std::string recommended_text(const Plan& plan_of) {
  const Wanted& wanted = plan_of.wanted;
  const SearchResult& result = plan_of.result;
  const PlannedLayout &first = result.best.front(), &plan = result.best[result.recommended];
  if (result.recommended == 0) {
    return fmt::format("Recommended: #1; no layout within {:.0f} % of it outweighs its lead.",
                       100 * plan_of.preferences.doubt);
  }
  if (!plan_of.unsayable.empty() && !plan_of.unsayable.front().empty() &&
      plan_of.unsayable[result.recommended].empty()) {
    return fmt::format(
        "Recommended: #{}, which `export` can write, {} slower than #1. Layout string: {}",
        result.recommended + 1, percent(plan.time.step / first.time.step - 1),
        settings_text(wanted, plan.layout));
  }
  return fmt::format(
      "Recommended: #{} ({}; {} slower than #1, within the error of such predictions). Layout "
      "string: {}",
      result.recommended + 1, chosen_for_text(plan_of),
      percent(plan.time.step / first.time.step - 1), settings_text(wanted, plan.layout));
}

// "15T tokens: 3,576,279 steps, 78.1 days, 1.9 million accelerator-hours, 4.8 million at 2.5 each"
std::string run_text(const Wanted& wanted, const StepTime& time) {
  std::string text;
  constexpr double kMostDigits = 1e15;  // of a whole number that people read
  const auto whole = [](double value) {
    return value < kMostDigits ? with_thousands(static_cast<std::int64_t>(value))
                               : significant(value);
  };
  if (wanted.tokens) {
    const RunCost cost = cost_of(wanted, time);
    text = fmt::format(
        "#1 for {} tokens: {} steps, {:.1f} days ({:.1f} to {:.1f}), {} "
        "accelerator-hours",
        short_count(*wanted.tokens), whole(cost.steps), cost.days,
        cost.days * (time.low / time.step), cost.days * (time.high / time.step), whole(cost.hours));
    if (wanted.price)
      text += fmt::format(", {} at {} an hour", whole(cost.hours * *wanted.price), *wanted.price);
    if (wanted.goodput < 1) text += fmt::format("; goodput {}", percent(wanted.goodput));
    text += '.';
  } else if (wanted.price) {
    const double second = *wanted.price / 3600 / tokens_per_second_per_rank(time);
    text = fmt::format("#1 costs {:.3g} per million tokens at {} per device and hour.",
                       second * 1e6 / wanted.goodput, *wanted.price);
  }
  return text;
}

// What the next family does worse, and what better.
std::string runner_up_text(const SearchResult& result) {
  const StepTime &first = result.best[0].time, &second = result.best[1].time;
  return fmt::format("#2 is {} slower than #1: {}.", seconds_text(second.step - first.step),
                     differences_text(first, second));
}

RankLoad busiest_of(const Wanted& wanted, const Layout& layout) {
  return busiest_rank(wanted.constants.expert_load, wanted.model, slice_of(layout, wanted.trainer),
                      layout.pp);
}

std::string load_text(const Wanted& wanted, const Layout& layout) {
  const ExpertLoad& load = wanted.constants.expert_load;
  return fmt::format("Expert load as {} says: in #1 {}.", load.name,
                     busiest_text(busiest_of(wanted, layout), layout.ep));
}

std::string why_not_text(const Plan& plan, int width) {
  const PlannedLayout& first = plan.result.best.front();
  const Judged one{first.layout, {}, first.time, first.memory};
  return wrapped_lines(fmt::format("Why not {}?", short_text(plan.why_not->layout, plan.wanted)),
                       width) +
         compared_text(one, *plan.why_not, plan.wanted.risk, width) +
         wrapped_lines(why_not_fits_text(plan), width);
}

}  // namespace

std::string why_not_fits_text(const Plan& plan) {
  if (!plan.why_not_fits) return {};
  const LayoutContext context = layout_context(plan.wanted.cluster, plan.wanted.trainer);
  const std::string change = change_to(to_text(plan.why_not->layout), *plan.why_not_fits, context);
  return fmt::format("It fits with {}.", change);
}

std::string job_text(const Job& job) {
  const std::string text = to_text(job), usual = to_text(Job{});
  return text.starts_with(usual + ',') ? text.substr(usual.size() + 1) : text;
}

std::string nothing_text(const Plan& plan) {
  const SearchResult& result = plan.result;
  if (result.stopped != SearchStop::Not) return stopped_text(result);
  const std::string nearby = nearby_text(plan);
  return nothing_text(plan.wanted, result) + nearby + (nearby.empty() ? "" : "\n");
}

constexpr double kNone = 0.0005;  // would be shown as 0.0 %

// The step with the fixed kind, where the clock over all of its actions tells another than the
// table.
std::string same_clock_text(const Plan& plan, const OrderedFamily& of) {
  const Seconds shown = plan.result.best[of.family].time.step;
  if (of.own.fixed / shown > 1 - kNone) return "";
  return fmt::format(" than the {} of its own schedule in the same simulation",
                     seconds_text(of.own.fixed));
}

std::string order_text(const Plan& plan) {
  if (const OrderedFamily* of = faster_order(plan)) {
    const PlannedLayout& found = of->own.plan;
    return fmt::format(
        "With a custom pipeline schedule (auto) #{} takes {}, {} less{}, {}; peak memory {}, "
        "OOM probability {}. --export with --auto-order writes it.",
        of->family + 1, seconds_text(found.time.step), percent(gain(of->own)),
        same_clock_text(plan, *of),
        gap(of->own) < kNone
            ? "and no schedule is shorter"
            : fmt::format("at most {} above the shortest schedule possible", percent(gap(of->own))),
        to_text(found.memory.classes[found.memory.worst].driver), chance_text(found.memory.oom));
  }
  const OrderedFamily& of = plan.orders.front();
  const double left = 1 - of.own.least / of.own.fixed;
  return fmt::format(
      "No custom pipeline schedule (auto) for #{} beats its {}; {}.", of.family + 1,
      name_of(plan.result.best[of.family].layout.schedule),
      left < kNone ? "none can"
                   : fmt::format("the shortest possible takes at most {} less", percent(left)));
}

namespace {

std::string reasons_text(const std::vector<Unsayable>& refused) {
  std::vector<std::string> parts;
  for (const Unsayable& one : refused) parts.push_back(fmt::format("{} ({})", one.what, one.why));
  return join(parts, "; ");
}

std::string refused_text(const Plan& plan) {
  std::string text = fmt::format("`export` cannot write it: {}.", reasons_text(not_exported(plan)));
  if (!plan.exportable) return text;
  const PlannedLayout &chosen = plan.result.best[plan.result.recommended],
                      &other = *plan.exportable;
  return text + fmt::format(" The nearest that it can write takes {}, {} more: {}",
                            seconds_text(other.time.step),
                            percent(other.time.step / chosen.time.step - 1),
                            settings_text(plan.wanted, other.layout));
}

// Of the first row that `export` cannot write, where the recommended one can be written.
std::string marked_text(const Plan& plan) {
  if (plan.unsayable.empty() || !not_exported(plan).empty()) return {};
  for (std::size_t i = 0; i < std::min(plan.unsayable.size(), plan.result.best.size()); ++i) {
    if (plan.unsayable[i].empty()) continue;
    return fmt::format("*: `export` cannot write #{}: {}.", i + 1, reasons_text(plan.unsayable[i]));
  }
  return {};
}

// What is above the risk that was asked for.
std::string tight_text(const Plan& plan) {
  return fmt::format(
      "Marginal: no layout has an OOM probability of {} or less. These have up to {} (--risk {}).",
      risk_text(plan.wanted.risk), risk_text(*plan.tight_at), *plan.tight_at);
}

// Axes that --no leaves alone, or that change numerics.
std::string left_text(const std::vector<std::string>& left) {
  return fmt::format("Not searched: {}.", enumerate(left));
}

}  // namespace

std::string chosen_for_text(const Plan& plan) {
  constexpr std::size_t kMostReasons = 3;
  const SearchResult& result = plan.result;
  if (result.recommended == 0) return {};
  const auto of_row = [&](std::size_t row) {
    return std::find_if(plan.choice.begin(), plan.choice.end(),
                        [&](const Weighed& of) { return of.layout == result.best[row].layout; });
  };
  const auto chosen = of_row(result.recommended), first = of_row(0);
  TW_CHECK(chosen != plan.choice.end() && first != plan.choice.end(), "both are weighed");
  std::vector<std::pair<double, std::string>> reasons;
  for (std::size_t i = 0; i < plan.preferences.list.size(); ++i) {
    const Preference& preference = plan.preferences.list[i];
    const double less = preference.weight * (first->amounts[i] - chosen->amounts[i]);
    if (less > 0) reasons.emplace_back(less, preference.better);
  }
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (const auto& [less, text] : reasons) {
    if (texts.size() < kMostReasons) texts.push_back(text);
  }
  return texts.empty() ? "which `export` can write" : join(texts, ", ");
}

std::vector<Unsayable> not_exported(const Plan& plan) {
  if (plan.result.best.empty() || plan.result.recommended >= plan.unsayable.size()) return {};
  return plan.unsayable[plan.result.recommended];
}

namespace {

// What was searched, what that proves, and beside it what was left alone.
void add_search_notes(const Plan& plan, std::vector<PlanNote>& notes) {
  const Wanted& wanted = plan.wanted;
  std::string text = counts_text(plan.result, plan.tight_at.value_or(wanted.risk));
  const std::vector<std::string> left = not_looked_at(question_of(wanted));
  if (!left.empty()) text += ' ' + left_text(left);
  if (const auto more = without_effect_text(wanted); !more.empty()) text += ' ' + more;
  for (const ShardingKind kind : shardings_left_out(question_of(wanted))) {
    text += fmt::format(" Not searched: {0}, which published recipes do not use (--only {0}).",
                        name_of(kind));
  }
  notes.push_back({"search", text});
}

// What is said of the recommended layout.
void add_best_notes(const Plan& plan, std::vector<PlanNote>& notes) {
  const Wanted& wanted = plan.wanted;
  const SearchResult& result = plan.result;
  const PlannedLayout& first = result.best.front();
  notes.push_back({"recommended", recommended_text(plan)});
  if (!not_exported(plan).empty()) notes.push_back({"export", refused_text(plan)});
  if (const auto text = marked_text(plan); !text.empty()) notes.push_back({"export", text});
  add_search_notes(plan, notes);
  if (result.best.size() > 1) notes.push_back({"runner-up", runner_up_text(result)});
  if (plan.with_more_memory) notes.push_back({"memory", limit_text(plan)});
  if (plan.with_offload) notes.push_back({"offload", offload_text(plan)});
  if (plan.with_lean_states && !plan.tight_at) {
    notes.push_back({"states", lean_states_text(plan)});
  }
  if (plan.with_lean_gradients && !plan.tight_at) {
    notes.push_back({"gradients", lean_gradients_text(plan)});
  }
  if (plan.with_kernels) notes.push_back({"kernels", kernels_text(plan)});
  if (plan.host) {
    notes.push_back(
        {"host", fmt::format("Host memory taken by offloading of #{}: {}, without buffers.",
                             result.recommended + 1, to_text(*plan.host))});
  }
  if (!plan.orders.empty()) notes.push_back({"order", order_text(plan)});
  if (wanted.tokens || wanted.price) notes.push_back({"run", run_text(wanted, first.time)});
  if (!plan.unspecified.empty()) {
    notes.push_back({"unspecified", unspecified_text(plan.unspecified, wanted.cluster)});
  }
}

}  // namespace

std::vector<PlanNote> plan_notes(const Plan& plan) {
  const Wanted& wanted = plan.wanted;
  const SearchResult& result = plan.result;
  std::vector<PlanNote> notes;
  if (plan.tight_at) notes.push_back({"tight", tight_text(plan)});
  if (!result.best.empty()) add_best_notes(plan, notes);
  if (result.riskier) notes.push_back({"risk", riskier_text(plan)});
  const Ground ground = ground_of(wanted.trainer, wanted.job, wanted.constants);
  if (const auto doubt = doubt_text(ground, wanted.trainer); !doubt.empty()) {
    notes.push_back({"doubt", doubt});
  }
  if (result.best.empty()) add_search_notes(plan, notes);
  if (!wanted.words.tuned.empty()) {
    notes.push_back(
        {"measured",
         tuned_text(stack_of(wanted.times.constants.stacks, wanted.trainer).constants, true)});
  }
  if (wanted.times.measured) notes.push_back({"measured", to_text(*wanted.times.measured)});
  if (!result.best.empty() && wanted.constants.expert_load.kind != ExpertLoad::Kind::Balanced) {
    notes.push_back({"experts", load_text(wanted, result.best.front().layout)});
  }
  if (wanted.within) notes.push_back({"within", within_text(plan)});
  if (plan.change) notes.push_back({"change", change_text(plan)});
  if ((result.best.empty() || plan.tight_at) && plan.with_lean_states) {
    notes.push_back({"states", lean_states_text(plan)});
  }
  if ((result.best.empty() || plan.tight_at) && plan.with_lean_gradients) {
    notes.push_back({"gradients", lean_gradients_text(plan)});
  }
  if (result.best.empty() && plan.with_kernels) notes.push_back({"kernels", kernels_text(plan)});
  if (plan.adapters) notes.push_back({"adapters", adapters_text(plan)});
  if (const auto text = ramp_text(plan); !text.empty()) notes.push_back({"ramp", text});
  if (const auto text = nearby_text(plan); !text.empty()) notes.push_back({"batches", text});
  if (result.end == SearchEnd::NothingFits || plan.tight_at) {
    notes.push_back({"larger", larger_text(plan)});
  }
  if (plan.cut_short) {
    notes.push_back(
        {"cut-short", "Time was up before everything that goes with this answer was computed."});
  }
  return notes;
}

std::string plan_text(const Plan& plan, int width) {
  const Wanted& wanted = plan.wanted;
  const SearchResult& result = plan.result;
  std::string text = heading(wanted, width) + '\n';
  const auto say = [&](const std::string& prose) { text += wrapped_lines(prose, width); };
  if (result.best.empty() && !result.smallest) {
    say(nothing_text(plan));
    return text;
  }
  if (result.best.empty()) text += "Nothing fits. The layout that needs least memory:\n\n";
  if (plan.offloads) text += "Nothing fits without offloading to the host.\n\n";
  if (plan.tight_at) text += wrapped_lines(tight_text(plan), width) + '\n';
  if (plan.today) {
    say(today_text(plan));
    for (const std::string& note : wanted.from_notes) say(note);
    text += '\n';
  }
  text += table_text(plan, width) + '\n';
  if (!wanted.from &&
      std::any_of(result.best.begin(), result.best.end(), [&](const PlannedLayout& of) {
        return !split_text(of.layout, wanted.model).empty();
      })) {
    say("a-b-c: layers of the first, the middle and the last stages");
  }
  if (const auto legend = alike_legend(result.best); !wanted.from && !legend.empty()) say(legend);
  if (!result.best.empty()) {
    say("#1: " + time_text(result.best.front().time, wanted.precision));
    say("Layout string: " + settings_text(wanted, result.best.front().layout));
  }
  for (const PlanNote& note : plan_notes(plan)) {
    if (note.about != "larger" && note.about != "tight") say(note.text);
  }
  if (!plan.front.empty()) text += '\n' + front_text(plan, width);
  if (plan.why_not && !result.best.empty()) text += '\n' + why_not_text(plan, width);
  if (result.end == SearchEnd::NothingFits || plan.tight_at) say(larger_text(plan));
  return text;
}

}  // namespace trainwright::cli
