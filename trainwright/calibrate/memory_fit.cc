// The constants of memory: which of them rows can tell, and their values.
#include "trainwright/calibrate/memory_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace trainwright {
namespace detail {
namespace {

// A hundred verdicts say something about a constant; fewer are noise.
constexpr std::int64_t kEnoughVerdicts = 100;

// Relative errors count in units of 2 %, or of what rounding leaves open; a verdict's margin in
// units of 3 % of the capacity.
double residual(const ScoredRow& row, double bytes) {
  const double excess = std::log(std::max(bytes, 1.0) / row.measured);
  if (row.verdict) return verdict_residual(excess, row.out_of_memory, 0.03);
  return excess / std::hypot(0.02, row.rounding / row.measured);
}

// Rows whose figure moves with a constant.
struct Telling {
  Indices rows;          // readings and, where there are enough, verdicts
  bool outside = false;  // some see what lies outside the allocator
  bool lead = false;     // some see how far the host is ahead
};

Telling telling_rows(const ScoredRows& scored, const Indices& among) {
  Telling found;
  Indices readings, verdicts;
  bool driver = false;
  for (const std::size_t i : among) {
    const ScoredRow& row = scored.rows[i];
    if (row.crash_likely || row.undetermined || row.broken) continue;
    const bool late = scored.estimates[row.of_case].by_lead.size() > 1;
    const bool is_driver = row.verdict || row.kind == MemoryKind::Driver;
    if (!is_driver && !(row.kind == MemoryKind::Reserved && late)) continue;
    (row.verdict ? verdicts : readings).push_back(i);
    found.lead |= late;
    driver |= is_driver && !row.verdict;
  }
  const bool enough = std::ssize(verdicts) >= kEnoughVerdicts;
  found.rows = readings;
  if (enough) found.rows.insert(found.rows.end(), verdicts.begin(), verdicts.end());
  found.outside = driver || enough;
  found.lead &= !found.rows.empty();
  return found;
}

// A row's bytes as a function of where context and communicators lie: fixed, and on the fullest of
// the ranks with and without a shared embedding a range beside them.
struct OutsideTerms {
  double fixed = 0;
  struct Ranks {
    double reserved = -1;
    BytesRange outside;
  };
  std::array<Ranks, 2> ranks{};  // without, with
};

OutsideTerms terms_of(const ScoredRow& row, const ScoredRows& scored,
                      const MemoryConstants& constants, std::optional<std::size_t> lead) {
  OutsideTerms terms;
  const FittedConstants central{0.0, lead};
  if (!row.verdict && row.kind != MemoryKind::Driver) {
    terms.fixed = predicted(row, scored, constants, central).bytes;
    return terms;
  }
  const MemoryEstimate& estimate = scored.estimates[row.of_case].at(lead.value_or(0));
  for (const RankClass& rank : estimate.classes) {
    if (row.at != ReadAt::WorstRank && rank.pipeline_rank != row.pipeline_rank) continue;
    OutsideTerms::Ranks& ranks = terms.ranks[rank.shares_embedding ? 1 : 0];
    ranks.reserved = std::max(ranks.reserved, real(rank.reserved).value());
    ranks.outside =
        estimate.outside.context + sum_of(estimate.outside.communicators, rank.shares_embedding);
  }
  return terms;
}

double bytes_at(const OutsideTerms& terms, double place) {
  double most = terms.fixed;
  for (const OutsideTerms::Ranks& ranks : terms.ranks) {
    if (ranks.reserved < 0) continue;
    const BytesRange& range = ranks.outside;
    const RealBytes end = place < 0 ? range.low : range.high;
    const RealBytes outside = range.central + (end - range.central) * std::abs(place);
    most = std::max(most, ranks.reserved + outside.value());
  }
  return most;
}

const FreeConstant kOutside{"outside",
                            "place between low and high",
                            "context and communicators",
                            "data/outside.json",
                            -1,
                            1,
                            0};

struct Candidate {
  FittedConstants constants;
  double cost = 0;
};

// The best place outside for one lead.
Candidate best_outside(const ScoredRows& scored, const Telling& telling,
                       const MemoryConstants& constants, std::optional<std::size_t> lead) {
  Candidate best;
  best.constants.lead = lead;
  std::vector<OutsideTerms> terms;
  for (const std::size_t i : telling.rows) {
    terms.push_back(terms_of(scored.rows[i], scored, constants, lead));
  }
  const auto fill = [&](std::span<const double> chosen, std::span<double> residuals) {
    const double place = chosen.empty() ? 0 : chosen[0];
    for (std::size_t i = 0; i < terms.size(); ++i) {
      residuals[i] = residual(scored.rows[telling.rows[i]], bytes_at(terms[i], place));
    }
    return true;
  };
  if (telling.outside) {
    if (const auto found = fit({kOutside}, telling.rows.size(), fill)) {
      best.constants.outside = found->values[0];
      best.cost = found->cost;
      return best;
    }
  }
  std::vector<double> residuals(telling.rows.size());
  fill({}, residuals);
  const double from = FitOptions{}.robust_from;
  for (const double signed_residual : residuals) {
    const double r = std::abs(signed_residual);
    best.cost += r <= from ? r * r / 2 : from * r - from * from / 2;
  }
  return best;
}

}  // namespace

FittedConstants fitted_on(const ScoredRows& scored, const Indices& among,
                          const MemoryConstants& constants) {
  const Telling telling = telling_rows(scored, among);
  if (telling.rows.empty()) return {};
  if (!telling.lead) return best_outside(scored, telling, constants, std::nullopt).constants;
  Candidate best = best_outside(scored, telling, constants, 0);
  for (std::size_t lead = 1; lead < kLeads.size(); ++lead) {
    Candidate other = best_outside(scored, telling, constants, lead);
    if (other.cost < best.cost) best = other;
  }
  return best.constants;
}

OwnLeads own_leads(const ScoredRows& scored, const MemoryConstants& constants) {
  std::map<std::string, Indices> by_source;
  for (std::size_t i = 0; i < scored.rows.size(); ++i) {
    by_source[scored.rows[i].source].push_back(i);
  }
  OwnLeads own;
  for (const auto& [source, mine] : by_source) {
    const FittedConstants told = fitted_on(scored, mine, constants);
    if (told.lead) own.emplace(source, *told.lead);
  }
  return own;
}

FittedConstants agreed(const OwnLeads& own, const std::string& but) {
  std::vector<std::size_t> leads;
  for (const auto& [source, lead] : own) {
    if (source != but) leads.push_back(lead);
  }
  if (leads.empty()) return {};
  std::sort(leads.begin(), leads.end());
  return {std::nullopt, leads[(leads.size() - 1) / 2]};
}

}  // namespace detail

FittedConstants fit_memory(const ScoredRows& rows, const MemoryConstants& constants,
                           const std::string& without) {
  return detail::agreed(detail::own_leads(rows, constants), without);
}

}  // namespace trainwright
