#include "trainwright/search/batches.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "trainwright/search/search.h"

namespace trainwright {
namespace {

constexpr std::int64_t kNear = 4;  // batches are within this part of the one asked for
constexpr std::size_t kMostBatches = 3;

Result<std::optional<Nearby>> fastest_of(const SearchQuestion& question) {
  SearchQuestion one = question;
  one.most = 1;
  one.find_smallest = one.find_riskier = one.remember = false;
  one.more_memory.reset();
  SearchResult result = TW_TRY(search(one));
  if (result.best.empty()) return std::nullopt;
  return Nearby{question.gbs, {question.cluster, std::move(result.best.front())}};
}

// With most tokens a second.
Result<std::optional<Nearby>> best_batch(const SearchQuestion& question,
                                         const std::vector<std::int64_t>& batches) {
  std::optional<Nearby> best;
  for (const std::int64_t gbs : batches) {
    SearchQuestion other = question;
    other.gbs = gbs;
    auto found = TW_TRY(fastest_of(other));
    const auto rate = [](const Nearby& of) { return tokens_per_second(of.sized.plan.time); };
    if (found && (!best || rate(*found) > rate(*best))) best = std::move(found);
  }
  return best;
}

bool has_small_factors(std::int64_t odd) {
  for (const std::int64_t prime : {3, 5}) {
    while (odd % prime == 0) odd /= prime;
  }
  return odd == 1;
}

}  // namespace

std::int64_t odd_part(std::int64_t number) {
  while (number > 1 && number % 2 == 0) number /= 2;
  return number;
}

bool splits_badly(std::int64_t gbs, std::int64_t accelerators) {
  return gbs % odd_part(accelerators) != 0;
}

std::int64_t shared_batch(const SearchQuestion& question) {
  std::int64_t shared = question.gbs;
  for (const std::int64_t gbs : question.ramp) shared = std::gcd(shared, gbs);
  return shared;
}

std::vector<LayoutViolation> violations(const SearchQuestion& question, const Layout& layout) {
  const auto asked = [&](const Layout& of) {
    return violations(of, question.job, question.model, question.cluster, question.trainer);
  };
  std::vector<LayoutViolation> found = asked(layout);
  for (const std::int64_t gbs : question.ramp) {
    if (!is_legal(found)) break;
    Layout smaller = layout;
    smaller.gbs = gbs;
    if (auto more = asked(smaller); !is_legal(more)) found = std::move(more);
  }
  return found;
}

double tokens_per_second(const StepTime& time) {
  return static_cast<double>(time.tokens.value()) / time.step.value();
}

Result<std::vector<Nearby>> nearby_batches(const SearchQuestion& question) {
  const std::int64_t world = accelerator_count(question.cluster);
  std::set<std::int64_t> smaller, larger;
  for (const std::int64_t parts : {1, 2, 4, 8}) {
    if (world % parts != 0) break;
    const std::int64_t unit = world / parts;
    const std::int64_t below = question.gbs / unit * unit, above = below + unit;
    if (below > 0 && (question.gbs - below) * kNear <= question.gbs) smaller.insert(-below);
    if ((above - question.gbs) * kNear <= question.gbs) larger.insert(above);
  }
  std::vector<Nearby> found;
  for (const bool less : {true, false}) {
    std::vector<std::int64_t> batches;  // the nearest first
    for (const std::int64_t gbs : less ? smaller : larger) batches.push_back(less ? -gbs : gbs);
    if (batches.size() > kMostBatches) batches.resize(kMostBatches);
    if (auto best = TW_TRY(best_batch(question, batches))) found.push_back(*std::move(best));
  }
  return found;
}

Result<std::vector<Nearby>> nearby_sizes(const SearchQuestion& question,
                                         const ClusterOf& cluster_of) {
  const std::int64_t world = accelerator_count(question.cluster);
  const std::int64_t node = smallest_node(question.cluster), nodes = world / node;
  const auto divides = [&](std::int64_t size) { return !splits_badly(question.gbs, size); };
  std::set<std::int64_t> smaller;
  for (std::int64_t less = nodes - 1; less > 0 && smaller.size() < 2; --less) {
    const bool smooth = has_small_factors(odd_part(less));
    if (smooth && (smaller.empty() || divides(less * node))) smaller.insert(less * node);
  }
  std::vector<Nearby> found;
  const auto on = [&](std::int64_t size) -> Result<std::optional<Nearby>> {
    const std::optional<Cluster> cluster = cluster_of(size);
    if (!cluster) return std::nullopt;
    auto one = TW_TRY(fastest_of(with_cluster(question, *cluster)));
    return one;
  };
  std::optional<Nearby> best;
  for (const std::int64_t size : smaller) {
    auto one = TW_TRY(on(size));
    const auto rate = [](const Nearby& of) { return tokens_per_second(of.sized.plan.time); };
    if (one && (!best || rate(*one) > rate(*best))) best = std::move(one);
  }
  if (best) found.push_back(*std::move(best));
  std::int64_t more = nodes + 1;
  while (more < 2 * nodes && !divides(more * node)) ++more;
  if (auto one = TW_TRY(on(more * node))) found.push_back(*std::move(one));
  return found;
}

}  // namespace trainwright
