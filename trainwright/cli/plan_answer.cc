// What `plan` asks the search for: the cluster at hand, clusters of other sizes, what is run today.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan.h"

namespace trainwright::cli {
namespace {

constexpr double kDay = 86400;

// "selene" of "64xselene": what comes after the last number of a cluster's name.
std::string kind_of(const Cluster& cluster, const Hardware& hardware) {
  const std::string last(split(cluster.name, 'x').back());
  return find_cluster(hardware, last) != nullptr ? last : cluster.groups.front().accelerator.name;
}

// On so many times the accelerators of the same kinds, doubling until something fits.
Result<std::optional<Sized>> smallest_that_fits(const SearchQuestion& question,
                                                const Hardware& hardware) {
  constexpr int kDoublings = 6;
  for (int i = 1; i <= kDoublings; ++i) {
    std::vector<std::string> groups;
    for (const Group& group : question.cluster.groups) {
      groups.push_back(fmt::format("{}x{}", group.count << i, group.accelerator.name));
    }
    auto cluster = parse_cluster(join(groups, "+"), hardware);
    if (!cluster) return std::nullopt;
    SearchQuestion larger = with_cluster(question, *cluster);
    larger.most = 1;
    larger.find_smallest = false;
    SearchResult result = TW_TRY(search(larger));
    if (!result.best.empty()) return Sized{*std::move(cluster), std::move(result.best.front())};
    if (result.end == SearchEnd::Stopped) break;
  }
  return std::nullopt;
}

// The fewest that end in time where all of the cluster are too few: up to 64 times as many.
Result<std::optional<Sized>> fewest_of_more(const SearchQuestion& question,
                                            const Hardware& hardware, double rate) {
  constexpr int kDoublings = 6;
  for (int i = 1; i <= kDoublings; ++i) {
    const auto cluster =
        sizes_of(question.cluster, hardware)(accelerator_count(question.cluster) << i);
    if (!cluster) return std::nullopt;
    SearchQuestion larger = with_cluster(question, *cluster);
    larger.most = 1;
    larger.find_smallest = false;
    const SearchResult result = TW_TRY(search(larger));
    if (result.end == SearchEnd::Stopped) return std::nullopt;
    if (result.best.empty()) continue;
    const double tokens = static_cast<double>(question.gbs * question.seq);
    if (tokens / result.best.front().time.step.value() < rate) continue;
    return fewest(larger, sizes_of(*cluster, hardware), rate);
  }
  return std::nullopt;
}

Result<std::vector<OrderedFamily>> orders_of(const SearchQuestion& question,
                                             const std::vector<PlannedLayout>& best) {
  std::vector<OrderedFamily> orders;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < best.size() && asked < kOrdered; ++i) {
    if (best[i].layout.pp == 1) continue;
    ++asked;
    if (auto own = TW_TRY(own_order(question, best[i]))) orders.push_back({i, *std::move(own)});
  }
  return orders;
}

}  // namespace

constexpr double kFeltGain = 1e-3;  // of a step; less is not worth a file

const OrderedFamily* faster_order(const Plan& plan) {
  const OrderedFamily* found = nullptr;
  for (const OrderedFamily& of : plan.orders) {
    if (gain(of.own) < kFeltGain) continue;
    if (found == nullptr || of.own.plan.time.step < found->own.plan.time.step) found = &of;
  }
  return found;
}

ClusterOf sizes_of(const Cluster& cluster, const Hardware& hardware) {
  const bool known = parse_cluster(cluster.name, hardware).has_value();
  return [&cluster, &hardware, known](std::int64_t count) -> std::optional<Cluster> {
    if (!known || cluster.groups.size() > 1) return std::nullopt;
    auto other = parse_cluster(fmt::format("{}x{}", count, kind_of(cluster, hardware)), hardware);
    return other ? std::optional(*std::move(other)) : std::nullopt;
  };
}

Result<Plan> plan_for(const Wanted& wanted, const SearchQuestion& asked, const Hardware& hardware) {
  SearchQuestion question = asked;
  StepModel steps = step_model(question);
  question.steps = &steps;
  question.find_riskier = true;
  question.more_memory = kMoreMemory;
  Plan plan{wanted, TW_TRY(search(question))};
  if (plan.result.end == SearchEnd::NothingFits && !asked.offload) {
    question.offload = true;
    SearchResult other = TW_TRY(search(question));
    plan.offloads = !other.best.empty();
    if (plan.offloads) plan.result = std::move(other);
    question.offload = plan.offloads;
  }
  const ClusterOf sizes = sizes_of(question.cluster, hardware);
  if (wanted.why_not) plan.why_not = TW_TRY(judged(question, *wanted.why_not));
  if (wanted.from) plan.today = TW_TRY(judged(question, *wanted.from));
  if (plan.result.stopped == SearchStop::Time || plan.result.stopped == SearchStop::Interrupt) {
    return plan;
  }
  if (plan.result.end == SearchEnd::NothingFits && !wanted.from) {
    plan.larger = TW_TRY(smallest_that_fits(question, hardware));
  }
  plan.orders = TW_TRY(orders_of(question, plan.result.best));
  if (!plan.result.best.empty()) {
    plan.with_more_memory = plan.result.proven ? std::move(plan.result.with_more_memory)
                                               : TW_TRY(fastest_with_memory(question, kMoreMemory));
  }
  if (wanted.within) {
    const double rate = *wanted.tokens / (*wanted.within * kDay * wanted.goodput);
    plan.fewest = TW_TRY(fewest(question, sizes, rate));
    const bool may_grow = !plan.fewest && !wanted.from && !plan.result.best.empty();
    if (may_grow) plan.fewest = TW_TRY(fewest_of_more(question, hardware, rate));
  }
  if (wanted.pareto) plan.front = TW_TRY(pareto_front(question, sizes));
  return plan;
}

}  // namespace trainwright::cli
