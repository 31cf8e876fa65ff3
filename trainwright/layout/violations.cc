// Everything that is wrong with a layout: what is found where is in findings.h.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/layout/findings.h"
#include "trainwright/layout/layout.h"

namespace trainwright {
namespace detail {

void Findings::forbid(std::string id, std::string reason, std::string hint) {
  add({.id = std::move(id),
       .severity = Severity::Forbidden,
       .reason = std::move(reason),
       .hint = std::move(hint),
       .source = {}});
}

void Findings::advise(std::string id, std::string reason, std::string hint) {
  add({.id = std::move(id),
       .severity = Severity::Advice,
       .reason = std::move(reason),
       .hint = std::move(hint),
       .source = {}});
}

void Findings::add(LayoutViolation violation) {
  if (std::find(list_.begin(), list_.end(), violation) == list_.end()) {
    list_.push_back(std::move(violation));
  }
}

bool Findings::has(std::string_view id) const {
  return std::any_of(list_.begin(), list_.end(),
                     [&](const LayoutViolation& violation) { return violation.id == id; });
}

std::string divisors_hint(std::string_view key, std::int64_t number, std::int64_t asked) {
  constexpr std::size_t kMostShown = 12;
  if (number > kMostBatch) return fmt::format("{} must divide {}", key, number);
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    divisors.push_back(d);
    if (d != number / d) divisors.push_back(number / d);
  }
  const auto distance = [asked](std::int64_t d) { return d < asked ? asked - d : d - asked; };
  std::sort(divisors.begin(), divisors.end(), [&](std::int64_t a, std::int64_t b) {
    return std::pair(distance(a), a) < std::pair(distance(b), b);
  });
  const bool cut = divisors.size() > kMostShown;
  if (cut) divisors.resize(kMostShown);
  std::sort(divisors.begin(), divisors.end());
  std::vector<std::string> names;
  for (const std::int64_t d : divisors) names.push_back(std::to_string(d));
  return fmt::format("{} may be {}{}", key, join(names, ", "), cut ? ", ..." : "");
}

void check_rules(const Case& c, Findings& findings) {
  const Facts known = facts(c.layout, c.job, c.model, c.cluster, c.trainer, c.order);
  for (const Rule& rule : c.trainer.rules) {
    // What arithmetic has found is not said again in a trainer's words.
    if (evaluate(rule, known) != Verdict::Violated || findings.has(rule.id)) continue;
    findings.add({.id = rule.id,
                  .severity = rule.severity,
                  .reason = explain(rule.reason, known),
                  .hint = explain(rule.hint, known),
                  .source = rule.source});
  }
}

}  // namespace detail

std::vector<LayoutViolation> violations(const Layout& layout, const Job& job, const Model& model,
                                        const Cluster& cluster, const Trainer& trainer,
                                        const Schedule* order) {
  const detail::Case c{layout, job, model, cluster, trainer, order};
  detail::Findings findings;
  detail::check_ranges(c, findings);
  if (!findings.empty()) return findings.take();
  detail::check_degrees(c, findings);
  detail::check_shapes(c, findings);
  detail::check_pipeline(c, findings);
  detail::check_job(c, findings);
  detail::check_offered(c, findings);
  detail::check_rules(c, findings);
  return findings.take();
}

Diagnostics job_faults(const Job& job, const Model& model, const Trainer& trainer) {
  detail::Findings findings;
  detail::check_named(job, model, findings);
  detail::check_optimizer(job, trainer, findings);
  detail::check_base(job, trainer, findings);
  detail::check_prepared(job, trainer, findings);
  detail::check_loaded(job, trainer, findings);
  Diagnostics faults;
  for (LayoutViolation& found : findings.take()) {
    faults.push_back({"job", std::move(found.reason), std::move(found.hint)});
  }
  return faults;
}

bool is_legal(const std::vector<LayoutViolation>& violations) {
  return std::none_of(violations.begin(), violations.end(), [](const LayoutViolation& violation) {
    return violation.severity == Severity::Forbidden;
  });
}

}  // namespace trainwright
