// Batches and numbers of accelerators that divide better than those asked for, and what there is of
// a key that no layout has.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan.h"
#include "trainwright/cli/time_text.h"

namespace trainwright::cli {
namespace {

// A gain that is worth another batch.
constexpr double kWorthSaying = 0.02;

double rate_of(const PlannedLayout& plan) { return tokens_per_second(plan.time); }

// "7.80 s a step, 531,000 tokens/s (+11.2 %)"
std::string found_text(const Plan& plan, const Nearby& other) {
  const PlannedLayout& of = other.sized.plan;
  std::string text = fmt::format("{} a step, {} tokens/s", seconds_text(of.time.step),
                                 with_thousands(std::llround(rate_of(of))));
  const auto& best = plan.result.best;
  if (best.empty()) return text;
  return text + fmt::format(" ({:+.1f} %)", 100 * (rate_of(of) / rate_of(best.front()) - 1));
}

std::string size_text(const Plan& plan, const Nearby& other) {
  const std::int64_t here = accelerator_count(plan.wanted.cluster);
  const std::int64_t there = accelerator_count(other.sized.cluster);
  return fmt::format("--on {}, {}: {}", other.sized.cluster.name,
                     there < here ? fmt::format("{} left as spares", with_thousands(here - there))
                                  : fmt::format("{} more", with_thousands(there - here)),
                     found_text(plan, other));
}

// Values of a key that may be any of some: divisors of the cluster for degrees.
std::vector<std::int64_t> values_of(const std::string& key, const Wanted& wanted) {
  constexpr std::int64_t kMostValues = 64;
  const std::int64_t world = accelerator_count(wanted.cluster);
  std::vector<std::int64_t> values;
  const bool degree = key != "mbs" && key != "vpp";
  for (std::int64_t value = 1; value <= (degree ? world : kMostValues); ++value) {
    if (!degree || world % value == 0) values.push_back(value);
  }
  return values;
}

}  // namespace

std::optional<double> ramp_seconds(const Plan& plan, std::size_t stage) {
  const Wanted& wanted = plan.wanted;
  if (!wanted.ramp_tokens) return std::nullopt;
  const double each = *wanted.ramp_tokens / static_cast<double>(wanted.ramp.size());
  if (stage < plan.ramp.size()) return each / tokens_per_second(plan.ramp[stage]) / wanted.goodput;
  if (!wanted.tokens) return std::nullopt;
  const PlannedLayout& chosen = plan.result.best[plan.result.recommended];
  return std::max(*wanted.tokens - *wanted.ramp_tokens, 0.0) / rate_of(chosen) / wanted.goodput;
}

std::string ramp_text(const Plan& plan) {
  const Wanted& wanted = plan.wanted;
  if (plan.ramp.empty()) return {};
  std::vector<std::string> stages;
  const auto add = [&](std::int64_t gbs, const StepTime& time) {
    std::string text =
        fmt::format("{} {} a step, {} tokens/s", with_thousands(gbs), seconds_text(time.step),
                    with_thousands(std::llround(tokens_per_second(time))));
    if (const auto seconds = ramp_seconds(plan, stages.size())) {
      text += fmt::format(", {:.1f} days", *seconds / 86400);
    }
    stages.push_back(std::move(text));
  };
  for (std::size_t i = 0; i < plan.ramp.size(); ++i) add(wanted.ramp[i], plan.ramp[i]);
  add(wanted.gbs, plan.result.best[plan.result.recommended].time);
  return fmt::format("Batch ramp with the recommended layout: {}.", join(stages, "; "));
}

bool is_worth_saying(const Plan& plan, const Nearby& other) {
  if (plan.result.best.empty()) return true;
  const auto count = [](const Cluster& cluster) {
    return static_cast<double>(accelerator_count(cluster));
  };
  const PlannedLayout& best = plan.result.best.front();
  const double here = rate_of(best), there = rate_of(other.sized.plan);
  const double share = count(other.sized.cluster) / count(plan.wanted.cluster);
  if (share < 1) return there >= here;  // spares for nothing
  return there / share >= here * (1 + kWorthSaying);
}

Result<bool> look_nearby(Plan& plan, const SearchQuestion& question, const ClusterOf& sizes) {
  const SearchEnd end = plan.result.end;
  const bool asked = end == SearchEnd::NothingDivides || end == SearchEnd::Found;
  const std::int64_t world = accelerator_count(question.cluster);
  if (!asked || question.from || !splits_badly(question.gbs, world)) return false;
  const auto keep = [&](std::vector<Nearby> found) {
    std::erase_if(found, [&](const Nearby& other) { return !is_worth_saying(plan, other); });
    return found;
  };
  plan.nearby_batches = keep(TW_TRY(nearby_batches(question)));
  plan.nearby_sizes = keep(TW_TRY(nearby_sizes(question, sizes)));
  return true;
}

std::string nearby_text(const Plan& plan) {
  const Wanted& wanted = plan.wanted;
  if (plan.nearby_batches.empty() && plan.nearby_sizes.empty()) return {};
  const std::int64_t world = accelerator_count(wanted.cluster);
  std::vector<std::string> ways;
  for (const Nearby& other : plan.nearby_batches) {
    ways.push_back(fmt::format("--batch {}: {}", other.gbs, found_text(plan, other)));
  }
  for (const Nearby& other : plan.nearby_sizes) ways.push_back(size_text(plan, other));
  return fmt::format("{} accelerators have a factor of {} that does not divide {}. {}.",
                     with_thousands(world), with_thousands(odd_part(world)),
                     counted(wanted.gbs, "sequence", "sequences"), join(ways, "; "));
}

std::string offered_text(const Wanted& wanted) {
  SearchQuestion question = question_of(wanted);
  for (const Limit& limit : wanted.limits) {
    question.limits = {limit};
    if (!limit.kind.empty() || count_layouts(question) > 0) continue;
    std::vector<std::string> values;
    for (const std::int64_t value : values_of(limit.key, wanted)) {
      question.limits = {{.key = limit.key, .least = value, .most = value}};
      if (count_layouts(question) > 0) values.push_back(std::to_string(value));
    }
    if (!values.empty()) return fmt::format("{} may be {}.", limit.key, enumerate(values, "or"));
  }
  return {};
}

}  // namespace trainwright::cli
