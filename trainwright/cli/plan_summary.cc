// What `plan` answers at a glance: the recommended layout, what it trades against the next ones,
// and what to do next. The rest is behind --verbose.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/glance.h"
#include "trainwright/cli/plan.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

constexpr std::size_t kAlternatives = 2;
// The layout string stays on one line, ready to copy.
std::string chosen_text(const Plan& plan, int width) {
  const PlannedLayout& of = plan.result.best[plan.result.recommended];
  return wrapped_lines("Recommended: " + short_text(of.layout, plan.wanted), width) +
         indented(speed_text(of.time, plan.wanted.precision), width) +
         indented(fmt::format("Peak memory {} of {}, OOM probability {}",
                              to_text(of.memory.classes[of.memory.worst].driver),
                              to_text(of.memory.capacity), chance_text(of.memory.oom)),
                  width) +
         fmt::format("  --layout {}\n\n", settings_text(plan.wanted, of.layout)) +
         breakdown_text(of.time);
}

constexpr double kUnshown = 0.0005;  // would be shown as 0.0 %

// "+1.3 %", "0.0 %"
std::string slower_text(const PlannedLayout& of, const PlannedLayout& than) {
  const double share = of.time.step / than.time.step - 1;
  return std::abs(share) < kUnshown ? "0.0 %" : fmt::format("{:+.1f} %", 100 * share);
}

// The fastest of the others: how much faster or slower than the recommended one.
std::string alternatives_text(const Plan& plan, int width) {
  const SearchResult& result = plan.result;
  const PlannedLayout& chosen = result.best[result.recommended];
  Table table{{{"", Align::Right},
               {"alternatives", Align::Wrap},
               {"step", Align::Right},
               {"peak memory", Align::Right},
               {"P(OOM)", Align::Right}},
              {}};
  for (std::size_t i = 0; i < result.best.size() && table.rows.size() < kAlternatives; ++i) {
    if (i == result.recommended) continue;
    const PlannedLayout& of = result.best[i];
    table.rows.push_back(
        {fmt::format("#{}", i + 1), short_text(of.layout, plan.wanted), slower_text(of, chosen),
         to_text(of.memory.classes[of.memory.worst].driver), chance_text(of.memory.oom)});
  }
  return table.rows.empty() ? "" : '\n' + to_text(table, width);
}

// Why the recommended one is not the fastest, and what the search proves.
std::string proof_text(const Plan& plan) {
  const SearchResult& result = plan.result;
  const Seconds first = result.best.front().time.step;
  std::string text;
  if (result.recommended > 0) {
    const double less = 1 - first / result.best[result.recommended].time.step;
    text = fmt::format("#1 is {}; chosen instead for {}. ",
                       less < kUnshown
                           ? "as fast"
                           : percent(less) + " faster, within the error of such predictions",
                       chosen_for_text(plan));
  }
  if (result.proven) {
    text += fmt::format("No layout of {} is faster than {} (lower bounds).",
                        with_thousands(result.space), seconds_text(first));
  } else {
    text += fmt::format("The search was stopped: a layout that was not evaluated may take {}/step.",
                        seconds_text(result.bound));
  }
  std::vector<std::string> left = not_looked_at(question_of(plan.wanted));
  for (const ShardingKind kind : shardings_left_out(question_of(plan.wanted))) {
    left.push_back(fmt::format("--only {}", name_of(kind)));
  }
  if (!left.empty()) text += fmt::format(" Not searched: {}.", join(left, ", "));
  const std::string more = without_effect_text(plan.wanted);
  return more.empty() ? text : text + ' ' + more;
}

// What somebody who reads no further has to know, or has asked for.
bool matters(std::string_view about) {
  constexpr std::string_view kMatters[] = {"tight",   "export", "host",     "run",
                                           "within",  "doubt",  "measured", "experts",
                                           "kernels", "ramp",   "batches",  "cut-short"};
  return std::find(std::begin(kMatters), std::end(kMatters), about) != std::end(kMatters);
}

}  // namespace

std::string plan_summary(const Plan& plan, int width) {
  const Wanted& wanted = plan.wanted;
  std::string text = asked_text({wanted.model, wanted.cluster, wanted.trainer, wanted.precision,
                                 wanted.gbs, wanted.seq},
                                width) +
                     model_notes(wanted.model, width) + '\n';
  if (plan.offloads) text += "Nothing fits without offloading to the host.\n\n";
  text += chosen_text(plan, width) + alternatives_text(plan, width) + '\n';
  text += wrapped_lines(proof_text(plan), width);
  for (const PlanNote& note : plan_notes(plan)) {
    if (matters(note.about)) text += wrapped_lines(note.text, width);
  }
  return text + wrapped_lines("Next: --export DIR, --report FILE.html, --verbose.", width);
}

}  // namespace trainwright::cli
