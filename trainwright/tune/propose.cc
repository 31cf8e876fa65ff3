// The next trial, or why there is none.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "trainwright/base/text.h"
#include "trainwright/tune/normal.h"
#include "trainwright/tune/tune.h"

namespace trainwright {
namespace {

using detail::below;

bool open(std::size_t trial, std::span<const TrialOutcome> outcomes, const TuneTerms& terms) {
  std::int64_t lost = 0;
  for (const TrialOutcome& outcome : outcomes) {
    if (outcome.trial != trial) continue;
    if (blames_layout(outcome.end)) return false;
    ++lost;
  }
  return lost <= terms.repeats;
}

std::optional<std::size_t> best_of(std::span<const TrialOutcome> outcomes) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].end != TrialEnd::Ok) continue;
    if (!best || outcomes[i].step < outcomes[*best].step) best = i;
  }
  return best;
}

Seconds expected_cost(const Belief& belief, const TuneTerms& terms) {
  return terms.start_up + belief.expected * ((1 - belief.oom) * static_cast<double>(terms.steps));
}

bool over_budget(std::span<const TrialOutcome> outcomes, Seconds spent, const TuneTerms& terms) {
  const bool trials = terms.most_trials && std::ssize(outcomes) >= *terms.most_trials;
  return trials || (terms.most_time && spent >= *terms.most_time);
}

constexpr std::size_t kAlike = 3;  // layouts that fail alike before it is not the layout

// The cause that so many different layouts shared before a step, where none ran.
std::optional<std::string> shared_cause(std::span<const TrialOutcome> outcomes) {
  const auto ran = [](const TrialOutcome& outcome) { return outcome.end == TrialEnd::Ok; };
  if (std::any_of(outcomes.begin(), outcomes.end(), ran)) return std::nullopt;
  std::map<std::string, std::set<std::size_t>> trials;
  for (const TrialOutcome& outcome : outcomes) {
    const bool blamed = outcome.end == TrialEnd::Crash || outcome.end == TrialEnd::Refused;
    if (!blamed || outcome.stepped || outcome.cause.empty()) continue;
    std::set<std::size_t>& alike = trials[normalised_cause(outcome.cause)];
    alike.insert(outcome.trial);
    if (alike.size() >= kAlike) return outcome.cause;
  }
  return std::nullopt;
}

// Nothing ran yet: what is fast and likely to fit.
Proposal first_of(std::span<const Belief> beliefs, std::span<const std::size_t> left,
                  const TuneTerms& terms) {
  const auto price = [&](std::size_t i) {
    return beliefs[i].expected.value() / (1 - beliefs[i].oom);
  };
  const std::size_t first = *std::min_element(
      left.begin(), left.end(), [&](std::size_t a, std::size_t b) { return price(a) < price(b); });
  Proposal proposal;
  proposal.trial = first;
  proposal.cost = expected_cost(beliefs[first], terms);
  proposal.why = fmt::format("the fastest by prediction that is likely to fit: {}, OOM {}",
                             to_text(beliefs[first].expected), chance_text(beliefs[first].oom));
  return proposal;
}

// Whether the gain of all steps to come is worth one more trial.
bool worth(const Proposal& proposal, Seconds best, const TuneTerms& terms) {
  if (terms.run_steps <= 0) return proposal.gain >= terms.worth;
  return best * (proposal.gain * terms.run_steps) >= proposal.cost;
}

Proposal next_of(std::span<const Belief> beliefs, std::span<const std::size_t> left, Seconds best,
                 const TuneTerms& terms) {
  Proposal proposal;
  double rate = -1;
  bool reached = false;  // by any interval
  for (const std::size_t i : left) {
    const Belief& belief = beliefs[i];
    reached = reached || belief.low < best;
    const double gain = (1 - belief.oom) *
                        expected_improvement(best.value(), belief.expected.value(), belief.spread) /
                        best.value();
    const Seconds cost = expected_cost(belief, terms);
    if (gain / cost.value() <= rate) continue;
    rate = gain / cost.value();
    proposal.trial = i;
    proposal.gain = gain;
    proposal.cost = cost;
  }
  const Belief& chosen = beliefs[proposal.trial];
  if (!reached) {
    proposal.stop = TuneStop::Proven;
    proposal.why = "no layout's 90 % interval reaches the best measured step";
  } else if (!worth(proposal, best, terms)) {
    proposal.stop = TuneStop::NotWorthIt;
    proposal.why = fmt::format("the best of the others would gain {:.2f} % of a step on average",
                               100 * proposal.gain);
  } else {
    proposal.why =
        fmt::format("expected {} ({} to {}), OOM {}: gains {:.2f} % of the best step on average",
                    to_text(chosen.expected), to_text(chosen.low), to_text(chosen.high),
                    chance_text(chosen.oom), 100 * proposal.gain);
  }
  return proposal;
}

}  // namespace

std::string normalised_cause(std::string_view cause) {
  std::string text;
  bool in_number = false;
  for (std::size_t i = 0; i < cause.size(); ++i) {
    const char c = cause[i];
    const bool digit = c >= '0' && c <= '9';
    if (digit && !in_number) text += '#';
    in_number = digit;
    if (digit) continue;
    text += c;
    if (c != '\'' && c != '"') continue;
    const std::size_t end = cause.find(c, i + 1);  // what is quoted: a name, a path, a value
    if (end == std::string_view::npos) continue;
    text += c;
    i = end;
  }
  return text;
}

double expected_improvement(double best, double median, double spread) {
  if (spread <= 0) return std::max(0.0, best - median);
  const double z = std::log(best / median) / spread;
  return std::max(0.0,
                  best * below(z) - median * std::exp(spread * spread / 2) * below(z - spread));
}

Seconds trial_cost(const TuneTerms& terms, TrialEnd end, Seconds step) {
  if (end != TrialEnd::Ok) return terms.start_up;
  return terms.start_up + step * static_cast<double>(terms.steps);
}

Proposal propose(std::span<const Trial> trials, std::span<const TrialOutcome> outcomes,
                 std::span<const Belief> beliefs, const TuneTerms& terms, Seconds spent) {
  const std::optional<std::size_t> best = best_of(outcomes);
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (open(i, outcomes, terms) && beliefs[i].oom <= terms.most_oom) left.push_back(i);
  }
  Proposal proposal;
  if (const auto cause = shared_cause(outcomes)) {
    proposal.stop = TuneStop::SameCause;
    proposal.why =
        fmt::format("{} different layouts failed alike before a step, so it is not the layout: {}",
                    kAlike, *cause);
  } else if (left.empty()) {
    proposal.stop = TuneStop::NothingLeft;
    proposal.why = "all others were tried, or are too likely to run out of memory";
  } else {
    proposal =
        best ? next_of(beliefs, left, outcomes[*best].step, terms) : first_of(beliefs, left, terms);
  }
  if (proposal.stop == TuneStop::Not && over_budget(outcomes, spent, terms)) {
    proposal.stop = TuneStop::Budget;
    proposal.why = "the budget is spent; next would be " + trials[proposal.trial].layout;
  }
  proposal.best = best;
  return proposal;
}

}  // namespace trainwright
